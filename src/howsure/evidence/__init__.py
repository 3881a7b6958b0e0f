"""What a model said about its own probabilities, and what happened: the types every study shares.

A list of runs needs `Outcome` alone, so the others, which import NumPy, are fetched when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from howsure.evidence.outcome import Outcome

if TYPE_CHECKING:
    from howsure.evidence.formats import from_gemini, from_openai, to_openai
    from howsure.evidence.types import Distribution, TokenLogprobs, TopAlternatives
    from howsure.evidence.uncertainty import chosen_place, entropies_from_top

__all__ = [
    "Distribution",
    "Outcome",
    "TokenLogprobs",
    "TopAlternatives",
    "chosen_place",
    "entropies_from_top",
    "from_gemini",
    "from_openai",
    "to_openai",
]


def __getattr__(name: str) -> Any:
    for module in ("types", "formats", "uncertainty") if name in __all__ else ():
        home = import_module(f"{__name__}.{module}")
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
