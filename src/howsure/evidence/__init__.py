"""What a model said about its own probabilities, and what happened: the types every study shares."""

from howsure.evidence.formats import from_gemini, from_openai, to_openai
from howsure.evidence.types import Distribution, Outcome, TokenLogprobs, TopAlternatives
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
