"""Asking a server again: only for faults that pass, bounded, and spread out. Nothing here knows a vendor's SDK."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

MAX_ASKED_WAIT_S = 60.0
"""A server may ask for a wait (`Retry-After`); longer than this is not waited for in one go."""

MAX_BACKOFF_S = 30.0

PASSING_STATUSES = frozenset({408, 409, 429})
"""Time-out, conflict, too many requests; and every status from 500 on."""


class Fault(msgspec.Struct, frozen=True):
    """Why one attempt gave no answer."""

    reason: str
    passes: bool = False
    """Whether the same request may well succeed in a moment."""
    status: int | None = None
    parameter: str | None = None
    """The parameter of the request that the server objects to, where it names one."""
    asked_wait_s: float | None = None
    unreachable: bool = False
    """No connection came about at all, so that no other request would fare better."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often to ask again and how long to wait; the waits depend on nothing but the arguments."""

    max_retries: int
    backoff_s: float

    def wait_s(self, retry: int, spread: int, asked_s: float | None = None) -> float:
        """Seconds to wait before retry number `retry` (from 0), spread out over the calls numbered `spread`.

        Doubling, with a quarter of it left to chance, so that calls that failed together do not come back
        together. The wait that a server asks for is never shortened, unless it is beyond the limit.
        """
        chance = zlib.crc32(f"{spread}/{retry}".encode()) / 2**32
        if asked_s is not None:
            return asked_s + 0.25 * chance * min(self.backoff_s, MAX_BACKOFF_S)
        return min(self.backoff_s * 2.0 ** min(retry, 60), MAX_BACKOFF_S) * (0.75 + 0.25 * chance)


def status_passes(status: int) -> bool:
    return status in PASSING_STATUSES or status >= 500


def asked_wait_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The wait that a server asks for by `Retry-After` (seconds or a date) or `retry-after-ms`, or None.

    >>> asked_wait_s({"retry-after": "2"}), asked_wait_s({"retry-after": "86400"}), asked_wait_s({})
    (2.0, 60.0, None)
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    seconds = _number(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000
    if seconds is None:
        seconds = _seconds_until(headers.get("retry-after"), now or datetime.now(UTC))
    return min(seconds, MAX_ASKED_WAIT_S) if seconds is not None and seconds > 0 else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds_until(text: str | None, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
