"""Images for a network: what tokens stand for one, its pixels as the network wants them, who sees whom.

What differs between kinds of network is a table, `FAMILIES`. A kind that is not in it goes by its processor, and
whether it can be packed is tried with an image when it is loaded. transformers' image processors do the work; its
whole processors are avoided where the kind of network is known: some cannot be opened without packages for video,
which nothing here needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from howsure.errors import HowsureError, InputError, UnusableImage, WeightsError
from howsure.models.hf.files import ModelFiles
from howsure.models.hf.loading import explained
from howsure.models.images import Picture, Size, area_limited

Pixels = Mapping[str, Any]
"""What an image processor gives for one image: tensors by name."""

_NOT_FOR_THE_NETWORK = frozenset({"rows", "cols", "num_crops"})

Block = Callable[[Any, Any, str, Size], str]
"""(configuration, image processor, image token, size) → text."""


@dataclass(frozen=True)
class Family:
    """One kind of image-text network.

    block           gives the text that its own processor puts there for an image of a given size
    image_text      what stands for an image in a plain prompt, None where the image's tokens simply come first
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


class ImageInput:
    """How images enter one image-text network: the tokens that stand for them, and their pixels."""

    def __init__(
        self,
        files: ModelFiles,
        config: Any,
        tokenizer: Any,
        trust_remote_code: bool = False,
        max_pixels: int | None = None,
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.family = family_of(config.model_type)
        self._files = files
        self._source = files.source
        self._trust = trust_remote_code
        self._max_pixels = max_pixels
        self._blocks: dict[Size, tuple[int, ...]] = {}

    @cached_property
    def image_token_id(self) -> int:
        for name in ("image_token_id", "image_token_index"):
            token_id = getattr(self.config, name, None)
            if isinstance(token_id, int):
                return token_id
        raise WeightsError(f"the configuration of {self._source} names no image token, so its images cannot be placed")

    @cached_property
    def image_token(self) -> str:
        token = self.tokenizer.convert_ids_to_tokens(self.image_token_id)
        if not isinstance(token, str):
            raise WeightsError(
                f"the tokenizer of {self._source} has no token {self.image_token_id}, which its configuration names as "
                "that of an image; they do not belong together"
            )
        return token

    @cached_property
    def placeholder(self) -> str:
        """What a prompt holds where an image belongs, before its tokens are put there."""
        if self.family.image_text is None:
            return "<image>"
        if self.family.block is not None:
            return self.image_token
        for name in ("boi_token", "image_token"):
            token = getattr(self._processor, name, None)
            if isinstance(token, str):
                return token
        return self.image_token

    @cached_property
    def placeholder_id(self) -> int:
        if self.family.image_text is None:
            return self.image_token_id
        return int(self.tokenizer.convert_tokens_to_ids(self.placeholder))

    @cached_property
    def image_processor(self) -> Any:
        from transformers import AutoImageProcessor

        with explained(self._files.path, "image processor"):
            processor = AutoImageProcessor.from_pretrained(self._files.path, trust_remote_code=self._trust)
            if self._max_pixels is None:
                return processor
            self._check_limit(processor)
            least, most = min(processor.size["shortest_edge"], self._max_pixels), self._max_pixels
            return AutoImageProcessor.from_pretrained(
                self._files.path,
                trust_remote_code=self._trust,
                # Under both names that they have: some releases ignore `max_pixels` alone, and `size` alone counts for
                # nothing where a checkpoint's own file says `max_pixels`, as those of Qwen2-VL and Qwen2.5-VL do.
                size={"shortest_edge": least, "longest_edge": most},
                min_pixels=least,
                max_pixels=most,
            )

    def _check_limit(self, processor: Any) -> None:
        if self.family.seen is None:
            raise InputError(
                f"max_pixels limits the area of an image, and {self._source} brings every image to sizes of its own: "
                "leave it out"
            )
        least = (processor.patch_size * processor.merge_size) ** 2
        if self._max_pixels is not None and self._max_pixels < least:
            raise InputError(f"max_pixels must be at least {least}, which is one token of {self._source}")

    def seen_size(self, size: Size) -> Size | None:
        """Width and height of an image of this size as the network gets it; None where that is not told here."""
        if self.family.seen is None:
            return None
        with _usable(f"an image of {size[0]}×{size[1]} pixels"):
            return self.family.seen(self.image_processor, size)

    @cached_property
    def chat_template(self) -> str | None:
        """The tokenizer's, or the one that older checkpoints keep in a file for the processor."""
        if self.tokenizer.chat_template is not None:
            return str(self.tokenizer.chat_template)
        template = self._files.config("chat_template.json").get("chat_template")
        return template if isinstance(template, str) else None

    def block(self, size: Size) -> tuple[int, ...]:
        """The tokens that stand for an image of this size."""
        if size not in self._blocks:
            with _usable(f"an image of {size[0]}×{size[1]} pixels"):
                self._blocks[size] = self._find_block(size)
        return self._blocks[size]

    def _find_block(self, size: Size) -> tuple[int, ...]:
        if self.family.block is None:
            return self._block_of_processor(size)
        if self.family.image_text is None:
            return (self.image_token_id,) * len(self.family.block(self.config, self.image_processor, "x", size))
        text = self.family.block(self.config, self.image_processor, self.image_token, size)
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _block_of_processor(self, size: Size) -> tuple[int, ...]:
        """What the network's own processor writes in place of the image token, for a blank image of this size."""
        from PIL import Image

        blank = Image.new("RGB", size)
        with explained(self._files.path, "processor"):
            row = self._processor(text=[self.placeholder], images=[[blank]])["input_ids"][0]
        ids = [int(i) for i in row]
        alone = list(self.tokenizer(self.placeholder)["input_ids"])
        before = alone.index(self.placeholder_id)
        after = len(alone) - before - 1
        return tuple(ids[before : len(ids) - after])

    @cached_property
    def _processor(self) -> Any:
        from transformers import AutoProcessor

        with explained(self._files.path, "processor"):
            return AutoProcessor.from_pretrained(self._files.path, trust_remote_code=self._trust)

    def pixels(self, picture: Picture) -> Pixels:
        """An image as the network takes it; raises in one sentence where the file has changed or cannot be used."""
        return self.pixels_of(picture.load(), picture.path)

    def pixels_of(self, image: Any, name: str) -> Pixels:
        with _usable(f"image {name}"):
            tensors = self.image_processor(images=[[image]] if self.family.nested else [image], return_tensors="pt")
        return {name: tensor for name, tensor in tensors.items() if name not in _NOT_FOR_THE_NETWORK}


@contextmanager
def _usable(what: str) -> Iterator[None]:
    """Processors raise anything at all for shapes that they cannot take, such as a line of pixels."""
    try:
        yield
    except HowsureError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        raise UnusableImage(f"{what} cannot be prepared for the model: {words}") from error


def batched(rows: Sequence[Pixels], device: Any = "cpu") -> dict[str, Any]:
    """The pixels of several images as one batch on a device: along the first axis, the others filled up with zeros."""
    import torch

    out = {}
    for name in rows[0]:
        tensors = [torch.as_tensor(row[name]).to(device, non_blocking=True) for row in rows]
        shape = [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
        out[name] = torch.cat([_padded(tensor, shape) for tensor in tensors])
    return out


def ready_for(pixels: Pixels, network: Any) -> Pixels:
    """In the network's own precision, and where a GPU fetches them fastest; the network would convert them itself."""
    import torch

    pinned = network.device.type == "cuda"
    out = {}
    for name, value in pixels.items():
        tensor = torch.as_tensor(value)
        exact = tensor.to(network.dtype) if tensor.is_floating_point() else tensor
        out[name] = exact.pin_memory() if pinned else exact
    return out


def _padded(tensor: Any, shape: Sequence[int]) -> Any:
    if list(tensor.shape[1:]) == list(shape):
        return tensor
    wide = tensor.new_zeros((tensor.shape[0], *shape))
    wide[tuple(slice(size) for size in tensor.shape)] = tensor
    return wide
