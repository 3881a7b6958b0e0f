"""The three conditions: what differs between them, and nothing else."""

from __future__ import annotations

from howsure.models.images import Picture
from howsure.studies.trust.elicit import NEUTRAL, Form, Scene, three_prompts
from howsure.studies.trust.steps import CONDITIONS, Condition

PICTURE = Picture.made(b"not looked at", "frame", (4, 4))
FORM = Form("Answer so.", "What now?")
SCENE = Scene(("up", "down", "left", "right"), "up. A wall stopped you.", "#.#", PICTURE)


def prompts(scene: Scene = SCENE):  # type: ignore[no-untyped-def]
    return three_prompts(
        scene, FORM, knowledge=["Beds block.", "Doors open."], instruction="fetch the hat", notes="hat: near"
    )


def test_who_is_told_what() -> None:
    found = prompts()
    assert list(found) == list(CONDITIONS)
    for words, where in {
        "Beds block.": {Condition.X_GIVEN_S, Condition.X_GIVEN_LS},
        "fetch the hat": {Condition.X_GIVEN_LS},
        "hat: near": {Condition.X_GIVEN_LS},
        NEUTRAL: {Condition.X, Condition.X_GIVEN_S},
        "Answer so.": set(CONDITIONS),
        "What now?": set(CONDITIONS),
        "#.#": set(CONDITIONS),
        "A wall stopped you.": set(CONDITIONS),
    }.items():
        assert {condition for condition, prompt in found.items() if words in prompt.text} == where, words


def test_everything_else_is_the_same_to_the_letter() -> None:
    found = prompts()
    bare, known, told = (found[condition] for condition in CONDITIONS)
    assert bare.picture == known.picture == told.picture == PICTURE
    block = "\n\nWhat is known about this place:\n- Beds block.\n- Doors open."
    assert known.text.replace(block, "") == bare.text
    notes = "\n\nYour notes from your last answer: hat: near"
    assert told.text.replace(notes, "").replace("Instruction: fetch the hat", NEUTRAL) == known.text


def test_without_grounding_x_and_x_given_s_are_one_prompt() -> None:
    found = three_prompts(SCENE, FORM, knowledge=[], instruction="fetch", notes=None)
    assert found[Condition.X] == found[Condition.X_GIVEN_S]


def test_no_message_is_empty() -> None:
    for scene in (SCENE, Scene(("up",)), Scene(("up",), picture=PICTURE)):
        for prompt in prompts(scene).values():
            assert all(message.content.strip() for message in prompt.messages)
