"""`compare`: two finished runs of the same study over the same data."""

from __future__ import annotations

import os
from typing import Any

from howsure import wiring
from howsure.errors import HowsureError, InputError, RunDamaged
from howsure.runs import Run
from howsure.studies.grounding import comparison as grounding
from howsure.studies.mcq import comparison as mcq
from howsure.studies.perplexity import comparison as perplexity

RunLike = Run | str | os.PathLike[str]

NOT_WHAT_IT_SAYS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code meets in a run folder that somebody changed."""

STUDIES = {mcq.STUDY: mcq, perplexity.STUDY: perplexity, grounding.STUDY: grounding}


class Comparison(dict[str, Any]):
    """A plain dictionary in every way but one: a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        return str(wiring.ask("html", self))


def compare(run_a: RunLike, run_b: RunLike) -> Comparison:
    """Compare two finished runs from their folders; no model is needed.

    Gives `a` and `b` (the figures of each), `difference` (B − A, with paired intervals) and `notes`. Runs of different
    studies, over other data, or asked in another way, are refused.
    """
    a, b = (run if isinstance(run, Run) else Run(run) for run in (run_a, run_b))
    study = study_of(a, b)
    try:
        return Comparison(STUDIES[study].compare(a, b))
    except HowsureError:
        raise
    except NOT_WHAT_IT_SAYS as error:
        why = f"{type(error).__name__}: {error}"
        raise RunDamaged(f"{a.path} or {b.path} does not hold what a run of {study} does ({why[:200]})") from error


def study_of(a: Run, b: Run) -> str:
    """The study that both runs are of, if it can be compared."""
    first, second = (run.manifest.identity.study for run in (a, b))
    for run, study in ((a, first), (b, second)):
        if study not in STUDIES:
            *others, last = STUDIES
            raise InputError(
                f"{run.path} is a run of {study!r}, and only {', '.join(others)} and {last} runs can be compared"
            )
    if first != second:
        raise InputError(f"{a.path} is a run of {first}, {b.path} one of {second}: compare runs of the same study")
    return first
