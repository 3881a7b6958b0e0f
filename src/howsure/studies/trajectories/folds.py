"""Fitted on some tasks, judged on others: who is held out when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


def task_folds(tasks: Sequence[str], folds: int) -> list[tuple[Places, Places]]:
    """(fitted on, held out) by place, all runs of a task on one side; none for fewer than two tasks.

    Each run is held out once. The split is decided by the tasks alone (scikit-learn's GroupKFold), not by chance.

    >>> [(fit.tolist(), out.tolist()) for fit, out in task_folds(["a", "b", "a"], 5)]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    splits = min(folds, len(set(tasks)))
    if splits < 2:
        return []
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(n_splits=splits).split(np.zeros(len(tasks)), groups=np.asarray(tasks)))
