"""Work with one model, which whoever does it opens for himself: here, or on a worker elsewhere."""

from __future__ import annotations

from typing import Any

from howsure.models.contract import Model
from howsure.runs import Job
from howsure.runs.engine import Found, Piece


class ModelJob(Job[Piece, Found]):
    """Loads its model before the first piece; the model says what all who work must agree on."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def load(self) -> None:
        self.model.load()

    @property
    def threads(self) -> int | None:
        return self.model.threads

    def fingerprint(self) -> dict[str, Any]:
        return self.model.fingerprint()
