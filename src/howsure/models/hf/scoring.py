"""Log-probabilities of continuations by forward passes, with every shared token run once.

Two ways, which give the same numbers. `packed`: one row an item, as `hf.packing` lays it out, with the
vocabulary head run only on the places that are read, a slice at a time. `plain`: one continuation at a time through
the network's own forward. Packing needs a network that takes its attention mask and positions from outside; the
way is chosen by trying both on a small item when the model is loaded.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from howsure.models.builtin import cache_folder
from howsure.models.contract import Counters
from howsure.models.hf.packing import Layout, PackedBatch, pack, plug_in
from howsure.models.hf.pixels import Pixels, batched
from howsure.models.text import Encoded

HEAD_ROWS = 256
"""Rows of [rows × vocabulary] that are in memory at once."""

TOLERANCE_NATS = {torch.float32: 1e-3, torch.float64: 1e-6}
HALF_PRECISION_TOLERANCE_NATS = 0.5
"""Two ways of computing one bf16 network differ by up to 0.2 nats on unlikely tokens; a wrong mask by far more."""


class Readout(NamedTuple):
    """What was read for the tokens of one item, in order: columns of equal length."""

    logprobs: NDArray[Any]
    entropies: NDArray[Any] | None
    top_ids: NDArray[Any] | None
    top_logprobs: NDArray[Any] | None

    @classmethod
    def of(cls, columns: Iterable[NDArray[Any] | None]) -> Readout:
        logprobs, entropies, top_ids, top_logprobs = columns
        assert logprobs is not None
        return cls(logprobs, entropies, top_ids, top_logprobs)


class Wanted(NamedTuple):
    top: int = 0
    entropies: bool = False


class Scorer:
    """Runs encoded items through one network.

    `pixels` are those of the items' images, in order; None for an item without one. `trial` is an item with an image
    and its pixels, for a kind of network that is not known to pack well.
    """

    def __init__(
        self,
        network: Any,
        pad_id: int,
        counters: Counters,
        layout: Layout | None = None,
        trial: tuple[Encoded, Pixels] | None = None,
    ) -> None:
        self.network = network
        self.pad_id = pad_id
        self.device = network.device
        self.layout = layout or Layout()
        window = getattr(network.config.get_text_config(), "sliding_window", None)
        self.window: int | None = window if isinstance(window, int) else None
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self.plugged_in = plug_in(network, self.layout.family)
        self.counters = Counters()  # the trial is not the user's work
        # A language model inside a larger one may have its output scaled there, or not: what agrees is right.
        self.bends_logits = True
        if not (agrees := self._packing_agrees(trial)):
            self.bends_logits = False
            agrees = self._packing_agrees(trial)
        self.way = "packed" if agrees else "plain"
        self.counters = counters

    def run(
        self, items: Sequence[Encoded], wanted: Wanted, pixels: Sequence[Pixels | None] | None = None
    ) -> list[Readout]:
        """One readout an item. Out of memory, the batch is halved until it fits."""
        seen = list(pixels) if pixels is not None else [None] * len(items)
        longest = max(item.tokens for item in items)
        if self.way == "plain" or (self.window is not None and longest > self.window and not self._simple(items)):
            return [self.run_plain(item, wanted, one) for item, one in zip(items, seen, strict=True)]
        try:
            return list(self.run_packed(items, wanted, seen))
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or len(items) == 1:
                raise
        half = len(items) // 2
        return self.run(items[:half], wanted, seen[:half]) + self.run(items[half:], wanted, seen[half:])

    def _simple(self, items: Sequence[Encoded]) -> bool:
        """Whether rows are plain causal sequences, for which the network makes its masks itself, sliding ones too."""
        return not self.layout.family.prefix_lm and all(len(item.suffixes) <= 1 for item in items)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def run_packed(
        self, items: Sequence[Encoded], wanted: Wanted, pixels: Sequence[Pixels | None] | None = None
    ) -> list[Readout]:
        seen = list(pixels) if pixels is not None else [None] * len(items)
        batch = pack(items, self.pad_id)
        tokens = sum(row.tokens for row in batch.rows)
        self.counters.calls += 1
        self.counters.tokens_run += tokens
        self.counters.padding_run += batch.ids.size - tokens
        output = self.network.base_model(
            input_ids=self._tensor(batch.ids),
            position_ids=self._tensor(self.layout.positions(batch, items, seen)),
            attention_mask=self._mask(batch),
            use_cache=False,
            **self._images(seen),
        ).last_hidden_state
        return self._read(output, batch, wanted)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def run_plain(self, item: Encoded, wanted: Wanted, seen: Pixels | None = None) -> Readout:
        parts = []
        for suffix in item.suffixes:
            if not suffix:
                continue
            ids = np.array([*item.context, *suffix[:-1]], dtype=np.int64)
            self.counters.calls += 1
            self.counters.tokens_run += len(ids)
            inputs = self._plain_inputs(item, len(ids), len(suffix), seen)
            logits = self.network(input_ids=self._tensor(ids[None]), use_cache=False, **inputs).logits
            self.counters.head_rows_run += logits.shape[1]
            places = torch.arange(len(suffix), device=self.device)
            parts.append(_measure(logits[0, -len(suffix) :], places, self._tensor(np.array(suffix)), wanted))
        return _join(parts, wanted)

    def _plain_inputs(self, item: Encoded, length: int, reads: int, seen: Pixels | None) -> dict[str, Any]:
        """What a network's own forward is told besides the tokens, as far as it wants to know."""
        inputs = {**self._images([seen])}
        if "logits_to_keep" in self._takes:
            inputs["logits_to_keep"] = reads
        if self.layout.image_token_id is None:
            return inputs
        if seen is not None and self.layout.family.grid_positions:
            inputs["position_ids"] = self._tensor(self.layout.sequence_positions(item, length, seen))
        types = self._tensor(self.layout.token_types(item, length)[None])
        wanted = ("token_type_ids",) if self.layout.family.prefix_lm else ("token_type_ids", "mm_token_type_ids")
        return inputs | {name: types for name in wanted if name in self._takes}

    def _images(self, pixels: Sequence[Pixels | None]) -> dict[str, Any]:
        present = [one for one in pixels if one is not None]
        if not present:
            return {}
        self.counters.images_run += len(present)
        return batched(present, self.device)

    def compile(self) -> None:
        """Fuse what lies between the matrix products, layer by layer.

        Without a cache one compilation serves all layers; with sizes left open, it serves all batches. torch keeps what
        it compiled below /tmp, under a name that anybody can take first, and runs what lies there: not so here.
        """
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "torchinductor"))
        parts = [self.network.get_decoder(), getattr(self.network.base_model, "visual", None)]
        for part in parts:
            for layer in getattr(part, "layers", None) or getattr(part, "blocks", None) or ():
                layer.compile(dynamic=True)

    def _read(self, hidden: Any, batch: PackedBatch, wanted: Wanted) -> list[Readout]:
        """Head and softmax for the places that are read, each place once, `HEAD_ROWS` at a time."""
        length = batch.ids.shape[1]
        reads = np.concatenate([row.reads + i * length for i, row in enumerate(batch.rows)])
        targets = np.concatenate([row.targets for row in batch.rows])
        places, which = np.unique(reads, return_inverse=True)
        self.counters.head_rows_run += len(places)
        flat, parts, order = hidden.flatten(0, 1), [], []
        for start in range(0, len(places), HEAD_ROWS):
            logits = self._logits(flat[self._tensor(places[start : start + HEAD_ROWS])])
            here = np.flatnonzero((which >= start) & (which < start + HEAD_ROWS))
            order.append(here)
            parts.append(_measure(logits, self._tensor(which[here] - start), self._tensor(targets[here]), wanted))
        back = np.argsort(np.concatenate(order)) if order else np.array([], dtype=np.int64)
        columns = [None if column is None else column[back] for column in _join(parts, wanted)]
        ends = np.cumsum([len(row.reads) for row in batch.rows])[:-1]
        pieces = [[None] * len(batch.rows) if c is None else np.split(c, ends) for c in columns]
        return [Readout.of(one) for one in zip(*pieces, strict=True)]

    def _logits(self, hidden: Any) -> Any:
        """The vocabulary head with what each family does to its output; the trial at load checks it."""
        logits = self.network.get_output_embeddings()(hidden).float()
        if not self.bends_logits:
            return logits
        config = self.network.config.get_text_config()
        if (scale := getattr(config, "logit_scale", None)) is not None:  # Cohere
            logits = logits * scale
        if (divisor := getattr(config, "logits_scaling", None)) is not None:  # Granite
            logits = logits / divisor
        if (cap := getattr(config, "final_logit_softcapping", None)) is not None:  # Gemma 2
            logits = torch.tanh(logits / cap) * cap
        return logits

    def _mask(self, batch: PackedBatch) -> Any:
        """Nothing, a padding mask, the mask of the suffixes' rows, or the whole one: the least that is needed."""
        if self.layout.simple(batch):
            return None if batch.segments.min() >= 0 else self._tensor((batch.segments >= 0).astype(np.int64))
        if self.plugged_in and self.layout.contexts_are_plain(batch):
            return self._tensor(batch.visible(start=batch.split or 0)).unsqueeze(1)
        visible = self._tensor(batch.visible(both_ways=self.layout.family.prefix_lm)).unsqueeze(1)
        if self.plugged_in:
            return visible
        additive = torch.zeros(visible.shape, dtype=self.network.dtype, device=self.device)
        return additive.masked_fill(~visible, torch.finfo(self.network.dtype).min)

    def _packing_agrees(self, sighted: tuple[Encoded, Pixels] | None) -> bool:
        """A small trial, packed and plain: equal to rounding, or packing is not for this network.

        What could go wrong shows in the last suffix of a row (does it see its sisters, or what comes after? are its
        positions right?) and in a row with padding, so these two are run plainly.
        """
        vocabulary = self.network.get_input_embeddings().num_embeddings
        ids = tuple((7 * i + 3) % vocabulary for i in range(12))
        wide, narrow = ids[:4], ids[9:11]
        trial = [_encoded(wide, ids[4:6], ids[6:9]), _encoded(narrow, ids[10:12])]
        pixels: list[Pixels | None] = [None, None]
        if sighted is not None:
            context, pixels[0] = (*sighted[0].context, *wide), sighted[1]
            trial[0] = _encoded(context, ids[4:6], ids[6:9])
        try:
            packed = self.run_packed(trial, Wanted(), pixels)
        except Exception:  # noqa: BLE001 - an unsuited network may refuse the mask in any way it likes
            return False
        last = _encoded(trial[0].context, ids[6:9])
        plain = [self.run_plain(last, Wanted(), pixels[0]), self.run_plain(trial[1], Wanted())]
        pairs = [(packed[0].logprobs[2:], plain[0].logprobs), (packed[1].logprobs, plain[1].logprobs)]
        gap = max(float(np.abs(a - b).max()) for a, b in pairs)
        return gap < TOLERANCE_NATS.get(self.network.dtype, HALF_PRECISION_TOLERANCE_NATS)

    def _tensor(self, array: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _encoded(context: tuple[int, ...], *suffixes: tuple[int, ...]) -> Encoded:
    return Encoded(context, suffixes, (None,) * len(suffixes), 0)


def entropy_of(logprobs: Any) -> Any:
    """−Σ p ln p over the last axis, with 0 ln 0 = 0."""
    finite = logprobs.clamp(min=torch.finfo(logprobs.dtype).min)
    return -(finite.exp() * finite).sum(-1)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _measure(logits: Any, rows: Any, targets: Any, wanted: Wanted) -> Readout:
    """The probability of each target in its row of logits; the entropy and the best tokens of the row if wanted."""
    logits = logits.float()
    normaliser = torch.logsumexp(logits, dim=-1)
    logprobs = logits[rows, targets] - normaliser[rows]
    entropies = top_ids = top_logprobs = None
    if wanted.entropies:
        entropies = _numpy(entropy_of(logits - normaliser[:, None])[rows])
    if wanted.top:
        best = torch.topk(logits, min(wanted.top, logits.shape[-1]), dim=-1)
        top_ids = best.indices[rows].cpu().numpy()
        top_logprobs = _numpy((best.values - normaliser[:, None])[rows])
    return Readout(_numpy(logprobs), entropies, top_ids, top_logprobs)


def _numpy(tensor: Any) -> Any:
    return tensor.double().cpu().numpy()


def _join(parts: Sequence[Readout], wanted: Wanted) -> Readout:
    if not parts:
        empty = np.empty(0)
        none_top = np.empty((0, wanted.top)) if wanted.top else None
        top_ids = None if none_top is None else none_top.astype(np.int64)
        return Readout(empty, empty if wanted.entropies else None, top_ids, none_top)
    columns = zip(*parts, strict=True)
    return Readout.of(None if column[0] is None else np.concatenate(column) for column in columns)
