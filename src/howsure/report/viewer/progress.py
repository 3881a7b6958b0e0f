"""How far a run is: what its rows say before there is a summary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import htpy as h
import numpy as np
from htpy import Node

from howsure.report.html import words
from howsure.report.text import counted, percent
from howsure.report.viewer.library import Opened

SHOWN_REASONS = 6


def progress_of(run: Opened) -> dict[str, Any]:
    """Status, how many samples of how many, the share that is right so far, and what is missing by its reason."""
    data = run.data
    right = data.table.numbers("_right")
    judged = right[np.isfinite(right)]
    missing = Counter(reason for reason in data.table.values("reason") if reason is not None)
    return {
        "status": data.status,
        "samples": len(data.table),
        "items": data.run.manifest.items,
        "judged": len(judged),
        "share_right": float(judged.mean()) if len(judged) else None,
        "missing": dict(missing.most_common()),
        "complete": run.complete,
        "version": run.version,
    }


def progress_line(run: Opened) -> Node:
    """The same in words; nothing for a run that is finished and wholly read."""
    found = progress_of(run)
    if found["status"] == "finished" and run.complete:
        return None
    if not run.complete:
        return h.p(class_="notice")[f"Reading: {counted(found['samples'], 'sample')} so far …"]
    share = None if found["share_right"] is None else f"{percent(found['share_right'])} right so far"
    said = [f"{found['samples']:,} of {counted(found['items'], 'sample')}", share, _missing(found["missing"])]
    return h.p(class_="notice")[
        h.strong[words(found["status"])], ": " + "; ".join(part for part in said if part is not None)
    ]


def _missing(reasons: dict[str, int]) -> str:
    if not reasons:
        return "nothing missing"
    shown = [f"{count:,} {words(reason, 60)}" for reason, count in list(reasons.items())[:SHOWN_REASONS]]
    return f"{sum(reasons.values()):,} missing: {', '.join(shown)}{' …' if len(reasons) > SHOWN_REASONS else ''}"
