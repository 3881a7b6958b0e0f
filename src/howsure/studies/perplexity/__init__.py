"""Perplexity: how many bits does a model need for a text, and among how many words does it seem to choose?

Question   how surprising is a text to a model, over all of it and document by document?
Data       files, folders, JSON lines with `text`, standard input; any length
Asks       `read`: the probability of every token given those before it, in overlapping windows where it must be
Measure    cross-entropy −(1/n) log₂ m(w₁ … w_n) in bits per token, word and byte; perplexity = 2 to that power
Comes out  figures for each document, and for all of them with intervals over documents; two models compared per byte
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from howsure.models.contract import Model
from howsure.runs import Engine, Progress, engine_at_hand, placed
from howsure.studies.pairs import Pair
from howsure.studies.perplexity.work import Prepared, Result, carry_out, carry_out_all, prepare_all, read_through
from howsure.studies.texts import PathLike, as_paths

__all__ = [
    "Pair",
    "Prepared",
    "Result",
    "carry_out",
    "carry_out_all",
    "perplexity",
    "prepare_all",
    "read_through",
]


@overload
def perplexity(
    texts: PathLike | Sequence[PathLike],
    model: str | Model = ...,
    *,
    model_b: None = None,
    out: PathLike,
    **options: Any,
) -> Result: ...


@overload
def perplexity(
    texts: PathLike | Sequence[PathLike],
    model: str | Model = ...,
    *,
    model_b: str | Model,
    out: PathLike,
    **options: Any,
) -> Pair: ...


def perplexity(
    texts: PathLike | Sequence[PathLike],
    model: str | Model = "smollm2",
    *,
    model_b: str | Model | None = None,
    out: PathLike,
    window: int | None = None,
    stride: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **model_options: Any,
) -> Result | Pair:
    """Read every text with a model and write a run folder; the same call takes up a stopped run.

    `texts` are paths of files and folders. With `model_b` both models read, one after the other, into `<out>/a` and
    `<out>/b`, and a `Pair` with their comparison per byte comes back. `seed` is kept in the run's manifest, and nothing
    depends on it. `engine` is who does the work: this
    process, or `"ray"` or a `RayEngine`. `model_options` (see `ModelOptions`) are for
    models given by name; one given as an object stays loaded.
    """
    prepared = prepare_all(
        as_paths(texts),
        [model] if model_b is None else [model, model_b],
        window=window,
        stride=stride,
        skip_bad=skip_bad,
        **(placed(engine, model_options) if isinstance(model, str) or isinstance(model_b, str) else model_options),
    )
    with engine_at_hand(engine) as doer:
        return carry_out_all(prepared, out=out, seed=seed, retry_failed=retry_failed, progress=progress, engine=doer)
