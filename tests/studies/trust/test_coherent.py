"""Coherent trust: every pair of instruction and grounding is asked, and the mixtures are those of one joint."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from howsure.errors import InputError, RunMismatch
from howsure.measures import coherent_null, coherent_trust, nats_to_bits
from howsure.runs import Sample
from howsure.studies.trust.coherent import CoherentSummary, Sets, coherent, judge
from howsure.studies.trust.record import CoherentRecord
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
    # Of the four pairs one goes down. Wherever it is put, one column has it, so that T is the same in all orders.
    null = found.summary["trust"]["null"]
    assert (null["mean"], null["high"]) == pytest.approx(((whole - 0.5) / whole,) * 2, abs=1e-9)
    assert (null["share_at_least"], null["arrangements"]) == (1.0, 24)
    figures = {figure["name"]: figure for figure in found.summary["headline"]}
    value = (whole - 0.5) / whole
    assert figures["coherent trust T"]["note"] == (
        f"of these 3 states; not above what wording alone gives: {value:.3f} on average, {value:.3f} or less in "
        "19 of 20"
    )
    assert all(figure["low"] is None for figure in figures.values()), "one walk has no interval"
    assert figures["I(X;S,L)"]["value"] == pytest.approx(whole, abs=1e-9)
    assert not any("ordering" in name for name in figures), "it holds by itself"
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
    assert found.summary["trust"]["null"] is None
    assert found.summary["headline"][0]["note"].startswith("not identified: I(X;S,L) of 0 bits is below the floor")


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
    assert found.summary["trust"]["reason"] == "no state has an answer for every pair"
    assert found.summary["coverage"]["text"] == "scored 0 of 2; 2 missing: 2 too long"


# -- the summary of states, on tables written here --------------------------------------------------------------------


def judged(tables: list[Any], seed: int = 0) -> CoherentSummary:
    """The summary of states with these p[l, s, x], and of one that has no answer for some pair."""
    told, known = np.array(tables[0]).shape[:2]
    samples = []
    for i, table in enumerate(tables):
        one = coherent_trust(table)
        record = CoherentRecord(
            p=np.array(table).tolist(),
            entropy_h_x=nats_to_bits(one.h_x_nats),
            entropy_h_x_given_s=nats_to_bits(one.h_x_given_s_nats),
            entropy_h_x_given_ls=nats_to_bits(one.h_x_given_ls_nats),
            information_s_bits=nats_to_bits(one.information_s_nats),
            information_ls_bits=nats_to_bits(one.information_sl_nats),
        )
        samples.append(Sample(f"state-{i}", i, record, {}))
    samples.append(Sample("state-x", len(tables), CoherentRecord(), {}, reason="too_long"))
    sets = Sets([f"l{i}" for i in range(told)], [[f"s{i}"] for i in range(known)])
    return judge(samples, sets, asked_states=len(samples), seed=seed)


def noise(states: int, told: int, known: int, seed: int) -> list[Any]:
    """Every prompt has an answer of its own, whatever it says: nothing but its wording counts."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(4), size=(told, known))
    return [shares for _ in range(states)]


def test_wording_noise_is_told_from_grounding() -> None:
    """2 × 8 prompts that differ by their wording alone: T is about .47, and no more than noise."""
    found = judged(noise(3, 2, 8, seed=1))
    null = found["trust"]["null"]
    assert null["mean"] == pytest.approx(7 / 15, abs=0.02)
    assert found["trust"]["value"] < null["high"]
    assert "not above what wording alone gives" in found["headline"][0]["note"]
    clear = np.zeros((2, 8, 4))
    for s in range(8):
        clear[:, s, s % 4] = 1.0
    found = judged([0.9 * clear + 0.1 * table for table in noise(3, 2, 8, seed=2)])
    assert found["trust"]["value"] > 0.9 > found["trust"]["null"]["high"]
    note = found["headline"][0]["note"]
    assert note.startswith("of these 3 states; wording alone gives 0.5")
    assert "not above" not in note
    assert (found["states"].count, found["states"].of) == (3, 4)
    plain = msgspec.to_builtins(found)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_trust_over_states_is_the_ratio_of_their_summed_informations() -> None:
    first, second = noise(1, 3, 3, seed=3)[0], noise(1, 3, 3, seed=4)[0]
    parts = [coherent_trust(table) for table in (first, second)]
    ratio = sum(one.information_s_nats for one in parts) / sum(one.information_sl_nats for one in parts)
    found = judged([first, second])
    assert found["trust"]["value"] == pytest.approx(ratio, rel=1e-12)
    null = coherent_null([first, second], seed=0)
    assert null is not None
    assert msgspec.to_builtins(found["trust"]["null"]) == dataclasses.asdict(null)


def test_an_information_too_small_to_have_shares() -> None:
    even = np.full((2, 4, 2), 0.5)
    even[0, 0] = [0.51, 0.49]
    found = judged([even])
    assert found["trust"]["value"] is None
    assert "is below the floor of 0.01 bits: too small to have shares" in found["headline"][0]["note"]
    assert 0 < found["headline"][2]["value"] < 0.01


def test_so_few_pairs_that_no_trust_could_stand_out() -> None:
    """Two by two can be arranged in three ways: the rarest of them comes up in a third of all cases."""
    table = np.zeros((2, 2, 2))
    table[:, 0, 0] = table[:, 1, 1] = 1.0
    found = judged([table])
    assert found["trust"]["value"] == 1.0
    assert found["trust"]["null"]["share_at_least"] == pytest.approx(1 / 3)
    assert "not above what wording alone gives" in found["headline"][0]["note"]
    assert any("can be arranged in 3 ways only" in note for note in found["notes"])
    assert not any("ways only" in note for note in judged(noise(1, 2, 4, seed=0))["notes"])


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
