"""What the headline figures mean, in words for somebody who sees them for the first time."""

from __future__ import annotations

MEANINGS = {
    "accuracy within": "clicks at most so many thousandths of the screen from the target's middle",
    "accuracy": "questions whose likeliest choice is the right one",
    "mean margin": "how far the likeliest choice leads the second: 0 is a tie, 2.3 is ten times likelier",
    "bits per byte": "what a byte of the text costs the model: 8 if it knew nothing, 0 if it knew all",
    "perplexity per": "as hard as choosing each time among so many that are equally likely",
    "agent reasoning uncertainty": "surprisal of a token in the agent's turns: 0 is certain, 0.7 a coin toss each time",
    "user confusion": "the same for the turns of the user",
    "trust T": "what knowing the place takes off the doubt, as a share of what place and instruction take off",
    "coherent trust T": "the same under one joint distribution, where it lies between 0 and 1",
    "I(X;S)": "what the place alone tells about the action",
    "I(X;S,L)": "what place and instruction together tell about the action",
    "ΔH_S": "how much surer of its action it is when told about the place; below 0: less sure",
    "ΔH_L,S": "how much surer when told about the place and the instruction; below 0: less sure",
    "rows complete": "steps with all three entropies",
    "ordering holds": "steps at which it is surer with each thing that it is told",
    "point in target": "clicks inside of what was to be clicked",
    "mean L2": "from the target's middle, in thousandths of the screen",
    "median L2": "half of the clicks are nearer than this",
    "in wrong format": "answers in which no place could be read; these are misses without a distance",
    "refused rightly": "screens with nothing to click on which it did not click",
}


def meaning_of(name: str) -> str | None:
    """By how the name begins; None for a figure that is not known here."""
    found = [begin for begin in MEANINGS if name.startswith(begin)]
    return MEANINGS[max(found, key=len)] if found else None
