"""What differs between kinds of image-text network: where the image stands, and who sees whom.

`image_text` is what stands for an image in a plain prompt, `None` where the image's tokens simply come first.
`block` gives the text that the network's own processor puts there for an image of a given size. A kind that is not in
the table goes by its processor, and whether it can be packed is tried with an image when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from howsure.models.resizing import Size, area_limited

Block = Callable[[Any, Any, str, Size], str]
"""(configuration, image processor, image token, size) → text."""


@dataclass(frozen=True)
class Family:
    """One kind of image-text network.

    prefix_lm       the prefix attends both ways, the continuation is causal
    first_position  the position of the first token
    grid_positions  image tokens have positions in time, height and width (M-RoPE)
    begin_token     the prompt begins with the tokenizer's begin token, after the image
    nested          its image processor wants a list of images for each text
    pieces          the vision tower runs over all images in one sequence, in pieces that do not see each other
    seen            the size that an image is brought to, for kinds that keep its shape and limit its area
    """

    block: Block | None = None
    image_text: str | None = "{image}"
    prefix_lm: bool = False
    first_position: int = 0
    grid_positions: bool = False
    begin_token: bool = False
    nested: bool = False
    pieces: bool = False
    seen: Callable[[Any, Size], Size] | None = None


def _qwen(config: Any, processor: Any, token: str, size: Size) -> str:
    patches = processor.get_number_of_image_patches(size[1], size[0], {})
    return token * int(patches // config.vision_config.spatial_merge_size**2)


def _qwen_seen(processor: Any, size: Size) -> Size:
    side, limits = processor.patch_size * processor.merge_size, processor.size
    return area_limited(size, side, limits["shortest_edge"], limits["longest_edge"])


def _square(config: Any, processor: Any, token: str, size: Size) -> str:
    vision = config.vision_config
    return token * int(vision.image_size // vision.patch_size) ** 2


def _llava(config: Any, processor: Any, token: str, size: Size) -> str:
    crop, patch = processor.crop_size, config.vision_config.patch_size
    whole = config.vision_feature_select_strategy == "full"
    return token * int((crop["height"] // patch) * (crop["width"] // patch) + whole)


def _tiles(config: Any, processor: Any, token: str, size: Size) -> str:
    """Idefics3 and SmolVLM: the image in tiles, row by row, then the whole of it."""
    vision = config.vision_config
    tile = token * int((vision.image_size // vision.patch_size) ** 2 / config.scale_factor**2)
    _, rows, columns = processor.get_number_of_image_patches(size[1], size[0], {})
    around = "<fake_token_around_image>"
    lines = ["".join(f"{around}<row_{r}_col_{c}>{tile}" for c in range(1, columns + 1)) for r in range(1, rows + 1)]
    split = "".join(f"{line}\n" for line in lines) + "\n" if lines else ""
    return f"{split}{around}<global-img>{tile}{around}"


_QWEN = Family(_qwen, "<|vision_start|>{image}<|vision_end|>", grid_positions=True, pieces=True, seen=_qwen_seen)
_TILED = Family(_tiles, nested=True)

FAMILIES: dict[str, Family] = {
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
    "qwen3_vl_moe": _QWEN,
    "paligemma": Family(_square, None, prefix_lm=True, first_position=1, begin_token=True),
    "idefics3": _TILED,
    "smolvlm": _TILED,
    "llava": Family(_llava, "{image}\n"),
}

TEXT_ONLY = Family(image_text=None)
"""What a text model is, in these terms."""


def family_of(model_type: str) -> Family:
    return FAMILIES.get(model_type, Family())
