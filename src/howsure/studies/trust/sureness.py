"""Should it be sure? The executed actions against the shortest path, and their probability against that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from howsure.studies.sureness import LEVEL, calibration, selective, share
from howsure.studies.trust.steps import Steps


def sureness(table: Steps, *, seed: int, level: float = LEVEL) -> dict[str, Any] | None:
    """How often the action lay on a shortest path, and whether its probability told so; None where no action is judged.

    Agreement is over all actions that are judged. Calibration takes `confidence`, which claims to be the probability of
    being right; ranking takes the action's own probability, since nobody who acts knows which actions are the best.
    """
    right = table.on_shortest_path
    judged = ~np.isnan(right)
    if not judged.any():
        return None
    known = judged & ~np.isnan(table.action_probability)
    believed = judged & ~np.isnan(table.confidence)
    return {
        "actions": int(judged.sum()),
        "not_judged": int((~judged).sum()),
        "without_probability": int((judged & np.isnan(table.action_probability)).sum()),
        "agreement": share(right[judged] == 1, table.unit[judged], level=level),
        "calibration": calibration(
            table.confidence[believed],
            right[believed] == 1,
            level=level,
            seed=seed,
            clusters=table.unit[believed],
        ),
        "selective": selective(
            table.action_probability[known], right[known] == 1, level=level, clusters=table.unit[known]
        ),
    }


def confidence(
    action: str | None, probabilities: Mapping[str, float] | None, best: Collection[str] | None
) -> float | None:
    """How likely the model finds it that its action is right: its probability, with equally good ones taken together.

    Where k actions begin a shortest path each of them is right, and a model that knows this spreads its probability
    over them: for one of them the confidence is their sum. An action off the path is given the same room, k actions:
    itself, and k − 1 of the mean probability of the others. Its own probability alone would be too small beside the
    sums, so that a model that knows nothing, and finds all n actions equally likely, would look surer of its right
    actions than of its wrong ones; here it is k / n sure of both. The sum over the best ones would be the probability
    of what it did not do. None where the probabilities or the best actions are not known.

    >>> chances = {"up": 0.4, "down": 0.1, "left": 0.4, "right": 0.1}
    >>> confidence("up", chances, {"up", "left"}), round(confidence("up", chances, {"down", "right"}), 3)
    (0.8, 0.6)
    """
    if action is None or probabilities is None or best is None or action not in probabilities:
        return None
    if action in best:
        return min(1.0, sum(probabilities.get(name, 0.0) for name in best))
    others = [share for name, share in probabilities.items() if name != action]
    more = max(len(best), 1) - 1 if others else 0
    return min(1.0, probabilities[action] + more * sum(others) / max(len(others), 1))
