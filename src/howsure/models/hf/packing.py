"""The items of a batch as rows: how they are laid out, where each token stands, what it sees, and attention over them.

A packed row is the context followed by every suffix without its last token. Each suffix continues the context's
positions and sees the context and itself only, so one pass over P + Σ(c_i − 1) tokens gives every continuation
exactly the probabilities that it would have alone. In a batch the contexts are filled up to one length C, so that the
suffixes of all rows begin at the same place.

Attention goes where transformers lets others plug in theirs. The mask holds only the suffixes' rows: [batch, 1,
suffixes, C + suffixes]. So the contexts, which are nearly all of the work, run as one plain causal attention (or both
ways, in a prefix-LM) through the fastest kernel there is, without a [length × length] mask in memory; only the few
suffix tokens need one. Everything else (no mask, a whole mask, a step of generation) goes to transformers' own.

Some vision towers run attention once for every image, or every window of an image; ours does all pieces of one length
at once. They also cut patches out with a convolution whose step is its width, which is a matrix product; convolutions
of that shape are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import linear, scaled_dot_product_attention

from howsure.models.hf.pixels import TEXT_ONLY, Family, Pixels
from howsure.models.text import Encoded, Ints

CAUSAL = "howsure_packed"
BOTH_WAYS = "howsure_packed_prefix_lm"
IMAGES = "howsure_flash_images"
"""transformers hands whole batches of images only to what has `flash` in its name."""


class PackedRow(NamedTuple):
    """One item laid out: `segments` is 0 in the context and 1, 2, … in the suffixes, −1 in padding."""

    ids: Ints
    positions: Ints
    segments: Ints
    reads: Ints
    """For each token to be scored, in order of the continuations: the place whose output predicts it."""
    targets: Ints

    @property
    def tokens(self) -> int:
        return int((self.segments >= 0).sum())


class PackedBatch(NamedTuple):
    """Rows padded to one length; padding is segment −1. `split` is where the suffixes of all rows begin.

    Where every item has one continuation at most there is nothing to keep apart: rows are then simple sequences, each
    suffix right after its context, and `split` is None.
    """

    ids: Ints
    positions: Ints
    segments: Ints
    rows: list[PackedRow]
    split: int | None = None

    def visible(self, *, both_ways: bool = False, start: int = 0) -> NDArray[np.bool_]:
        """[rows, length − start, length]: which place, from `start` on, may look at which.

        Padding sees itself, so that no row is empty. With `both_ways` the tokens of a context see each other, before
        and after; suffixes stay causal.
        """
        query, key = self.segments[:, start:, None], self.segments[:, None, :]
        places = np.arange(self.ids.shape[1])
        order = places[start:, None] >= places[None, :]
        allowed = (key == 0) | (key == query)
        if both_ways:
            order = order | ((query == 0) & (key == 0))
        seen: NDArray[np.bool_] = (allowed & (query >= 0) & order) | (places[start:, None] == places[None, :])
        return seen


def pack(items: Sequence[Encoded], pad_id: int) -> PackedBatch:
    """Lay the items out as rows of one batch."""
    simple = all(sum(map(bool, item.suffixes)) <= 1 for item in items)
    split = None if simple else max(len(item.context) for item in items)
    rows = [_pack_row(item, pad_id, split) for item in items]
    shape = (len(rows), max(len(row.ids) for row in rows))
    ids = np.full(shape, pad_id, dtype=np.int64)
    positions, segments = np.zeros(shape, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        positions[i, : len(row.ids)] = row.positions
        segments[i, : len(row.ids)] = row.segments
    return PackedBatch(ids, positions, segments, rows, split)


def _pack_row(item: Encoded, pad_id: int, split: int | None) -> PackedRow:
    context = len(item.context)
    gap = 0 if split is None else split - context
    ids, positions = [*item.context, *[pad_id] * gap], [*range(context), *[0] * gap]
    segments = [0] * context + [-1] * gap
    reads: list[int] = []
    targets: list[int] = []
    for number, suffix in enumerate(item.suffixes, 1):
        if not suffix:
            continue
        start = len(ids)
        reads += [context - 1, *range(start, start + len(suffix) - 1)]
        targets += suffix
        ids += suffix[:-1]
        positions += range(context, context + len(suffix) - 1)
        segments += [number] * (len(suffix) - 1)
    columns = (ids, positions, segments, reads, targets)
    return PackedRow(*(np.array(column, dtype=np.int64) for column in columns))


class Layout(NamedTuple):
    """What the places of a sequence are called, and who may look at whom."""

    family: Family = TEXT_ONLY
    image_token_id: int | None = None
    merge: int = 1
    """Patches of an image that share a token, along one side."""

    @classmethod
    def of(cls, family: Family, image_token_id: int, config: Any) -> Layout:
        merge = getattr(getattr(config, "vision_config", None), "spatial_merge_size", 1)
        return cls(family, image_token_id, merge)

    def positions(self, batch: PackedBatch, items: Sequence[Encoded], pixels: Sequence[Pixels | None]) -> Ints:
        """[rows, length]; where positions have axes (time, height, width): [3, rows, length]."""
        if not self.family.grid_positions:
            return batch.positions + self.family.first_position
        out = np.stack([batch.positions] * 3)
        for i, (item, seen) in enumerate(zip(items, pixels, strict=True)):
            if seen is not None:
                self._place_image(out[:, i], item.context, seen)
        return out

    def sequence_positions(self, item: Encoded, length: int, seen: Pixels | None) -> Ints:
        """The same for one continuation by itself, of `length` tokens in all."""
        plain = np.arange(length, dtype=np.int64)
        if not self.family.grid_positions:
            return plain[None] + self.family.first_position
        out = np.stack([plain] * 3)[:, None]
        if seen is not None:
            self._place_image(out[:, 0], item.context, seen)
        return out

    def _place_image(self, positions: Ints, context: Sequence[int], seen: Pixels) -> None:
        """In the positions [3, length] of one row; what follows the context counts on from its largest."""
        place = len(context)
        positions[:, :place] = self.context_positions(context, seen)
        positions[:, place:] += positions[:, :place].max() + 1 - place

    def context_positions(self, context: Sequence[int], seen: Pixels) -> Ints:
        """M-RoPE: a text token counts on; an image is a grid that counts on by its longer side."""
        _, rows, columns = (int(n) for n in np.asarray(seen["image_grid_thw"])[0])
        rows, columns = rows // self.merge, columns // self.merge
        start = list(context).index(self.image_token_id)  # type: ignore[arg-type]
        end = start + rows * columns
        out = np.stack([np.arange(len(context), dtype=np.int64)] * 3)
        down, across = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
        out[:, start:end] = start + np.stack([np.zeros_like(down), down, across])
        out[:, end:] += start + max(rows, columns) - end
        return out

    def simple(self, batch: PackedBatch) -> bool:
        """Whether the rows are plain causal sequences, so that padding says it all."""
        return batch.split is None and not self.family.prefix_lm

    def contexts_are_plain(self, batch: PackedBatch) -> bool:
        """Whether the contexts need no mask of their own: causal ones never see the padding after them."""
        if batch.split is None:
            return False
        return not self.family.prefix_lm or bool((batch.segments[:, : batch.split] == 0).all())

    def token_types(self, item: Encoded, length: int) -> Ints:
        """For one continuation by itself: 0 in the prefix and 1 after it, or 1 for the tokens of an image."""
        if self.family.prefix_lm:
            return (np.arange(length) >= len(item.context)).astype(np.int64)
        image = np.zeros(length, dtype=np.int64)
        image[: len(item.context)] = np.asarray(item.context) == self.image_token_id
        return image


# -- attention ---------------------------------------------------------------------------------------------------------


def plug_in(network: Any, family: Family) -> bool:
    """Attention for packed rows, where the network takes its attention from outside; whether it does."""
    text = network.config.get_text_config()
    if text._attn_implementation != "sdpa":
        return False
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for name, function in ((CAUSAL, _causal), (BOTH_WAYS, _both_ways), (IMAGES, _images)):
        AttentionInterface.register(name, function)  # once more changes nothing
        AttentionMaskInterface.register(name, sdpa_mask)
    text._attn_implementation_internal = BOTH_WAYS if family.prefix_lm else CAUSAL
    if family.pieces and network.config.vision_config._attn_implementation == "sdpa":
        network.config.vision_config._attn_implementation_internal = IMAGES
        embed = network.base_model.visual.patch_embed
        if not isinstance(embed.proj, Patches):
            embed.proj = Patches(embed.proj)
    return True


def _causal(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **rest: Any) -> tuple[Any, None]:
    return _packed(module, query, key, value, attention_mask, rest, True)


def _both_ways(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **rest: Any) -> tuple[Any, None]:
    return _packed(module, query, key, value, attention_mask, rest, False)


def _packed(
    module: Any, query: Any, key: Any, value: Any, mask: Any, rest: dict[str, Any], is_causal: bool
) -> tuple[Any, None]:
    places = query.shape[2]
    if mask is None or mask.shape[2] == places or key.shape[2] != places:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        attended: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, mask, **rest)
        return attended
    split, scale = places - mask.shape[2], rest.get("scaling")
    contexts = scaled_dot_product_attention(
        query[:, :, :split], key[:, :, :split], value[:, :, :split],
        is_causal=is_causal, scale=scale, enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    if not mask.shape[2]:
        return contexts.transpose(1, 2).contiguous(), None
    suffixes = _grouped(query[:, :, split:], key, value, mask, scale)
    return torch.cat([contexts, suffixes], dim=2).transpose(1, 2).contiguous(), None


def _grouped(query: Any, key: Any, value: Any, mask: Any, scale: float | None) -> Any:
    """Heads that share keys become more queries of one head, so that no key is copied."""
    batch, heads, places, width = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(batch, key.shape[1], groups * places, width)
    values = scaled_dot_product_attention(folded, key, value, attn_mask=mask.repeat(1, 1, groups, 1), scale=scale)
    return values.reshape(batch, heads, places, value.shape[-1])


class Patches(torch.nn.Module):  # type: ignore[misc]
    """A convolution over patches that do not overlap, as the matrix product that it is."""

    def __init__(self, convolution: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(convolution.weight.flatten(1), requires_grad=False)
        self.bias = convolution.bias

    def forward(self, patches: Any) -> Any:
        return linear(patches.flatten(1), self.weight, self.bias)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _images(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *,
    cu_seq_lens_q: Any = None, max_length_q: int | None = None, **rest: Any,
) -> tuple[Any, None]:  # fmt: skip
    """[1, heads, patches, width] in pieces that end at `cu_seq_lens_q`; a piece sees itself only.

    Not compiled with the layer around it: every new set of image sizes would be compiled again.
    """
    scale, patches = rest.get("scaling"), query.shape[2]
    if cu_seq_lens_q is None:
        out = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scale)
        return out.transpose(1, 2).contiguous(), None
    if max_length_q is not None and (cu_seq_lens_q.shape[0] - 1) * max_length_q == patches:
        return _pieces(query, key, value, int(max_length_q), scale), None
    out = torch.empty_like(query).transpose(1, 2)
    for length, places in _places(cu_seq_lens_q):
        out[:, places] = _pieces(query[:, :, places], key[:, :, places], value[:, :, places], length, scale)
    return out, None


def _pieces(query: Any, key: Any, value: Any, length: int, scale: float | None) -> Any:
    """Attention within consecutive pieces of one length; [1, patches, heads, width]."""
    heads, width = query.shape[1], query.shape[3]

    def split(tensor: Any) -> Any:
        return tensor[0].transpose(0, 1).reshape(-1, length, heads, width).transpose(1, 2)

    out = scaled_dot_product_attention(split(query), split(key), split(value), scale=scale)
    return out.transpose(1, 2).reshape(1, -1, heads, width)


def _places(ends: Any) -> list[tuple[int, Any]]:
    """For each length the places of all pieces that have it."""
    sizes = torch.diff(ends.cpu())
    starts = ends.cpu()[:-1]
    by_length = []
    for length in sorted(set(sizes.tolist())):
        begin = starts[sizes == length]
        by_length.append((length, (begin[:, None] + torch.arange(length)).reshape(-1).to(ends.device)))
    return by_length
