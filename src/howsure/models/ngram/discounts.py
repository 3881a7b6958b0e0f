"""How much Kneser–Ney smoothing takes off a count, estimated from how many n-grams were seen once, twice, …

Chen and Goodman (1998), equations 25 and 26, with n_k the n-grams of one length whose count is k:
Y = n₁ / (n₁ + 2 n₂); modified: D_k = k − (k + 1) Y n_{k+1} / n_k for k = 1, 2 and D₃ for 3 and more; plain: D = Y.
"""

from __future__ import annotations

import numpy as np

from howsure.errors import InputError
from howsure.models.ngram.vocabulary import Ids

Discounts = tuple[float, float, float]
"""For counts of 1, of 2, of 3 and more."""

MODIFIED_FALLBACK: Discounts = (0.5, 1.0, 1.5)
PLAIN_FALLBACK: Discounts = (0.75, 0.75, 0.75)


def modified_discounts(counts: Ids, length: int, fallback: Discounts | None = None) -> Discounts:
    """D₁, D₂, D₃₊; `fallback` where they cannot be estimated, or an error without one."""
    seen = _counts_of_counts(counts)
    missing = next((k for k in (1, 2, 3) if not seen[k]), None)
    if missing is not None:
        return _fallen_back(length, _none_of(counts, missing), fallback)
    y = seen[1] / (seen[1] + 2 * seen[2])
    discounts = [k - (k + 1) * y * seen[k + 1] / seen[k] for k in (1, 2, 3)]
    wrong = next((k for k, d in enumerate(discounts, 1) if not 0 <= d <= k), None)
    if wrong is not None:
        return _fallen_back(length, f"for a count of {wrong} it comes out as {discounts[wrong - 1]:.4g}", fallback)
    return discounts[0], discounts[1], discounts[2]


def plain_discounts(counts: Ids, length: int, fallback: Discounts | None = None) -> Discounts:
    """One D for all counts."""
    seen = _counts_of_counts(counts)
    missing = next((k for k in (1, 2) if not seen[k]), None)
    if missing is not None:
        return _fallen_back(length, _none_of(counts, missing), fallback)
    y = seen[1] / (seen[1] + 2 * seen[2])
    return y, y, y


def _counts_of_counts(counts: Ids) -> list[int]:
    return [int(count) for count in np.bincount(np.minimum(counts, 5), minlength=6)]


def _none_of(counts: Ids, missing: int) -> str:
    return f"none of its {np.count_nonzero(counts):,} has an adjusted count of {missing}"


def _fallen_back(length: int, why: str, fallback: Discounts | None) -> Discounts:
    if fallback is not None:
        return fallback
    raise InputError(
        f"the discount of {length}-grams cannot be estimated: {why}; the text is small or artificial. "
        "--discount-fallback takes fixed discounts there, --smoothing witten-bell needs none"
    )
