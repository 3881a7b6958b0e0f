"""The frames that models write in, which model has which, and the way to the 0–1000 frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.answers.parse import Reading, read_answer
from howsure.studies.grounding.frames import FRAMES, frame_for, frame_named, qwen25_seen_size

IMAGE, SEEN = (1920, 1080), (1288, 728)


@pytest.mark.parametrize(
    ("name", "written", "expected"),
    [
        ("relative-1000", (500, 250), (500, 250)),
        ("relative-999", (999, 0), (1000, 0)),
        ("fraction", (0.5, 0.25), (500, 250)),
        ("percent", (50, 25), (500, 250)),
        ("resized-pixels", (644, 182), (500, 250)),
        ("pixels", (960, 270), (500, 250)),
        ("relative-1000-yx", (250, 500), (500, 250)),
    ],
)
def test_by_hand(name: str, written: tuple[float, float], expected: tuple[float, float]) -> None:
    assert FRAMES[name].to_thousand(*written, image_size=IMAGE, seen_size=SEEN) == pytest.approx(expected)


def test_every_frame_has_words_an_example_and_a_name() -> None:
    assert list(FRAMES) == [
        *("relative-1000", "relative-999", "fraction", "percent", "resized-pixels", "pixels", "relative-1000-yx")
    ]
    for name, frame in FRAMES.items():
        assert (frame.name, frame_named(name)) == (name, frame)
        assert frame.asks
        assert frame.means
        x, y = frame.to_thousand(*map(float, frame.example), image_size=IMAGE, seen_size=SEEN)
        assert 0 < x < 1000
        assert 0 < y < 1000


@given(st.sampled_from(sorted(FRAMES)), st.floats(0, 1000), st.floats(0, 1000))
def test_corners_and_proportions(name: str, x: float, y: float) -> None:
    """Twice as far is twice as far in every frame, and the origin is the origin."""
    frame = FRAMES[name]
    once = frame.to_thousand(x, y, image_size=IMAGE, seen_size=SEEN)
    twice = frame.to_thousand(2 * x, 2 * y, image_size=IMAGE, seen_size=SEEN)
    assert twice == pytest.approx((2 * once[0], 2 * once[1]))
    assert frame.to_thousand(0, 0, image_size=IMAGE, seen_size=SEEN) == (0, 0)


def test_a_frame_of_resized_pixels_needs_that_size() -> None:
    with pytest.raises(InputError, match="--max-pixels.*--frame"):
        FRAMES["resized-pixels"].to_thousand(1, 2, image_size=IMAGE)
    assert FRAMES["resized-pixels"].needs_seen_size
    assert not FRAMES["pixels"].needs_seen_size
    assert FRAMES["pixels"].to_thousand(1920, 1080, image_size=IMAGE) == (1000, 1000)


def test_named_axes_mean_what_they_say_in_any_order() -> None:
    frame = FRAMES["relative-1000-yx"]
    assert frame.place_of(read_answer("[200, 100]"), image_size=IMAGE) == (100, 200)
    assert frame.place_of(read_answer('{"x": 100, "y": 200}'), image_size=IMAGE) == (100, 200)
    assert frame.place_of(read_answer("[190, 80, 210, 120]"), image_size=IMAGE) == (100, 200)
    assert FRAMES["relative-1000"].place_of(read_answer("x=100, y=200"), image_size=IMAGE) == (100, 200)
    assert frame.place_of(Reading("refusal"), image_size=IMAGE) is None


def test_an_unknown_frame_is_told_all_names() -> None:
    with pytest.raises(InputError, match="relative-1000.*resized-pixels"):
        frame_named("thousand")


@pytest.mark.parametrize(
    ("model", "architecture", "frame", "why"),
    [
        ("hf:Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl", "relative-1000", "the architecture qwen3_vl"),
        ("hf:/models/mine", "qwen3_vl_moe", "relative-1000", "the architecture qwen3_vl_moe"),
        ("hf:/models/mine", "qwen2_5_vl", "resized-pixels", "the architecture qwen2_5_vl"),
        ("hf:/models/mine", "qwen2_vl", "relative-1000", "the architecture qwen2_vl"),
        ("openai:qwen3-vl-8b", None, "relative-1000", "Qwen3-VL"),
        ("openai:Qwen/Qwen2.5-VL-72B-Instruct", None, "resized-pixels", "Qwen2.5-VL"),
        ("openai:qwen2-vl-7b", None, "relative-1000", "Qwen2-VL"),
        ("hf:ByteDance-Seed/UI-TARS-1.5-7B", "qwen2_5_vl", "resized-pixels", "UI-TARS-1.5"),
        ("hf:bytedance-research/UI-TARS-7B-DPO", "qwen2_vl", "relative-1000", "UI-TARS"),
        ("openai:ui_tars_1.5", None, "resized-pixels", "UI-TARS-1.5"),
        ("hf:OS-Copilot/OS-Atlas-Base-7B", "qwen2_vl", "relative-1000", "OS-Atlas"),
        ("hf:showlab/ShowUI-2B", "qwen2_vl", "fraction", "ShowUI"),
        ("hf:cckevinn/SeeClick", "qwen", "fraction", "SeeClick"),
        ("hf:xlangai/Aguvis-7B-720P", "qwen2_vl", "fraction", "Aguvis"),
        ("hf:THUDM/cogagent-9b-20241220", "chatglm", "relative-1000", "CogAgent"),
        ("hf:allenai/Molmo-7B-D-0924", "molmo", "percent", "Molmo"),
        ("hf:allenai/Molmo2-8B", "molmo2", "relative-1000", "by default"),
        ("openai:OpenGVLab/InternVL3-8B", None, "relative-1000", "InternVL"),
        ("gemini:gemini-2.5-pro", None, "relative-1000-yx", "Gemini"),
        ("openai:gpt-4o", None, "relative-1000", "by default"),
        ("hf:/data/notshowui", "llava", "relative-1000", "by default"),
    ],
)
def test_which_model_has_which(model: str, architecture: str | None, frame: str, why: str) -> None:
    found, reason = frame_for(model, architecture)
    assert found.name == frame
    assert why in reason


def test_the_size_that_a_server_of_qwen25_sees() -> None:
    """1920 × 1080 in multiples of 28, worked out by hand; a limit of 1280 tokens shrinks it by √(2073600 / 1003520)."""
    assert qwen25_seen_size((1920, 1080)) == (1932, 1092)
    assert qwen25_seen_size((1920, 1080), 1280 * 28 * 28) == (1316, 728)
    assert qwen25_seen_size((20, 20)) == (56, 56)


def test_no_limit_on_pixels_is_the_published_one() -> None:
    assert qwen25_seen_size((1920, 1080), 0) == qwen25_seen_size((1920, 1080)) == (1932, 1092)
