"""What a model is asked: the published prompt in the model's frame, or a template of the user's own."""

from __future__ import annotations

import re

from howsure.errors import InputError
from howsure.studies.grounding.frames import Frame

_QUESTION = "Given a GUI image, what are the {asks} for the element corresponding to the following instruction:"
_STEPS = "Think step-by-step, provide referring for the element first and then the grounded point coordinates."
MAY_REFUSE = "If the element is not on the screen, give (-1, -1) as the grounded point coordinates."

_PLACEHOLDER = re.compile(r"\{(instruction|frame)\}")
_BEGINS = re.compile(
    r"\bGiven\s+a\s+GUI\s+image,\s+what\s+are\s+the\s+[^:]{0,200}?for\s+the\s+element\s+"
    r"corresponding\s+to\s+the\s+following\s+instruction:"
)
_THOUSANDTHS = re.compile(r"(?<![\d.])0\s*(?:-|–|—|~|,|to|and|\.\.)\s*1000(?![\d.]*\d)", re.IGNORECASE)
_ENDS = re.compile(r"\bThink\s+step-by-step,\s+provide\s+referring\s+for\s+the\s+element\s+first\s")


def document_prompt(instruction: str, frame: Frame, *, may_refuse: bool = False) -> str:
    """The published prompt, its words about coordinates and the example's numbers as the frame has them."""
    steps = f"{_STEPS}\n{MAY_REFUSE}" if may_refuse else _STEPS
    x, y = frame.example
    return (
        f"{_QUESTION.format(asks=frame.asks)} {instruction}\n"
        "\n"
        f"{steps}\n"
        "\n"
        "### Output (Example)\n"
        '```referring\n"left arrow"\n```\n'
        f"```grounding\n({x}, {y})\n```"
    )


def fill(template: str, instruction: str, frame: Frame, may_refuse: bool = False) -> str:
    """A template with {instruction} and {frame} replaced; all other braces stay as they are, those of the
    instruction too."""
    if "{instruction}" not in template:
        raise InputError("the prompt template has no {instruction}: write it where the instruction belongs")
    values = {"instruction": instruction, "frame": frame.asks}
    filled = _PLACEHOLDER.sub(lambda found: values[found[1]], template)
    return f"{filled}\n\n{MAY_REFUSE}" if may_refuse else filled


def instruction_of(prompt: str) -> str | None:
    """The instruction in a prompt of the published form, wherever its lines break; None for any other text.

    The last words of the question end it: an instruction may quote them.
    """
    begins = _BEGINS.search(prompt)
    if begins is None:
        return None
    ends = list(_ENDS.finditer(prompt, begins.end()))
    if not ends:
        return None
    return prompt[begins.end() : ends[-1].start()].strip() or None


def asks_for_thousandths(prompt: str) -> bool:
    """Whether a text asks for coordinates from 0 to 1000, as the published prompt does."""
    return _THOUSANDTHS.search(prompt) is not None
