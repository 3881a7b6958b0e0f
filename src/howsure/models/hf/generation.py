"""Answers with exact evidence: the emitted token's log-probability by its id, the whole vocabulary's entropy.

`transformers` generates; a logits processor looks on. It sees the network's own distribution, before temperature
or sampling change it, and keeps only what is asked for, not a [tokens × vocabulary] table.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from howsure.models.contract import Counters
from howsure.models.hf.loading import quiet_transformers
from howsure.models.hf.pixels import Pixels, batched
from howsure.models.hf.scoring import entropy_of

Ints = NDArray[np.int64]


class Prompt(NamedTuple):
    """What a network reads before it writes: tokens, those of images in their places, and the images' pixels."""

    ids: Sequence[int]
    pixels: Sequence[Pixels] = ()


class Manner(NamedTuple):
    """How an answer is written. `top` None keeps no evidence at all."""

    max_tokens: int
    temperature: float
    top: int | None
    seed: int


class Written(NamedTuple):
    """One answer in tokens, its end token taken off."""

    ids: list[int]
    logprobs: list[float]
    entropies: list[float]
    top_ids: list[list[int]]
    top_logprobs: list[list[float]]
    finished: bool


class Onlooker(LogitsProcessor):  # type: ignore[misc]
    """Keeps each step's distribution until the emitted token is known, then only its figures."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.before: Any = None
        self.logprobs: list[Any] = []
        self.entropies: list[Any] = []
        self.top_ids: list[Any] = []
        self.top_logprobs: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.emitted(input_ids[:, -1])
        logprobs = torch.log_softmax(scores.float(), dim=-1)
        self.entropies.append(entropy_of(logprobs).double().cpu())
        best = torch.topk(logprobs, min(self.top, logprobs.shape[-1]), dim=-1)
        self.top_ids.append(best.indices.cpu())
        self.top_logprobs.append(best.values.double().cpu())
        self.before = logprobs
        return scores

    def emitted(self, ids: Any) -> None:
        """Gather the log-probability of the tokens that the last step emitted."""
        if self.before is not None:
            self.logprobs.append(self.before.gather(1, ids[:, None]).squeeze(1).double().cpu())
            self.before = None


@torch.inference_mode()  # type: ignore[untyped-decorator]
def write(
    network: Any,
    prompts: Sequence[Prompt],
    manner: Manner,
    *,
    pad_id: int,
    counters: Counters,
    image_token_id: int | None = None,
) -> list[Written]:
    """Generate for one batch of prompts, padded on the left. `image_token_id` is that of a network that sees."""
    ids, mask = _padded(prompts, pad_id)
    pixels = [one for prompt in prompts for one in prompt.pixels]  # networks take images in the order of their tokens
    ends = end_tokens(network)
    onlooker = None if manner.top is None else Onlooker(manner.top)
    # transformers remarks on a top-k that greedy writing has no use for; unsaid, it would be the checkpoint's.
    with quiet_transformers(), torch.random.fork_rng(devices=[network.device] if network.device.type == "cuda" else []):
        torch.manual_seed(manner.seed)
        output = network.generate(
            input_ids=torch.from_numpy(ids).to(network.device),
            attention_mask=torch.from_numpy(mask).to(network.device),
            generation_config=_settings(manner.max_tokens, manner.temperature, pad_id, ends),
            logits_processor=LogitsProcessorList([] if onlooker is None else [onlooker]),
            **(batched(pixels, network.device) if pixels else {}),
            **_token_types(network, ids, mask, image_token_id),
        )
    if onlooker is not None:
        onlooker.emitted(output[:, -1])
    new = output[:, ids.shape[1] :].cpu().tolist()
    counters.calls += 1
    counters.tokens_run += int(mask.sum()) + len(prompts) * (len(new[0]) - 1)
    counters.head_rows_run += len(prompts) * len(new[0])
    counters.padding_run += int((mask == 0).sum())
    counters.images_run += len(pixels)
    return [_written(row, i, onlooker, ends) for i, row in enumerate(new)]


def _padded(prompts: Sequence[Prompt], pad_id: int) -> tuple[Ints, Ints]:
    """Token ids and attention mask, every prompt at the right end of its row."""
    length = max(len(prompt.ids) for prompt in prompts)
    ids = np.full((len(prompts), length), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, prompt in enumerate(prompts):
        ids[i, length - len(prompt.ids) :] = prompt.ids
        mask[i, length - len(prompt.ids) :] = 1
    return ids, mask


def _token_types(network: Any, ids: Ints, mask: Ints, image_token_id: int | None) -> dict[str, Any]:
    """Which tokens are an image's, for networks that want to be told: M-RoPE counts by it, others look by it."""
    if image_token_id is None or image_token_id not in ids:
        return {}
    types = torch.from_numpy((ids == image_token_id) * mask).to(network.device)
    taken = inspect.signature(network.forward).parameters
    return {name: types for name in ("token_type_ids", "mm_token_type_ids") if name in taken}


def end_tokens(network: Any) -> list[int]:
    """The ids that end an answer; a checkpoint may name several."""
    ends = network.generation_config.eos_token_id
    if ends is None:
        ends = getattr(network.config.get_text_config(), "eos_token_id", None)
    if ends is None:
        return []
    return list(ends) if isinstance(ends, list | tuple) else [int(ends)]


def _settings(max_tokens: int, temperature: float, pad_id: int, ends: list[int]) -> GenerationConfig:
    """Everything said, since generate fills what is unsaid from the checkpoint (penalties, top-p, top-k)."""
    return GenerationConfig(
        max_new_tokens=max_tokens,
        do_sample=temperature > 0,
        temperature=temperature if temperature > 0 else 1.0,
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        num_beams=1,
        pad_token_id=pad_id,
        eos_token_id=ends or None,
    )


def _written(row: list[int], i: int, onlooker: Onlooker | None, ends: list[int]) -> Written:
    stop = next((j for j, token in enumerate(row) if token in ends), None)
    count = len(row) if stop is None else stop
    if onlooker is None:
        return Written(row[:count], [], [], [], [], stop is not None)
    return Written(
        ids=row[:count],
        logprobs=[float(step[i]) for step in onlooker.logprobs[:count]],
        entropies=[float(step[i]) for step in onlooker.entropies[:count]],
        top_ids=[step[i].tolist() for step in onlooker.top_ids[:count]],
        top_logprobs=[step[i].tolist() for step in onlooker.top_logprobs[:count]],
        finished=stop is not None,
    )
