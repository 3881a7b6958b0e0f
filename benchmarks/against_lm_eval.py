"""`score` against lm-evaluation-harness' `HFLM.loglikelihood`: the same network object, texts and threads.

lm-eval runs the prompt once for each choice, except where all choices are one token: then it runs it once for all, as
ours does. Its batch size is the user's to choose, so several take part and the best of them is the one to beat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import metadata
from typing import Any

from benchmarks.harness import Case
from benchmarks.shared_prefix import made_items

SHAPES = {
    "prompt 90, choices 20": (90, 20, 4),
    "prompt 400, choices 6": (400, 6, 2),
    "prompt 60, choices 1": (60, 1, 8),
}
BATCH_SIZES = (1, 4, 16)


def cases() -> list[Case]:
    import howsure

    model = howsure.load("smollm2")
    return [_case(model, name, *shape) for name, shape in SHAPES.items()]


def _case(model: Any, name: str, prompt_tokens: int, choice_tokens: int, questions: int) -> Case:
    items = made_items(prompt_tokens, choice_tokens, questions)
    harnesses = {size: _harness(model, size) for size in BATCH_SIZES}
    gap, tokens = _agreement(model, harnesses[1], items)
    notes = {
        "lm-eval": metadata.version("lm_eval"),
        "threads": _threads(),
        "questions": questions,
        "tokens run by ours": _least_tokens(model, items),
        "tokens run by lm-eval": tokens,
        "largest difference of a log-likelihood": f"{gap:.1e} nats",
    }
    contenders: dict[str, Callable[[], Any]] = {"howsure score": lambda: _ours(model, items)}
    for size, harness in harnesses.items():
        contenders[f"lm-eval, batches of {size}"] = lambda harness=harness: _theirs(harness, items)
    return Case(f"against lm-eval, {name}", contenders, notes)


def _harness(model: Any, batch_size: int) -> Any:
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    start = model.encoder.start_token
    return HFLM(
        pretrained=model.network,
        tokenizer=model.encoder.tokenizer,
        batch_size=batch_size,
        device="cpu",
        prefix_token_id=start,
    )


def _ours(model: Any, items: list[tuple[str, list[str]]]) -> list[float]:
    return [float(evidence.logprobs.sum()) for row in model.score(items) for evidence in row]


def _theirs(harness: Any, items: list[tuple[str, list[str]]]) -> list[float]:
    from lm_eval.api.instance import Instance

    texts = [(prompt, choice) for prompt, choices in items for choice in choices]
    asked = [Instance("loglikelihood", {}, text, i) for i, text in enumerate(texts)]
    return [nats for nats, _ in harness.loglikelihood(asked, disable_tqdm=True)]


def _agreement(model: Any, harness: Any, items: list[tuple[str, list[str]]]) -> tuple[float, int]:
    """The largest difference, which must be small, and the tokens that lm-eval ran."""
    ran: list[int] = []
    handle = model.network.register_forward_pre_hook(
        lambda _, args, kwargs: ran.append((args or [kwargs["input_ids"]])[0].numel()), with_kwargs=True
    )
    theirs = _theirs(harness, items)
    handle.remove()
    gap = max(abs(a - b) for a, b in zip(_ours(model, items), theirs, strict=True))
    assert gap < 1e-3, f"the contenders disagree by {gap}, so their speed cannot be compared"
    return gap, sum(ran)


def _least_tokens(model: Any, items: list[tuple[str, list[str]]]) -> int:
    """What ours runs, which must be the prompt once and each choice without its last token: P + Σ(c − 1)."""
    before = model.counters.tokens_run
    model.score(items)
    ran = int(model.counters.tokens_run - before)
    least = 0
    for prompt, choices in items:
        ids = model.encoder.tokenizer([prompt, *(prompt + choice for choice in choices)])["input_ids"]
        least += len(ids[0]) + sum(len(whole) - len(ids[0]) - 1 for whole in ids[1:])
    assert ran == least, f"ours ran {ran} tokens, and {least} would do"
    return ran


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())
