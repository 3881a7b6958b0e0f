"""Coherent trust: every pair of instruction and grounding is asked, and the mixtures are those of one joint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from howsure.errors import InputError, RunMismatch
from howsure.studies.trust.coherent import coherent
from scripted import Scorer, Writer, action_json, verbalized_json

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "l.txt").write_text("go to the lamp\ngo to the chair\n")
    (tmp_path / "s.txt").write_text("- Stairs are steep.\n\n- Roofs leak.\n")
    return {"instructions": tmp_path / "l.txt", "groundings": tmp_path / "s.txt"}


def decided(_: str, text: str) -> list[float]:
    """The first grounding leaves it to the instruction, the second does not."""
    raise AssertionError("replaced below")


class Paper(Scorer):
    """Up where the roof leaks; otherwise up for the lamp and down for the chair."""

    def __init__(self) -> None:
        super().__init__(decided)

    def try_score(self, items: Any, **options: Any) -> Any:
        def table(condition: str, text: str) -> list[float]:
            assert condition == "X|L,S", "nothing is ever asked without both"
            return [0.0, -math.inf] if self._up else [-math.inf, 0.0]

        found = []
        for item in items:
            self._up = "Roofs leak." in item.prefix[0].content or "the lamp" in item.prefix[1].content
            self._table = table
            found += super().try_score([item], **options)
        return found


def test_on_paper(tmp_path: Path, sets: dict[str, Path]) -> None:
    """p(up) = 3/4; given the steep stairs 1/2, given the leaking roof 1: I(X;S) = H(3/4) − 1/2, I(X;S,L) = H(3/4)."""
    found = coherent("MiniGrid-Empty-8x8-v0", Paper(), out=tmp_path / "run", states=3, **sets)
    whole = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    assert len(found.samples) == 3
    for sample in found.samples:
        assert sample.result["entropy_H_X"] == pytest.approx(whole, abs=1e-12)
        assert sample.result["entropy_H_X_given_S"] == pytest.approx(0.5, abs=1e-12)
        assert sample.result["entropy_H_X_given_LS"] == pytest.approx(0.0, abs=1e-12)
        assert sample.result["trust_T"] == pytest.approx((whole - 0.5) / whole, abs=1e-12)
    assert found.summary["trust"]["value"] == pytest.approx((whole - 0.5) / whole, abs=1e-9)
    assert len({(s.result["agent_x"], s.result["agent_y"]) for s in found.samples}) == 3, "along the shortest way"


@pytest.mark.parametrize("option", [{"temperature": 0.5}, {"top_logprobs": 5}, {"max_tokens": 9}])
def test_another_way_of_asking_is_another_run(tmp_path: Path, sets: dict[str, Path], option: dict[str, Any]) -> None:
    model = Writer(lambda messages, number: action_json("down"))
    found = coherent("walls", model, evidence="logprobs", view="text", out=tmp_path / "run", states=2, **sets)
    assert found.summary["coverage"]["text"] == "scored 2 of 2"
    with pytest.raises(RunMismatch, match=next(iter(option))):
        coherent("walls", model, evidence="logprobs", view="text", out=tmp_path / "run", states=2, **sets, **option)


def test_what_lies_outside_of_the_actions_counts_as_one_outcome(tmp_path: Path, sets: dict[str, Path]) -> None:
    """Each token has 0.8, so that 0.2 is no action: H(X|L,S) is that of 0.8 and 0.2, and I(X;S) is nothing."""
    model = Writer(lambda messages, number: action_json("up" if "the lamp" in messages[-1].content else "down"))
    found = coherent("walls", model, evidence="logprobs", view="text", out=tmp_path / "run", states=1, **sets)
    open_bits = -(0.8 * math.log2(0.8) + 0.2 * math.log2(0.2))
    assert found.samples[0].result["entropy_H_X_given_LS"] == pytest.approx(open_bits, abs=1e-9)
    assert found.samples[0].result["entropy_H_X"] == pytest.approx(open_bits + 0.8, abs=1e-9)
    assert np.array(found.samples[0].result["p"]).sum(axis=-1) == pytest.approx(np.ones((2, 2)))


def test_a_joint_that_tells_nothing_has_no_trust(tmp_path: Path, sets: dict[str, Path]) -> None:
    model = Scorer(lambda condition, text: [0.0, -1.0, -2.0, -3.0])
    found = coherent("walls", model, out=tmp_path / "run", states=2, **sets)
    assert [sample.result["trust_T"] for sample in found.samples] == [None, None]
    assert found.summary["trust"]["value"] is None


def test_fewer_states_than_asked_for_are_told(tmp_path: Path, sets: dict[str, Path]) -> None:
    found = coherent("MiniGrid-Empty-5x5-v0", Paper(), out=tmp_path / "run", states=50, **sets)
    assert len(found.samples) == 4
    assert any("50 states were asked for, and the way from the start has 4" in note for note in found.summary["notes"])


def test_verbalized_probabilities_make_a_joint_too(tmp_path: Path, sets: dict[str, Path]) -> None:
    def write(messages: Any, number: int) -> str:
        return verbalized_json([1, 0, 0, 0] if "the lamp" in messages[-1].content else [0, 1, 0, 0])

    model = Writer(write)
    found = coherent("walls", model, evidence="verbalized", view="text", out=tmp_path / "run", states=1, **sets)
    assert found.samples[0].result["entropy_H_X"] == pytest.approx(1.0)
    assert found.samples[0].result["information_S_bits"] == pytest.approx(0.0)
    assert found.samples[0].result["trust_T"] == pytest.approx(0.0)


def test_a_pair_without_a_distribution_is_missing(tmp_path: Path, sets: dict[str, Path]) -> None:
    model = Scorer(lambda condition, text: None if "the chair" in text else [0.0, -1.0])
    found = coherent("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", states=2, **sets)
    assert [sample.reason for sample in found.samples] == ["too_long", "too_long"]
    assert "2 of 4 pairs" in (found.samples[0].detail or "")
    assert found.summary["trust"]["value"] is None
    assert found.summary["coverage"]["text"] == "scored 0 of 2; 2 missing: 2 too long"


@pytest.mark.parametrize(
    ("told", "known", "words"),
    [
        ("only one\n", "a\n\nb\n", "1 instruction"),
        ("one\ntwo\n", "a\n", "1 grounding,"),
        ("go home now\nstay\n", "You should go home now.\n\nb\n", "holds an instruction"),
    ],
)
def test_sets_that_cannot_be_used(tmp_path: Path, told: str, known: str, words: str) -> None:
    (tmp_path / "l.txt").write_text(told)
    (tmp_path / "s.txt").write_text(known)
    with pytest.raises(InputError, match=words):
        coherent(
            "empty", Scorer(decided), instructions=tmp_path / "l.txt", groundings=tmp_path / "s.txt", out=tmp_path / "r"
        )
