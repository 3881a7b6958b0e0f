"""Models with eyes on this machine: tiny random Qwen3-VL, seeing the frames, by exact scores and in writing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.runs.run import prepared
from howsure.studies.trust import TRUST, TrustOptions, trust
from howsure.studies.trust.episode import Episode
from tiny_vision import build_vision

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_vision("qwen3_vl", tmp_path_factory.mktemp("qwen3_vl"))


def test_the_picture_is_looked_at_in_every_condition(folder: Path, tmp_path: Path) -> None:
    model = howsure.load(f"hf:{folder}")
    found = trust("empty", model, out=tmp_path / "run", max_steps=2)
    assert found.summary["view"] == "image"
    assert not found.failed
    assert model.counters.images_run == 6, "three conditions in each of two steps"
    # The same prompts without their picture give other probabilities: it is not only carried along.
    shares = []
    for view in ("image", "text"):
        with prepared(TRUST, TrustOptions("empty", model, view=view)) as ready:
            config = ready.plans[0].how
            prompts = Episode(config, 1, ready.items.knowledge).prompts()
            shares.append(config.elicitor.ask(prompts)[0].record.probabilities)
    seen, unseen = shares
    assert seen is not None
    assert unseen is not None
    assert seen == found.samples[0].result["conditions"]["X"]["probabilities"]
    assert not np.allclose(list(seen.values()), list(unseen.values()), atol=1e-6)
    model.close()


def test_it_writes_after_looking_too(folder: Path, tmp_path: Path) -> None:
    """Random weights write no JSON: every answer is there, none is an action, and each says why."""
    options = {"evidence": "logprobs", "view": "both", "max_steps": 1, "max_tokens": 12}
    found = trust("empty", f"hf:{folder}", out=tmp_path / "run", **options)
    assert found.failed
    for one in found.summary["answers"].values():
        assert one["asked"] == sum(one["entropy_missing"].values()) == 1
        assert set(one["entropy_missing"]) <= {"no_json", "bad_json"}
