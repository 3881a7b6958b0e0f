"""A planted signal is found on tasks that nothing was fitted on, and noise is called noise."""

import numpy as np
import pytest

from howsure.measures import rank_failures, running_rms
from howsure.studies.trajectories.alarm_stats import against
from howsure.studies.trajectories.breakdown import DETECTORS, Watched, detect
from howsure.studies.trajectories.intervention import Policy, replay
from howsure.studies.trajectories.learned import cross_validate
from studies.trajectories.planted import MEAN_NATS, with_change_points, with_states

RATE = 0.1


def ranked(runs, scores):
    failed, tasks = [run.failed for run in runs], [run.task for run in runs]
    return rank_failures(scores, failed, clusters=tasks).auroc


def plain_rms(runs):
    return [running_rms(run.uncertainty)[-1] for run in runs]


# -- alarms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("detector", "least", "delay"), [("cusum", 0.95, 2), ("level_change", 0.95, 3)])
def test_failures_are_caught_soon_after_the_change(detector, least, delay):
    runs, changes = with_change_points(0)
    found = detect(runs, detector=detector, false_alarm_rate=RATE, seed=0)
    summary = found.summary()
    assert summary["caught"]["value"] > least
    assert summary["false_alarms"]["low"] <= RATE <= summary["false_alarms"]["high"]
    waits = [v.alarm - c for v, c in zip(found.verdicts, changes, strict=True) if c is not None and v.alarm is not None]
    assert 0 <= np.median(waits) <= delay
    assert np.mean(np.array(waits) >= 0) > 0.8  # not before there was anything to see
    near = summary["marks"]["tool_error"]["near"]
    assert near["value"] > near["value_at_random"]
    assert near["low"] > 0


def test_a_running_value_is_slower_than_what_looks_for_a_change():
    runs, _ = with_change_points(0)
    value, change = (
        detect(runs, detector=name, false_alarm_rate=RATE, seed=0).verdicts for name in ("threshold", "cusum")
    )
    failed = [(a.alarm, b.alarm) for run, a, b in zip(runs, value, change, strict=True) if run.failed]
    both = [(a, b) for a, b in failed if a is not None and b is not None]
    assert len(failed) / 2 < len(both) < len(failed)
    assert np.median([a - b for a, b in both]) >= 2


@pytest.mark.parametrize("detector", DETECTORS)
def test_on_noise_alarms_ring_as_often_as_promised_and_catch_nothing(detector):
    summaries = [
        detect(with_change_points(seed, shift_sds=0.0)[0], detector=detector, false_alarm_rate=RATE, seed=0).summary()
        for seed in range(8)
    ]
    assert np.mean([s["false_alarms"]["value"] for s in summaries]) == pytest.approx(RATE, abs=0.03)
    assert np.mean([s["caught"]["value"] for s in summaries]) == pytest.approx(RATE, abs=0.05)
    assert sum(s["false_alarms"]["low"] <= RATE <= s["false_alarms"]["high"] for s in summaries) >= 6


def test_stepping_in_at_alarms_beats_chance_and_on_noise_does_not():
    policy = Policy("handover", 10.0, 0.9)
    gains = []
    for shift_sds in (3.0, 0.0):
        runs, _ = with_change_points(1, shift_sds=shift_sds)
        table = replay(detect(runs, detector="cusum", false_alarm_rate=RATE, seed=0), [policy])["table"]
        rows = {row["when"]: row for row in table}
        gains.append(
            (rows["alarm"]["failures_avoided"], rows["random"]["failures_avoided"], rows["alarm"]["avoided_low"])
        )
    (avoided, chance, low), (on_noise, noise_chance, _) = gains
    assert low > 1.5 * chance
    assert avoided > 2 * chance
    assert on_noise == pytest.approx(noise_chance, abs=8)  # of 90 failures


# -- beside the number of turns ---------------------------------------------------------------------------------------


