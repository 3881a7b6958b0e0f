"""What a Qwen-VL network sees of an image: the size, and the limit on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import howsure
from howsure.errors import HowsureError, InputError, UnusableImage
from howsure.models.contract import Message
from howsure.models.images import area_limited, inspect_picture
from tiny_vision import build_vision, picture

SIDES = st.integers(1, 8000)


@given(SIDES, SIDES, st.sampled_from([16, 28, 32]), st.integers(1, 10_000_000), st.integers(1, 20_000_000))
def test_sizes_are_those_of_transformers(width: int, height: int, side: int, least: int, most: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    least = min(least, most)
    try:
        expected = smart_resize(height, width, side, least, most)
    except ValueError:
        with pytest.raises(UnusableImage, match=f"{width}×{height}"):
            area_limited((width, height), side, least, most)
        return
    assert area_limited((width, height), side, least, most) == expected[::-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_vision("qwen3_vl", tmp_path_factory.mktemp("qwen"))


@pytest.mark.parametrize(("most", "seen"), [(None, (144, 96)), (4096, (64, 48)), (256, (16, 16))])
def test_a_limit_is_what_the_network_really_sees(
    folder: Path, tmp_path: Path, most: int | None, seen: tuple[int, int]
) -> None:
    image = inspect_picture(picture(tmp_path / "a.png", 300, 200))
    model = howsure.load(f"hf:{folder}", lazy=True, max_pixels=most)
    assert model.limits_pixels
    assert model.architecture == "qwen3_vl"
    assert model.seen_size(image) == seen
    _, rows, columns = model.image_input.pixels(image)["image_grid_thw"][0].tolist()
    assert (columns * 8, rows * 8) == seen
    assert len(model.image_input.block((300, 200))) == seen[0] * seen[1] // 256
    assert ("max_pixels" in model.fingerprint()) == (most is not None)


@pytest.mark.parametrize("with_size", [False, True])
def test_a_limit_holds_where_the_checkpoint_names_its_own_pixels(folder: Path, tmp_path: Path, with_size: bool) -> None:
    """As the published files of Qwen2-VL and Qwen2.5-VL do, which would win over `size`."""
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    written = json.loads((model / "preprocessor_config.json").read_text())
    size = written.pop("size")
    pixels = {"min_pixels": 3136, "max_pixels": 12_845_056, **({"size": size} if with_size else {})}
    (model / "preprocessor_config.json").write_text(json.dumps(written | pixels))
    image = inspect_picture(picture(tmp_path / "a.png", 300, 200))
    for most, seen in ((None, (304, 192)), (4096, (64, 48)), (256, (16, 16))):
        opened = howsure.load(f"hf:{model}", lazy=True, max_pixels=most)
        assert opened.seen_size(image) == seen
        _, rows, columns = opened.image_input.pixels(image)["image_grid_thw"][0].tolist()
        assert (columns * 8, rows * 8) == seen


def test_a_limit_changes_what_is_answered(folder: Path, tmp_path: Path) -> None:
    image = inspect_picture(picture(tmp_path / "a.png", 300, 200))
    asked = [(Message("user", "where?", (image,)),)]
    whole, small = (howsure.load(f"hf:{folder}", max_pixels=most) for most in (None, 1024))
    assert whole.generate(asked, max_tokens=8)[0].logprobs != small.generate(asked, max_tokens=8)[0].logprobs
    assert whole.counters.tokens_run - small.counters.tokens_run == 54 - 2


def test_a_small_image_is_not_enlarged_beyond_the_limit(folder: Path, tmp_path: Path) -> None:
    """The checkpoint wants 1,024 pixels at least."""
    image = inspect_picture(picture(tmp_path / "a.png", 16, 16))
    assert howsure.load(f"hf:{folder}", lazy=True).seen_size(image) == (32, 32)
    assert howsure.load(f"hf:{folder}", lazy=True, max_pixels=256).seen_size(image) == (16, 16)


def test_limits_that_cannot_be(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 256"):
        howsure.load(f"hf:{folder}", lazy=True, max_pixels=255).image_input.block((64, 64))
    llava = howsure.load(f"hf:{build_vision('llava', tmp_path)}", lazy=True, max_pixels=4096)
    assert not llava.limits_pixels
    assert llava.seen_size(inspect_picture(picture(tmp_path / "a.png", 30, 20))) is None
    with pytest.raises(HowsureError, match="sizes of its own"):
        llava.image_input.block((64, 64))
