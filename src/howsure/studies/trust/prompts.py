"""What the model is shown in each of the three conditions, and what must not be in it.

    condition   knowledge S   instruction L   the model's own notes
    X           no            no              no
    X|S         yes           no              no
    X|L,S       yes           yes             yes

Everything else is the same in all three, to the letter: the rules, the form of the answer, the picture, the text view
and what came of the last action. The notes that a model writes about its task were written because of the instruction,
so they go where the instruction goes and nowhere else. No message is ever empty, which some servers refuse: without an
instruction the same neutral words stand in both conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from howsure.models.contract import Message
from howsure.models.images import Picture

NEUTRAL = "Instruction: none is given."
NOTHING_YET = "You have not acted yet."


class Condition(StrEnum):
    """What the action is conditioned on; the value is how it is written."""

    X = "X"
    X_GIVEN_S = "X|S"
    X_GIVEN_LS = "X|L,S"

    @property
    def entropy_name(self) -> str:
        return f"H({self.value})"

    @property
    def column(self) -> str:
        """The entropy's name in tables."""
        return _COLUMNS[self]

    @property
    def knows(self) -> bool:
        return self is not Condition.X

    @property
    def is_told(self) -> bool:
        return self is Condition.X_GIVEN_LS


_COLUMNS = {
    Condition.X: "H_X",
    Condition.X_GIVEN_S: "H_X_given_S",
    Condition.X_GIVEN_LS: "H_X_given_LS",
}
CONDITIONS = tuple(Condition)


class Scene(NamedTuple):
    """What is the same in all three conditions of a step."""

    actions: tuple[str, ...]
    last_result: str | None = None
    view: str | None = None
    picture: Picture | None = None


class Prompt(NamedTuple):
    """One question to a model."""

    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """All its words."""
        return "\n\n".join(message.content for message in self.messages)

    @property
    def picture(self) -> Picture | None:
        return next((image for message in self.messages for image in message.images), None)


class Form(NamedTuple):
    """How to answer: told in the rules, and asked for once more at the very end."""

    rules: str
    question: str


def prompt(
    scene: Scene,
    form: Form,
    *,
    knowledge: Sequence[str] = (),
    instruction: str | None = None,
    notes: str | None = None,
) -> Prompt:
    """One prompt. What is not given is not in it."""
    system = [_rules(scene), form.rules]
    if knowledge:
        system.append("What is known about this place:\n" + "\n".join(f"- {one}" for one in knowledge))
    if notes:
        system.append(f"Your notes from your last answer: {notes}")
    user = [scene.view] if scene.view else []
    user.append(f"Last action: {scene.last_result or NOTHING_YET}")
    user.append(NEUTRAL if instruction is None else f"Instruction: {instruction}")
    user.append(form.question)
    images = () if scene.picture is None else (scene.picture,)
    return Prompt((Message("system", "\n\n".join(system)), Message("user", "\n\n".join(user), images)))


def three_prompts(
    scene: Scene, form: Form, *, knowledge: Sequence[str], instruction: str | None, notes: str | None
) -> dict[Condition, Prompt]:
    """The same scene in the three conditions."""
    return {
        condition: prompt(
            scene,
            form,
            knowledge=knowledge if condition.knows else (),
            instruction=instruction if condition.is_told else None,
            notes=notes if condition.is_told else None,
        )
        for condition in CONDITIONS
    }


_MEANINGS = {
    "up": "one cell towards the top",
    "down": "one cell towards the bottom",
    "left": "one cell to the left",
    "right": "one cell to the right",
    "pick up": "take what is in the cell in front of you",
    "drop": "put down what you carry in front of you",
    "toggle": "open or close what is in front of you",
    "done": "say that the task is done",
}


def _rules(scene: Scene) -> str:
    seen = "a picture" if scene.view is None else "a map" if scene.picture is None else "a picture and a map"
    listed = "\n".join(f"- {action}: {_MEANINGS[action]}" for action in scene.actions)
    return (
        f"You steer a robot through a grid world, which you see from above in {seen}. "
        f"Each turn you choose one action:\n{listed}"
    )
