"""A hundred thousand answers of models that click, read strictly, against the published parser's few patterns.

The answers are of the kinds that models give: most in the form that was asked for, with or without a sentence before
it, the others as JSON, tool calls, tags, plain words and refusals, some of them broken off.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from benchmarks.harness import Case

ANSWERS = 100_000
FORMS = (
    (50, '```referring\n"{name}"\n```\n```grounding\n({x}, {y})\n```'),
    (15, "The {name} lies right of the search bar.\n\n```referring\n{name}\n```\n```grounding\n[{x}, {y}]\n```"),
    (8, '```json\n[\n\t{{"point_2d": [{x}, {y}], "label": "{name}"}}\n]\n```'),
    (5, '<tool_call>{{"name": "computer", "arguments": {{"action": "click", "coordinate": [{x}, {y}]}}}}</tool_call>'),
    (5, "({x}, {y})"),
    (4, "The {name} can be found at ({x}, {y})."),
    (3, "Thought: I need the {name}.\nAction: click(start_box='({x},{y})')"),
    (3, "```referring\n{name}\n```\n```grounding\n({x}, {y}, {u}, {v})\n```"),
    (2, '<point x="{x}" y="{y}" alt="{name}">{name}</point>'),
    (2, "The {name} is not visible on the screen."),
    (2, "I would look at the {name} first, and then open its settings."),
    (1, "```referring\n{name}\n```\n```grounding\n({x}, "),
)  # fmt: skip
NAMES = (
    "Submit button",
    "left arrow",
    "Print Preview icon in the toolbar",
    "파란색 더하기 버튼",
    "Map entry of the Colors menu",
)


def cases() -> list[Case]:
    from howsure.studies.grounding.answers import compat, parse

    answers = _answers()
    _check(answers)
    said = Counter(parse.read_answer(answer).says for answer in answers)
    contenders = {
        "howsure, strict": _reading(parse.read_answer, answers),
        "howsure, compat": _reading(compat.read_answer, answers),
    }
    notes = {"characters": sum(map(len, answers)), **said}
    return [Case(f"{ANSWERS:,} answers", contenders, notes)]


def _answers() -> list[str]:
    chance = random.Random(0)
    forms = chance.choices([form for _, form in FORMS], [weight for weight, _ in FORMS], k=ANSWERS)
    return [_filled(form, chance) for form in forms]


def _filled(form: str, chance: random.Random) -> str:
    x, y = chance.randrange(900), chance.randrange(900)
    return form.format(name=chance.choice(NAMES), x=x, y=y, u=x + 80, v=y + 30)


def _reading(read: Callable[[str], object], answers: list[str]) -> Callable[[], None]:
    def work() -> None:
        for answer in answers:
            read(answer)

    return work


def _check(answers: list[str]) -> None:
    """On the form that was asked for, both read the same point."""
    from howsure.studies.grounding.answers import compat, parse

    for answer in answers[:5000]:
        strict, old = parse.read_answer(answer), compat.read_answer(answer)
        if strict.form == "block/pair":
            assert (strict.x, strict.y, strict.spans) == (old.x, old.y, old.spans), answer
