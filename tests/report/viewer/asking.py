"""Small run folders, and a browser that is no more than a function: it asks the viewer's application directly."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howsure.evidence import Outcome
from howsure.report.viewer.server import make_app
from howsure.runs import Identity, Manifest, Sample
from howsure.runs.files import to_json

SUMMARY: dict[str, Any] = {
    "study": "mcq",
    "headline": [
        {
            "name": "accuracy",
            "value": 0.5,
            "unit": "share",
            "low": 0.25,
            "high": 0.75,
            "level": 0.95,
            "method": "Wilson",
        }
    ],
    "coverage": {"items": 4, "scored": 3, "text": "scored 3 of 4 questions; 1 missing: 1 context", "missing": {}},
    "notes": [],
    "calibration": None,
    "selective": None,
    "normalisations": {},
    "groups": [],
    "accuracy_by_chance": 0.5,
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    @property
    def rows(self) -> list[str]:
        """The names in the first column of the table."""
        return re.findall(r'<th scope="row" dir="auto">(?:<a [^>]*>)?([^<]*)<', self.text)

    @property
    def count(self) -> str:
        found = re.search(r'data-swap="count">([^<]*)<', self.text)
        assert found is not None
        return found[1]


class Browser:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.app = make_app(folder, **options)

    def get(
        self, address: str, *, method: str = "GET", host: str = "127.0.0.1:8765", cookie: str | None = None
    ) -> Answer:
        path, _, query = address.partition("?")
        headers = [(b"host", host.encode())] + ([(b"cookie", cookie.encode())] if cookie else [])
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "headers": headers, "scheme": "http",
            "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 50000), "root_path": "",
        }  # fmt: skip
        return asyncio.run(self._ask(scope))

    async def _ask(self, scope: dict[str, Any]) -> Answer:
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception:  # the server logs it; what counts is what was answered before
            if not said:
                raise
        headers = {name.decode().lower(): value.decode() for name, value in said[0]["headers"]}
        return Answer(said[0]["status"], headers, b"".join(part.get("body", b"") for part in said[1:]))


def question(place: int, confidence: float | None, *, group: str = "a", text: str = "") -> Sample:
    """A question that was answered rightly where the model was more than half sure; None is one that failed."""
    result: dict[str, Any] = {
        "question": text or f"Question number {place}?",
        "choices": ["yes", "no"],
        "answer_index": 0,
        "group": group,
    }
    if confidence is None:
        return Sample(f"q-{place}", place, result, reason="context", detail="too long")
    right = confidence > 0.5
    result |= {
        "predicted_index": 0 if right else 1,
        "log_likelihoods": [-1.0, -2.0] if right else [-2.0, -1.0],
        "correct": right,
        "confidence": confidence,
        "margin": confidence * 4,
        "entropy_nats": 1 - confidence,
        "tie": False,
    }
    evidence = {"choices": [{"tokens": ["yes"], "logprobs": [-1.0]}, {"tokens": ["no"], "logprobs": [-2.0]}]}
    return Sample(f"q-{place}", place, result, evidence, Outcome(correct=right))


FOUR = (question(0, 0.9), question(1, 0.2, group="b"), question(2, None), question(3, 0.6, text="A <b>bold</b> one"))


def identity(study: str = "mcq", model: str = "tiny") -> Identity:
    return Identity(study, {}, {"name": model}, {"fingerprint": "x"}, 0)


def write_run(
    folder: Path, samples: Sequence[Sample] = FOUR, *, study: str = "mcq", model: str = "tiny", finished: bool = True
) -> Path:
    """A run folder as a run leaves it, without the care for power cuts that takes its time."""
    folder.mkdir(parents=True)
    status = "finished" if finished else "running"
    manifest = Manifest(
        identity(study, model), len(samples), status, "2026-11-16T03:35:09+00:00", source="questions.jsonl"
    )
    (folder / "run.json").write_bytes(to_json(msgspec.to_builtins(manifest)))
    lines = [to_json(msgspec.to_builtins(sample)) + b"\n" for sample in samples]
    (folder / "samples.jsonl").write_bytes(b"".join(lines))
    (folder / ".lock").touch()
    if finished:
        (folder / "summary.json").write_bytes(to_json(SUMMARY))
    return folder
