"""How sure is the model, and should it be?

    import howsure

    model = howsure.load("smollm2")
    model.score([("The capital of France is", [" Paris", " Berlin"])])
    howsure.mcq("questions.jsonl", model, out="runs/first").summary
    howsure.compare("runs/before", "runs/after")["difference"]

Importing howsure loads nothing heavy; each name below is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from howsure._version import __version__

if TYPE_CHECKING:
    from howsure.evidence import Distribution as Distribution
    from howsure.evidence import Outcome as Outcome
    from howsure.evidence import TokenLogprobs as TokenLogprobs
    from howsure.models.registry import load as load
    from howsure.runs import Run as Run
    from howsure.studies.comparing import compare as compare
    from howsure.studies.exporting import export as export
    from howsure.studies.grounding.study import grounding as grounding
    from howsure.studies.mcq import mcq as mcq
    from howsure.studies.ngram import train_ngram as train_ngram
    from howsure.studies.perplexity import perplexity as perplexity
    from howsure.studies.reading import read_text as read_text
    from howsure.studies.trajectories import trajectories as trajectories
    from howsure.studies.trust import trust as trust

_HOMES = {
    "Distribution": "howsure.evidence",
    "Outcome": "howsure.evidence",
    "Run": "howsure.runs",
    "TokenLogprobs": "howsure.evidence",
    "compare": "howsure.studies.comparing",
    "export": "howsure.studies.exporting",
    "grounding": "howsure.studies.grounding.study",
    "load": "howsure.models.registry",
    "mcq": "howsure.studies.mcq",
    "perplexity": "howsure.studies.perplexity",
    "read_text": "howsure.studies.reading",
    "train_ngram": "howsure.studies.ngram",
    "trajectories": "howsure.studies.trajectories",
    "trust": "howsure.studies.trust",
}

__all__ = [
    "Distribution",
    "Outcome",
    "Run",
    "TokenLogprobs",
    "__version__",
    "compare",
    "export",
    "grounding",
    "load",
    "mcq",
    "perplexity",
    "read_text",
    "train_ngram",
    "trajectories",
    "trust",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'howsure' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
