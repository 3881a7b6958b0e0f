"""Tokenising many questions at once, each prompt once up to a safe cut, against every text whole, item by item.

Both give the same tokens. On a GPU this work is a part of the time that shows: prompt and choice are tokenised
together, so a prompt used to be tokenised as many times as it has choices.
"""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Case
from benchmarks.shared_prefix import SHAPES, made_items

QUESTIONS = 512


def cases() -> list[Case]:
    import howsure

    encoder = howsure.load("smollm2", lazy=True).encoder
    return [_case(encoder, name, *shape) for name, shape in SHAPES.items()]


def _case(encoder: Any, name: str, prompt_tokens: int, choice_tokens: int) -> Case:
    from howsure.models.text import TextItem

    items = [TextItem(*item) for item in made_items(prompt_tokens, choice_tokens, QUESTIONS)]
    encoded = encoder.encode_many(items)
    assert encoded == _whole(encoder, items), "the contenders give different tokens"
    notes = {
        "questions": QUESTIONS,
        "tokens of prompts and choices": sum(one.tokens + len(one.suffixes) for one in encoded),
        "tokens of all texts whole": sum(len(one.context) + len(s) for one in encoded for s in one.suffixes),
    }
    contenders = {
        "many at once, prompts once": lambda: encoder.encode_many(items),
        "one item at a time, prompts once": lambda: [encoder.encode(*item[:2]) for item in items],
        "one item at a time, texts whole": lambda: _whole(encoder, items),
    }
    return Case(f"tokenising, {name}", contenders, notes)


def _whole(encoder: Any, items: list[Any]) -> list[Any]:
    """The definition: every text tokenised as it stands."""
    found = []
    for prefix, continuations, framed in items:
        texts = encoder.pieces([prefix + continuation for continuation in continuations], framed=framed)
        found.append(encoder._assemble(prefix.encode(), (), 0, texts))
    return found
