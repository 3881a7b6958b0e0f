"""Positions and masks of a batch, as one kind of network wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.models.hf.families import TEXT_ONLY, Family
from howsure.models.hf.pixels import Pixels
from howsure.models.packing import PackedBatch
from howsure.models.text import Encoded

Ints = NDArray[np.int64]


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
                place = len(item.context)
                out[:, i, :place] = self.context_positions(item.context, seen)
                out[:, i, place:] += out[:, i, :place].max() + 1 - place
        return out

    def sequence_positions(self, item: Encoded, length: int, seen: Pixels | None) -> Ints:
        """The same for one continuation by itself, of `length` tokens in all."""
        plain = np.arange(length, dtype=np.int64)
        if not self.family.grid_positions:
            return plain[None] + self.family.first_position
        out = np.stack([plain] * 3)[:, None]
        if seen is not None:
            place = len(item.context)
            out[:, 0, :place] = self.context_positions(item.context, seen)
            out[:, 0, place:] += out[:, 0, :place].max() + 1 - place
        return out

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
