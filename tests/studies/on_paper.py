"""A model whose probabilities stand in a table, so that every figure of a study can be worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from howsure.evidence import TokenLogprobs
from howsure.models.contract import Batch, Capability, Counters, Failure, Model, ScoreItem, ScorePlan


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


class OnPaper(Model):
    """`table` gives each continuation's token log-probabilities, `alone` those without any prefix.

    A number is one token. A continuation that `alone` does not hold has the same probability with and without prefix.
    A prefix with "fail" in it, and a continuation with "mute" in it when it stands alone, fail.
    """

    capabilities = frozenset({Capability.SCORE})

    def __init__(
        self,
        table: Mapping[str, float | list[float]],
        alone: Mapping[str, float] | None = None,
        *,
        name: str = "on-paper",
        images: bool = False,
        chat: bool = False,
    ) -> None:
        self.name, self.table, self.alone = name, table, alone or {}
        self.images, self.chat = images, chat
        self.asked: list[list[ScoreItem]] = []
        self.closed = False
        self.counters = Counters()

    @property
    def takes_images(self) -> bool:
        return self.images

    @property
    def takes_chat(self) -> bool:
        return self.chat

    def close(self) -> None:
        self.closed = True

    def fingerprint(self) -> dict[str, Any]:
        return {"table": {name: str(value) for name, value in self.table.items()}}

    def plan_scores(self, items: Any) -> ScorePlan:
        return ScorePlan([Batch(tuple(range(len(items))), len(items))], {})

    def try_score(self, items: Any, *, top_logprobs: int = 0, entropies: bool = False) -> Any:
        self.asked.append(list(items))
        return [self._score(item) for item in items]

    def _score(self, item: ScoreItem) -> list[TokenLogprobs] | Failure:
        prefix = item.prefix if isinstance(item.prefix, str) else item.prefix[0].content
        if "fail" in prefix:
            return Failure("too_long", "said so on paper")
        if not prefix and any("mute" in text for text in item.continuations):
            return Failure("no_context", "said so on paper")
        return [self._tokens(text, self.alone if not prefix and text in self.alone else self.table)
                for text in item.continuations]  # fmt: skip

    @staticmethod
    def _tokens(text: str, table: Mapping[str, float | list[float]]) -> TokenLogprobs:
        logprobs = np.atleast_1d(np.array(table[text], dtype=np.float64))
        return TokenLogprobs(tuple(f"{text}/{i}" for i in range(len(logprobs))), logprobs)
