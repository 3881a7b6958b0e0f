"""What happened, set against what a model said."""

from __future__ import annotations

import msgspec


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What really happened; a field that the study does not know stays None."""

    correct: bool | None = None
    reward: float | None = None
    distance: float | None = None
