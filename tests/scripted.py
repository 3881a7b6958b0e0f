"""Models whose answers are written by the test, and which keep everything that they were asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import Answer, Batch, Capability, Counters, Failure, Message, Model, ScoreItem, ScorePlan

Write = Callable[[list[Message], int], str | None]


def condition_of(messages: Sequence[Message]) -> str:
    """Which of the three prompts this is, by what is in it."""
    text = "\n".join(message.content for message in messages)
    if "Instruction: none is given." not in text:
        return "X|L,S"
    return "X|S" if "What is known about this place" in text else "X"


def with_logprobs(text: str) -> TokenLogprobs:
    """Words and signs as tokens, each with probability 0.8, and 0.1 for a word that is none of the text's."""
    tokens = tuple(re.findall(r"\w+|\W", text))
    rows = [[(token, float(np.log(0.8))), ("zebra", float(np.log(0.1)))] for token in tokens]
    return TokenLogprobs(
        tokens=tokens,
        logprobs=np.full(len(tokens), np.log(0.8)),
        token_bytes=tuple(token.encode() for token in tokens),
        top=TopAlternatives.from_rows(rows),
    )


class Writer(Model):
    """Answers with what `write(messages, number of the question)` gives; None is an answer that failed."""

    name = "hf:writer"
    capabilities = frozenset({Capability.GENERATE})

    def __init__(self, write: Write) -> None:
        self.counters = Counters()
        self._write = write
        self.asked: list[list[Message]] = []
        self.options: list[dict[str, Any]] = []

    @property
    def answers_images(self) -> bool:
        return True

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "test"}

    def generate(self, conversations: Any, **options: Any) -> list[Answer]:
        found = []
        for conversation in conversations:
            messages = list(conversation)
            self.asked.append(messages)
            self.options.append(options)
            text = self._write(messages, len(self.asked) - 1)
            logprobs = None if text is None or options["top_logprobs"] is None else with_logprobs(text)
            found.append(Answer(text, logprobs, failure=None if text is not None else "the server gave up"))
        return found


class Scorer(Model):
    """Scores the actions by a table that may depend on the condition: action → log-likelihood."""

    name = "hf:scorer"
    capabilities = frozenset({Capability.SCORE})

    def __init__(self, table: Callable[[str, str], Sequence[float] | None]) -> None:
        self.counters = Counters()
        self._table = table
        self.batches: list[list[ScoreItem]] = []

    @property
    def takes_chat(self) -> bool:
        return True

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "test"}

    def plan_scores(self, items: Sequence[ScoreItem]) -> ScorePlan:
        return ScorePlan([Batch(tuple(range(len(items))), 10 * len(items))], {})

    def try_score(self, items: Sequence[ScoreItem], **options: Any) -> list[list[TokenLogprobs] | Failure]:
        self.batches.append(list(items))
        found: list[list[TokenLogprobs] | Failure] = []
        for item in items:
            assert not isinstance(item.prefix, str)
            nats = self._table(condition_of(item.prefix), item.prefix[-1].content)
            if nats is None:
                found.append(Failure("too_long", "it does not fit"))
                continue
            given = [*nats, *[-50.0] * (len(item.continuations) - len(nats))]
            pairs = zip(item.continuations, given, strict=True)
            found.append([TokenLogprobs((word,), np.array([value])) for word, value in pairs])
        return found


def action_json(action: str, **more: Any) -> str:
    return json.dumps({"action": [action], "reasoning": "because", **more})


def verbalized_json(first: Sequence[float], **more: Any) -> str:
    step = dict(zip(("north", "south", "west", "east"), first, strict=True))
    even = dict.fromkeys(step, 0.25)
    return json.dumps({"executability": 0.9, "step1": step, "step2": even, "step3": even, **more})
