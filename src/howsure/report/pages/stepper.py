"""Pages within a page: steps of which one is seen at a time, with buttons, a slider and arrow keys.

Without its script (assets/howsure.js), and on paper, all steps stand one below the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h
from htpy import Element, Node

_BUTTONS = (("first", "first"), ("previous", "◀ previous"), ("next", "next ▶"), ("last", "last"), ("play", "play"))


def stepper(name: str, label: str, steps: Sequence[Node]) -> Element:
    """`name` is the steps' part of the address (`#name=3`), unique on its page; `label` says what they are steps of."""
    return h.div(class_="stepper", id=name, role="group", aria_label=label)[
        h.div(class_="controls", hidden=True)[
            [h.button({"type": "button", "data-do": what})[words] for what, words in _BUTTONS],
            h.input(type="range", min="0", max=str(max(len(steps) - 1, 0)), value="0", aria_label=f"{label}: step"),
            h.span(class_="place", aria_live="polite"),
        ],
        [h.div(class_="step")[step] for step in steps],
    ]
