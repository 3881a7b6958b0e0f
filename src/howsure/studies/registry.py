"""The studies by name. A command, a Python function, an export and a page are found by this table alone.

One that is not part of howsure is added by `register`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.studies.study import Study


class Home(NamedTuple):
    """Where a study is, and its line in a list of commands: the first of its card, so that a list imports nothing."""

    place: str
    line: str


HOMES = {
    "mcq": Home(
        "howsure.studies.mcq:MCQ",
        "Multiple choice: is the right answer the likeliest, by how much, and should the model be so sure?",
    ),
    "perplexity": Home(
        "howsure.studies.perplexity:PERPLEXITY",
        "How many bits a model needs for a text, per token, word and byte, and its perplexity.",
    ),
    "trajectories": Home(
        "howsure.studies.trajectories:TRAJECTORIES",
        "How sure agent and user were, turn by turn, and whether they should have been.",
    ),
    "grounding": Home(
        "howsure.studies.grounding.study:GROUNDING",
        "Where does a model click, how far off is that, and does it know?",
    ),
    "trust": Home(
        "howsure.studies.trust:TRUST",
        "How much grounding and language each reduce a model's uncertainty about its next action.",
    ),
    "trust coherent": Home(
        "howsure.studies.trust:COHERENT",
        "Trust from one joint distribution: T = I(X;S) / I(X;S,L), which lies in [0, 1].",
    ),
}
COMMANDS = (
    "show", "ask", "compare", "report", "export", "demo", "models", "runs", "view", "ngram", "entropy", "theorem",
)  # fmt: skip
"""The commands that are not studies."""
_added: dict[str, Study[Any]] = {}


def register(study: Study[Any]) -> Study[Any]:
    """Add a study: from then on `howsure NAME` is its command."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", study.name) or study.name in (*HOMES, *COMMANDS):
        raise InputError(
            f"a study cannot be called {study.name!r}: take lower-case letters, digits and hyphens, and no name of a "
            "command of howsure"
        )
    _added[study.name] = study
    return study


def forget(name: str) -> None:
    """Take away one that was added."""
    _added.pop(name, None)


def names() -> list[str]:
    return [*HOMES, *_added]


def study_named(name: str) -> Study[Any]:
    """A study, imported when it is first asked for."""
    if name in _added:
        return _added[name]
    module, _, attribute = HOMES[name].place.partition(":")
    study: Study[Any] = getattr(import_module(module), attribute)
    return study


def line_of(name: str) -> str:
    return _added[name].card.partition("\n")[0] if name in _added else HOMES[name].line


def is_known(name: str) -> bool:
    return name in HOMES or name in _added
