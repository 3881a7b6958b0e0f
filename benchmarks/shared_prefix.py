"""Shared-prefix scoring against one choice at a time, on the same SmolLM2.

The contender scores each choice by a forward over prompt and choice, with logits for every position, which is what
evaluation scripts do. A second one batches a question's choices, which still runs the prompt once for each.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.harness import Case

QUESTIONS = 4
CHOICES = 4
SHAPES = {"prompt 90, choices 20": (90, 20), "prompt 400, choices 6": (400, 6), "prompt 60, choices 1": (60, 1)}


def cases() -> list[Case]:
    import howsure

    model = howsure.load("smollm2")
    return [_case(model, name, *shape) for name, shape in SHAPES.items()]


def _case(model: Any, name: str, prompt_tokens: int, choice_tokens: int) -> Case:
    import numpy as np

    items = made_items(prompt_tokens, choice_tokens, QUESTIONS)
    ours, theirs = _ours(model, items), _one_at_a_time(model, items)
    gap = max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
    assert gap < 1e-3, f"the contenders disagree by {gap}, so their speed cannot be compared"
    before = model.counters.tokens_run
    _ours(model, items)
    encoded = [model.encoder.encode(prefix, choices) for prefix, choices in items]
    plain = sum(len(e.context) + len(s) - 1 for e in encoded for s in e.suffixes)
    notes = {
        "questions": QUESTIONS,
        "tokens run by ours": model.counters.tokens_run - before,
        "tokens run one at a time": plain,
        "largest difference of a log-likelihood": f"{gap:.1e} nats",
    }
    contenders = {
        "howsure score": lambda: _ours(model, items),
        "choices of a question batched": lambda: _batched(model, items),
        "one choice at a time": lambda: _one_at_a_time(model, items),
    }
    return Case(f"shared prefix, {name}", contenders, notes)


def made_items(prompt_tokens: int, choice_tokens: int, questions: int) -> list[tuple[str, list[str]]]:
    """Words that are one token each, so that the shape is what it says."""
    rng = random.Random(prompt_tokens)
    words = [
        "time",
        "people",
        "water",
        "house",
        "world",
        "school",
        "number",
        "night",
        "story",
        "music",
        "river",
        "paper",
    ]
    items = []
    for _ in range(questions):
        prompt = " ".join(["The", *rng.choices(words, k=prompt_tokens - 1)])
        openings = rng.sample(words, k=CHOICES)
        items.append((prompt, [" " + " ".join([w, *rng.choices(words, k=choice_tokens - 1)]) for w in openings]))
    return items


def _ours(model: Any, items: list[tuple[str, list[str]]]) -> list[Any]:
    return [evidence.logprobs for row in model.score(items) for evidence in row]


def _one_at_a_time(model: Any, items: list[tuple[str, list[str]]]) -> list[Any]:
    import torch

    out = []
    for prompt, choices in items:
        encoded = model.encoder.encode(prompt, choices)
        for suffix in encoded.suffixes:
            ids = torch.tensor([[*encoded.context, *suffix[:-1]]])
            with torch.inference_mode():
                logprobs = torch.log_softmax(model.network(ids).logits[0].float(), dim=-1)
            rows = logprobs[len(encoded.context) - 1 :]
            out.append(rows[range(len(suffix)), list(suffix)].double().numpy())
    return out


def _batched(model: Any, items: list[tuple[str, list[str]]]) -> list[Any]:
    import torch

    out = []
    for prompt, choices in items:
        encoded = model.encoder.encode(prompt, choices)
        rows = [[*encoded.context, *suffix[:-1]] for suffix in encoded.suffixes]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model.network(ids, attention_mask=mask).logits.float(), dim=-1)
        for i, suffix in enumerate(encoded.suffixes):
            start = len(encoded.context) - 1
            out.append(logprobs[i, range(start, start + len(suffix)), list(suffix)].double().numpy())
    return out
