"""Multiple choice: does the model find the right answer the likeliest, and should it be so sure?

Question   how much likelier is one answer than the others, by the model's own probabilities, and is it right?
Data       JSON lines: `question`, `choices`, `answer_index`; `image_path`, `id` and `group` if you like
Units      questions, those about one image or of one `cluster` together
Asks       `score`: every choice as a continuation of the question, by teacher forcing; nothing is generated
Measure    the choice with the largest sum of token log-probabilities; margin = best − second, in nats
Comes out  accuracy by four scores, margin, calibration, risk–coverage, all per group; two checkpoints side by side
"""

from __future__ import annotations

import os
from typing import Any, overload

from howsure.models.contract import Model
from howsure.runs import Engine, Progress, engine_at_hand, placed
from howsure.studies.mcq.comparison import comparison_document
from howsure.studies.mcq.document import check_writable, document, write_document
from howsure.studies.mcq.work import Prepared, Result, carry_out, carry_out_all, prepare, prepare_all
from howsure.studies.pairs import Pair

__all__ = [
    "Pair",
    "Prepared",
    "Result",
    "carry_out",
    "carry_out_all",
    "check_writable",
    "document_of",
    "mcq",
    "prepare",
    "prepare_all",
    "write_document",
]

PathLike = str | os.PathLike[str]


@overload
def mcq(data: PathLike, model: str | Model = ..., *, model_b: None = None, out: PathLike, **options: Any) -> Result: ...


@overload
def mcq(data: PathLike, model: str | Model = ..., *, model_b: str | Model, out: PathLike, **options: Any) -> Pair: ...


def mcq(
    data: PathLike,
    model: str | Model = "smollm2",
    *,
    model_b: str | Model | None = None,
    out: PathLike,
    output_json: PathLike | None = None,
    prompt: str | None = None,
    chat: bool = False,
    pmi: bool = True,
    max_samples: int | None = None,
    batch_size: int | None = None,
    skip_bad: bool = False,
    image_root: PathLike | None = None,
    cluster: str | None = None,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
    **model_options: Any,
) -> Result | Pair:
    """Score every question of a JSONL file and write a run folder; the same call takes up a stopped run.

    With `model_b` both models run, one after the other, into `<out>/a` and `<out>/b`, and a `Pair` with their
    comparison comes back. Questions about one image hang together, and with `cluster` those that have one value in that
    field of the data: they are one unit in all intervals. `engine` is who does the work: this process, or `"ray"` or a
    `RayEngine`. `model_options` (see `ModelOptions`) are for models given by name; one given as an object stays loaded.
    """
    if output_json is not None:
        check_writable(output_json)
    prepared = prepare_all(
        data,
        [model] if model_b is None else [model, model_b],
        prompt=prompt,
        chat=chat,
        pmi=pmi,
        max_samples=max_samples,
        batch_size=batch_size,
        skip_bad=skip_bad,
        image_root=image_root,
        cluster=cluster,
        **(placed(engine, model_options) if isinstance(model, str) or isinstance(model_b, str) else model_options),
    )
    with engine_at_hand(engine) as doer:
        found = carry_out_all(
            prepared, data, out=out, seed=seed, retry_failed=retry_failed, progress=progress, engine=doer
        )
    if output_json is not None:
        write_document(output_json, document_of(found))
    return found


def document_of(found: Result | Pair) -> dict[str, Any]:
    """What --output-json holds."""
    return comparison_document(found.comparison) if isinstance(found, Pair) else document(*found)
