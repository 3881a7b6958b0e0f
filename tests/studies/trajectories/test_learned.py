"""Learned weights: each run is scored by what was learned on other tasks, or has a reason for no score."""

import math

import numpy as np
import pytest

from howsure.measures import running_weighted, turn_weights
from howsure.studies.trajectories.learned import NO_EVIDENCE, NO_OTHER_TASK, Run, cross_validate, task_folds
from studies.trajectories.planted import with_states


@pytest.fixture(scope="module")
def runs():
    return with_states(5, tasks=12, trials=3)


@pytest.fixture(scope="module")
def found(runs):
    return cross_validate(runs, seed=0)


def test_scores_are_those_of_the_fold_that_held_the_run_out(runs, found):
    assert sorted(i for fold in found.folds for i in fold.held_out) == list(range(len(runs)))
    for fold in found.folds:
        for i in fold.held_out:
            w = turn_weights(fold.model.filtered(runs[i].distances), fold.weights.weights) / fold.scale
            np.testing.assert_array_equal(found.running[i], running_weighted(runs[i].uncertainty, w))
            assert found.scores[i] == found.running[i][-1]


def test_weights_average_one_over_the_turns_they_were_learned_on(runs, found):
    fold = found.folds[0]
    training = [run for i, run in enumerate(runs) if i not in fold.held_out]
    squares = [
        turn_weights(fold.model.filtered(run.distances), fold.weights.weights)[~np.isnan(run.uncertainty)] ** 2
        for run in training
    ]
    assert np.concatenate(squares).mean() == pytest.approx(fold.scale**2)


def test_a_held_out_task_has_no_say_in_its_own_weights(runs, found):
    changed = [
        run._replace(uncertainty=run.uncertainty * 9, failed=not run.failed, distances=run.distances[::-1])
        if run.task == runs[0].task
        else run
        for run in runs
    ]
    again = cross_validate(changed, seed=0)
    fold, same = (next(f for f in result.folds if 0 in f.held_out) for result in (found, again))
    np.testing.assert_array_equal(fold.weights.weights, same.weights.weights)
    np.testing.assert_array_equal(fold.model.means, same.model.means)
    others = [i for i in fold.held_out if runs[i].task != runs[0].task]
    assert [found.scores[i] for i in others] == [again.scores[i] for i in others]


def test_the_seed_decides(runs, found):
    assert cross_validate(runs, seed=0).scores == found.scores


def test_runs_without_evidence_have_no_score_and_a_reason(runs, found):
    blank = np.full((4, 2), np.nan)
    poor = [
        Run(np.full(4, np.nan), np.zeros((4, 2)), True, "task 0"),
        Run(np.ones(4), blank, False, "task 1"),
        Run(np.array([]), np.empty((0, 2)), True, "task 2"),
    ]
    more = cross_validate([*runs, *poor], seed=0)
    assert more.scores[-3:] == (None, None, None)
    assert more.reasons[-3:] == (NO_EVIDENCE,) * 3
    assert more.running[-1] is None
    assert more.reasons[: len(runs)] == (None,) * len(runs)
    assert sum(fold.left_out for fold in more.folds) == 3 * (len(more.folds) - 1)


def test_an_infinite_turn_ranks_first_and_teaches_nothing(runs):
    endless = Run(np.array([1.0, math.inf, 1.0]), np.full((3, 2), 0.8), True, "task 3")
    more = cross_validate([*runs, endless], seed=0)
    assert more.scores[-1] == math.inf
    assert sum(fold.left_out for fold in more.folds) == len(more.folds) - 1
    assert all(fold.reason is None for fold in more.folds)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: run._replace(task="one"), NO_OTHER_TASK),
        (lambda run: run._replace(failed=True), "both failed and successful"),
        (lambda run: run._replace(distances=np.full_like(run.distances, np.nan)), "cannot be learned from 0"),
        (lambda run: run._replace(uncertainty=np.full_like(run.uncertainty, np.inf)), "finite uncertainties"),
    ],
)
def test_where_nothing_can_be_learned_every_run_says_why(runs, change, reason):
    found = cross_validate([change(run) for run in runs], seed=0)
    assert set(found.scores) == {None}
    assert all(reason in said for said in found.reasons)


def test_no_runs():
    assert cross_validate([], seed=0) == ((), (), (), ())


def test_folds_keep_tasks_whole_and_hold_each_run_out_once():
    tasks = [f"task {i % 7}" for i in range(30)]
    held = []
    for training, held_out in task_folds(tasks, 5):
        assert not {tasks[i] for i in training} & {tasks[i] for i in held_out}
        held += held_out.tolist()
    assert sorted(held) == list(range(30))
    assert len(task_folds(["a", "b", "c"], 5)) == 3
    assert task_folds(["a", "a"], 5) == task_folds([], 5) == []