LENGTHS = {
    "three times as long": (lambda rng: rng.integers(5, 12), lambda rng: rng.integers(15, 36)),
    "alike": (lambda rng: rng.integers(8, 16), lambda rng: rng.integers(8, 16)),
    "a limit of turns": (lambda rng: 12 if rng.random() < 0.2 else 4, lambda rng: 12),
    "failures are short": (lambda rng: rng.integers(15, 36), lambda rng: rng.integers(5, 12)),
}
"""How long runs that succeed and runs that fail are; uncertainty knows nothing of either."""


def noise(seed, lengths, *, tasks, trials):
    rng, runs = np.random.default_rng(seed), []
    for task in range(tasks):
        for _ in range(trials):
            failed = bool(rng.random() < 0.4)
            turns = int(LENGTHS[lengths][failed](rng))
            u = rng.gamma(3.0, MEAN_NATS / 3, size=turns)
            runs.append(Watched(u, np.arange(turns)[::-1], failed, f"task {task}", {}))
    return runs


def beside_turn_count(runs):
    found = {name: detect(runs, detector=name, false_alarm_rate=RATE, seed=0) for name in DETECTORS}
    turns = found.pop("turn_count")
    return turns.summary(), {name: one.summary() for name, one in found.items()}, {
        name: against(one, turns) for name, one in found.items()
    }  # fmt: skip


@pytest.mark.parametrize(("tasks", "trials"), [(60, 1), (30, 4)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_on_noise_no_detector_is_said_to_beat_the_number_of_turns(lengths, tasks, trials):
    said = [
        name
        for seed in range(12)
        for name, found in beside_turn_count(noise(seed, lengths, tasks=tasks, trials=trials))[2].items()
        if found["clearly_better"]
    ]
    assert len(said) <= (0 if lengths == "three times as long" else 1), said  # of 36, at 2.5 % each


def test_on_noise_level_change_catches_long_failures_and_the_number_of_turns_all_of_them():
    """Why the number of turns stands beside: what looks like a third of the failures caught is their length."""
    turns, detectors, beside = beside_turn_count(noise(0, "three times as long", tasks=100, trials=2))
    assert detectors["level_change"]["caught"]["value"] > 3 * RATE
    assert detectors["level_change"]["caught"]["low"] > RATE
    assert turns["caught"]["value"] > 0.95
    assert beside["level_change"]["high"] < 0


def test_a_change_in_the_middle_clearly_beats_the_number_of_turns():
    runs, _ = with_change_points(0)
    _, _, beside = beside_turn_count(runs)
    for name in ("cusum", "level_change"):
        assert beside[name]["clearly_better"]
        assert beside[name]["low"] > 0.5


# -- learned weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_learned_weights_find_the_state_that_counts_and_beat_the_plain_score(seed):
    runs = with_states(seed)
    found = cross_validate(runs, seed=0)
    assert None not in found.scores
    for fold in found.folds:
        assert fold.reason is None
        assert fold.weights.weights.argmax() == 2
        assert fold.weights.weights[2] > 2
        np.testing.assert_allclose(fold.model.means, [[0.2, 0.2], [0.45, 0.4], [0.8, 0.75]], atol=0.05)
    learned, plain = ranked(runs, found.scores), ranked(runs, plain_rms(runs))
    assert learned.value > 0.8
    assert learned.interval.low > plain.interval.high


def test_on_noise_learned_weights_cover_chance_and_stay_about_equal():
    areas, weights = [], []
    for seed in range(6):
        runs = with_states(seed, tasks=30, trials=3, signal=0.0)
        found = cross_validate(runs, folds=3, seed=0)
        areas.append(ranked(runs, found.scores))
        weights += [fold.weights.weights for fold in found.folds]
    assert sum(area.interval.low <= 0.5 <= area.interval.high for area in areas) >= 5
    assert np.mean([area.value for area in areas]) == pytest.approx(0.5, abs=0.06)
    np.testing.assert_allclose(np.mean(weights, axis=0), 1, atol=0.5)
