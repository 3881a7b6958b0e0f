"""Entropy of probabilities that a model writes out for its next steps, nearer steps counting for more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from howsure.errors import EvidenceError
from howsure.measures._checks import refuse, vector

STEP_WEIGHTS = (0.5, 0.3, 0.2)
"""What the next step counts for, the one after it, and the third."""


def verbalized_entropy_nats(steps_nats: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    """0.5 H₁ + 0.3 H₂ + 0.2 H₃ from the entropies of the three steps.

    None where one of them is missing (None or NaN): with the weights spread over the others it would be another figure.

    >>> verbalized_entropy_nats([1.0, 0.5, 0.0])
    0.65
    >>> verbalized_entropy_nats([1.0, None, 0.0]) is None
    True
    """
    values = vector(steps_nats, "step entropies")
    if len(values) != len(STEP_WEIGHTS):
        raise EvidenceError(f"a verbalized entropy needs {len(STEP_WEIGHTS)} step entropies, got {len(values)}")
    refuse(values, np.isinf(values) | (values < 0), "step entropies", "an entropy (finite and not negative)")
    return None if np.isnan(values).any() else float(np.dot(STEP_WEIGHTS, values))
