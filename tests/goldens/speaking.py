"""A server on loopback that says what a test has written down for what it is asked."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

from models.misbehaving_server import Behaviour, Connection, MisbehavingServer, answer, chat, error

Say = Callable[[str, int], str | None]
"""What is said to a text, the second time something else where an answer is drawn; None is a refusal to answer."""
Sure = Callable[[str], float]
"""What share of the probability, from 0 to 0.7, a direction or digit of the answer has at least."""
ALTERNATIVES = ("up", "down", "left", "right", "5", "zebra")
DOUBTFUL = re.compile(r"(\b(?:up|down|left|right)\b|\d)")


class Speaker(MisbehavingServer):
    """Speaks OpenAI's protocol, with log-probabilities that go by the words."""

    def __init__(self, say: Say, sure: Sure = lambda text: 0.3) -> None:
        super().__init__()
        self.say, self._sure = say, sure
        self.script = [self._behave]

    def _behave(self, connection: Connection) -> None:
        self._answer(connection.asked.body)(connection)

    def _answer(self, body: dict[str, Any]) -> Behaviour:
        text = "\n".join(_text_of(message["content"]) for message in body["messages"])
        said = self.say(text, body["seed"] % 1000 if body.get("temperature") else 0)
        if said is None:
            return error(400, "nothing is said to this")
        given = _logprobs(said, text, self._sure(text), body["top_logprobs"]) if body.get("logprobs") else None
        return answer(chat(said, given))


def chance(*words: object) -> float:
    """A number from 0 to 1 that the words decide."""
    return int(hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()[:4], 16) / 65536


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _logprobs(said: str, asked: str, sure: float, count: int) -> dict[str, Any]:
    """Directions and digits are tokens, and doubtful; what lies between them is one too, and nearly certain."""
    rows = []
    for token in filter(None, DOUBTFUL.split(said)):
        doubtful = DOUBTFUL.fullmatch(token) is not None
        share = sure + 0.3 * chance(asked, len(rows)) if doubtful else 0.96875
        others = [one for one in ALTERNATIVES if one != token] if doubtful else ["zebra"]
        top = [(token, share)] + [(one, 0.9 * (1 - share) * 0.5 ** (i + 1)) for i, one in enumerate(others)]
        entries = [{"token": one, "logprob": round(math.log(p), 6), "bytes": list(one.encode())} for one, p in top]
        rows.append(entries[0] | {"top_logprobs": entries[:count]})
    return {"content": rows}
