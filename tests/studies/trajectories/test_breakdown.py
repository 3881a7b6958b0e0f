"""Alarms on held-out tasks: nothing leaks, everything is counted, and what cannot be said is not."""

import math

import numpy as np
import pytest

from howsure.errors import InputError
from howsure.measures import cusum, first_alarm, fit_baseline, fit_threshold, highest, paired_shares
from howsure.runs.files import to_json
from howsure.studies.trajectories.alarm_stats import against
from howsure.studies.trajectories.breakdown import DETECTORS, Watched, detect
from howsure.studies.trajectories.learned import task_folds


def watched(u, failed, task, marks=None, turns_after=None):
    values = np.array([np.nan if x is None else x for x in u], dtype=float)
    after = np.arange(len(values))[::-1] if turns_after is None else np.array(turns_after)
    return Watched(values, after, failed, task, marks or {})


def simulated(seed, tasks=12, trials=3):
    rng = np.random.default_rng(seed)
    runs = []
    for task in range(tasks):
        for _ in range(trials):
            failed = bool(rng.random() < 0.4)
            u = rng.gamma(4, 0.25, size=int(rng.integers(6, 15)))
            u[len(u) // 2 :] += failed
            u[rng.random(len(u)) < 0.1] = np.nan
            runs.append(watched(u, failed, f"task {task}", {"tool_error": (len(u) // 2,)} if failed else {}))
    return runs


def by_hand():
    """Two folds of one task each. Both have the baseline of the other's successful run."""
    good = [watched([1.0, 2.0, 3.0], False, task) for task in ("a", "b")]
    # against mean 2 and sd 1, the successes reach a CUSUM of 0.5 at most
    early = watched([2.0, 5.0, 2.0, 2.0], True, "a", {"tool_error": (1, 3), "review": (0,)}, [7, 5, 3, 0])
    never = watched([2.0, None, 2.0], True, "b", {"tool_error": (2,)})
    return [*good, early, never]


def test_by_hand():
    found = detect(by_hand(), detector="cusum", false_alarm_rate=0.5, seed=0)
    assert [v.alarm for v in found.verdicts] == [None, None, 1, None]
    np.testing.assert_allclose(found.verdicts[2].statistic, [0.0, 2.5, 2.0, 1.5])
    np.testing.assert_allclose(found.verdicts[3].statistic, [0.0, 0.0, 0.0])
    assert [v.threshold for v in found.verdicts] == [0.5] * 4
    summary = found.summary()
    assert (summary["runs"], summary["failures"], summary["tried"], summary["tasks"]) == (4, 2, 4, 2)
    assert (summary["caught"]["count"], summary["caught"]["of"], summary["caught"]["value"]) == (1, 2, 0.5)
    assert (summary["false_alarms"]["count"], summary["false_alarms"]["value"]) == (0, 0.0)
    lead = summary["turns_before_end"]
    assert (lead["median"], lead["lower_quartile"], lead["upper_quartile"], lead["caught"]) == (5.0, 5.0, 5.0, 1)
    assert (lead["low"], lead["high"]) == (None, None), "one caught failure has quartiles, and no interval"
    assert summary["reason"] is None
    assert summary["not_tried"] == {}


def test_marks_by_hand():
    marks = detect(by_hand(), detector="cusum", false_alarm_rate=0.5, seed=0).summary()["marks"]
    tool = marks["tool_error"]
    assert (tool["runs_with_mark"], tool["alarmed"], tool["alarmed_without_mark"]) == (2, 1, 0)
    assert (tool["alarm_at_or_before_first_mark"], tool["alarm_after_first_mark"]) == (1, 0)
    assert (tool["near"]["value"], tool["near"]["value_at_random"]) == (1.0, 1.0)  # each turn is next to 1 or 3
    review = marks["review"]
    assert (review["alarm_at_or_before_first_mark"], review["alarm_after_first_mark"]) == (0, 1)
    assert (review["near"]["value"], review["near"]["value_at_random"]) == (1.0, 0.5)  # turns 0 and 1 of 4


def test_a_random_alarm_is_one_that_could_have_rung():
    runs = [watched([1.0, 2.0, 3.0], False, task) for task in ("a", "b")]
    runs.append(watched([None, 2.0, None, 9.0, 9.0], True, "a", {"tool_error": (4,)}))
    near = detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0).summary()["marks"]["tool_error"]["near"]
    assert (near["value"], near["value_at_random"]) == (1.0, 2 / 3)  # of turns 1, 3 and 4


@pytest.mark.parametrize("seed", range(3))
def test_each_fold_written_out(seed):
    runs = simulated(seed)
    found = detect(runs, detector="cusum", false_alarm_rate=0.2, folds=4, seed=0)
    for training, held_out in task_folds([run.task for run in runs], 4):
        assert not {runs[i].task for i in training} & {runs[i].task for i in held_out}
        good = [runs[i].uncertainty for i in training if not runs[i].failed]
        baseline = fit_baseline(np.concatenate(good))
        threshold = fit_threshold([highest(cusum(u, baseline)) for u in good], 0.2)
        for i in held_out:
            assert found.verdicts[i].alarm == first_alarm(cusum(runs[i].uncertainty, baseline), threshold)
            assert found.verdicts[i].threshold == threshold


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_held_out_task_has_no_say_in_its_own_threshold(detector):
    runs = simulated(1)
    first = detect(runs, detector=detector, false_alarm_rate=0.2, seed=0)
    fold = next(fold for fold in first.folds if 0 in fold.held_out)
    changed = [
        run._replace(uncertainty=run.uncertainty * 100, failed=not run.failed) if run.task == runs[0].task else run
        for run in runs
    ]
    again = detect(changed, detector=detector, false_alarm_rate=0.2, seed=0)
    same = next(fold for fold in again.folds if 0 in fold.held_out)
    assert (same.baseline, same.threshold) == (fold.baseline, fold.threshold)
    for i in fold.held_out:
        if runs[i].task != runs[0].task:
            assert again.verdicts[i].alarm == first.verdicts[i].alarm


def test_the_threshold_detector_runs_on_the_root_mean_square():
    runs = by_hand()
    found = detect(runs, detector="threshold", false_alarm_rate=0.5, seed=0)
    rms = math.sqrt((4 + 25) / 2)
    assert found.verdicts[2].statistic[1] == pytest.approx((rms - 2.0) / 1.0)


def test_the_unit_does_not_count():
    runs = simulated(2)
    for detector in DETECTORS:
        nats = detect(runs, detector=detector, false_alarm_rate=0.2, seed=0)
        bits = detect(
            [run._replace(uncertainty=run.uncertainty / math.log(2)) for run in runs],
            detector=detector,
            false_alarm_rate=0.2,
            seed=0,
        )
        assert [v.alarm for v in nats.verdicts] == [v.alarm for v in bits.verdicts]
        assert nats.summary()["caught"] == bits.summary()["caught"]


def test_runs_of_one_task_hang_together_in_every_interval():
    runs = simulated(3)
    summary = detect(runs, detector="cusum", false_alarm_rate=0.2, seed=0).summary()
    false, caught = summary["false_alarms"], summary["caught"]
    assert false["low"] < false["value"] < false["high"]
    assert f"over {len({run.task for run in runs if not run.failed})} clusters" in false["method"]
    assert (caught["value"], caught["high"]) == (1.0, 1.0)
    assert caught["low"] < 1  # nothing but catches is no certainty
    lead, clusters = summary["turns_before_end"], len({run.task for run in runs if run.failed})
    assert lead["lower_quartile"] <= lead["median"] <= lead["upper_quartile"]
    assert lead["low"] <= lead["median"] <= lead["high"]
    assert f"over {clusters} clusters" in lead["method"]
    near = summary["marks"]["tool_error"]["near"]
    assert near["low"] < near["difference"] < near["high"]
    assert f"over {clusters} clusters" in near["method"]
    single = detect(simulated(3, 30, 1), detector="cusum", false_alarm_rate=0.2, seed=0).summary()
    assert single["caught"]["method"] == "Agresti–Coull"


def test_too_few_tasks_have_no_interval():
    summary = detect(simulated(3, tasks=4, trials=6), detector="cusum", false_alarm_rate=0.2, seed=0).summary()
    assert summary["caught"]["value"] is not None
    assert (summary["caught"]["low"], summary["caught"]["method"]) == (None, None)


# -- what cannot be said ----------------------------------------------------------------------------------------------


def summary_of(runs, detector="cusum", rate=0.5):
    summary = detect(runs, detector=detector, false_alarm_rate=rate, seed=0).summary()
    to_json(summary)
    return summary


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([], "no run whose end is known"),
        ([watched([1.0], False, "a"), watched([2.0], True, "a")], "only one task"),
        ([watched([1.0], True, "a"), watched([2.0], True, "b")], "all 2 runs failed"),
    ],
)
def test_nothing_to_fit_on(runs, reason, detector):
    summary = summary_of(runs, detector)
    assert reason in summary["reason"]
    assert summary["tried"] == 0
    assert (summary["caught"]["value"], summary["caught"]["low"], summary["turns_before_end"]) == (None, None, None)
    assert sum(summary["not_tried"].values()) == len(runs)


def test_too_few_successes_for_so_low_a_rate():
    runs = simulated(0)
    summary = summary_of(runs, rate=0.01)
    assert summary["tried"] == 0
    assert summary["not_tried"] == {"no threshold": len(runs)}
    assert all(
        "set no threshold for a false alarm rate of 0.01: that takes 99" in f["reason"] for f in summary["folds"]
    )


def test_turns_that_are_all_alike():
    runs = [watched([0.5] * 4, failed, task) for task in "abc" for failed in (False, True)]
    summary = summary_of(runs)
    assert all("all alike" in fold["reason"] for fold in summary["folds"])
    assert summary["tried"] == 0


def test_runs_with_no_known_turn_are_counted_and_not_tried():
    runs = [*by_hand(), watched([None, None], True, "a"), watched([], False, "b")]
    summary = summary_of(runs)
    assert summary["not_tried"] == {"no known turn": 2}
    assert (summary["runs"], summary["tried"], summary["caught"]["of"]) == (6, 4, 2)


def test_runs_too_short_for_the_statistic_were_tried_and_kept_silent():
    long = [watched([1.0, 2.0, 1.0, 2.0, 1.5, 2.0], False, task) for task in "abcd" for _ in range(2)]
    short = [watched([9.0, 9.0], True, "a")]
    summary = summary_of(long + short, "level_change")
    assert (summary["too_short"], summary["caught"]["count"], summary["caught"]["of"]) == (1, 0, 1)


def test_where_most_successes_are_too_short_any_value_would_be_an_alarm():
    runs = [watched([1.0, 2.0], False, task) for task in "abcdef"] + [watched([1.0] * 9, True, "a")]
    summary = summary_of(runs, "level_change")
    assert all("too short" in fold["reason"] for fold in summary["folds"])
    assert summary["tried"] == 0


def test_infinite_turns_ring_and_infinite_successes_leave_no_threshold():
    runs = [*by_hand(), watched([2.0, math.inf], True, "b")]
    assert detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0).verdicts[-1].alarm == 1
    summary_of(runs)
    hopeless = [watched([1.0, 2.0, math.inf], failed, task) for task in "abc" for failed in (False, True)]
    summary = summary_of(hopeless)
    assert all("probability zero" in fold["reason"] for fold in summary["folds"])


def test_no_failures_have_nothing_to_catch():
    summary = summary_of([run._replace(failed=False) for run in simulated(4)], rate=0.2)
    assert (summary["caught"]["of"], summary["caught"]["value"]) == (0, None)
    assert summary["false_alarms"]["of"] == 36


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InputError, match="must be one of turn_count, threshold, cusum, level_change"):
        detect([], detector="oracle", false_alarm_rate=0.1, seed=0)
    with pytest.raises(InputError, match="turns_after for 1"):
        detect([watched([1.0, 2.0], True, "a", turns_after=[0])], detector="cusum", false_alarm_rate=0.1, seed=0)
    with pytest.raises(InputError, match="no place 2 for a mark"):
        detect([watched([1.0, 2.0], True, "a", {"x": (2,)})], detector="cusum", false_alarm_rate=0.1, seed=0)


# -- the number of turns, which the others have to beat ---------------------------------------------------------------


def test_turn_count_rings_when_a_run_grows_longer_than_successful_ones():
    good = [watched([1.0, 2.0] * 3, False, task) for task in "abcd"]
    long, short = watched([1.0, None] * 5, True, "e"), watched([9.0] * 3, True, "e")
    found = detect([*good, long, short], detector="turn_count", false_alarm_rate=0.2, seed=0)
    # the threshold is six turns and a lot: the seventh turn passes it, known or not, and the sixth with a higher lot
    assert 6 < found.verdicts[-1].threshold < 7
    assert [v.alarm for v in found.verdicts[-2:]] in ([5, None], [6, None])


def test_of_runs_of_one_length_a_lot_rings_in_as_many_as_the_rate_allows():
    """Without lots no run passes a threshold of six turns, and a limit of turns would hide that length tells."""
    runs = [watched([1.0, 2.0] * 3, bool(i % 2), f"t{i}") for i in range(400)]
    found = detect(runs, detector="turn_count", false_alarm_rate=0.1, seed=0)
    summary = found.summary()
    assert {v.alarm for v in found.verdicts} == {None, 5}
    assert summary["false_alarms"]["value"] == pytest.approx(0.1, abs=0.03)
    assert summary["caught"]["value"] == pytest.approx(0.1, abs=0.05)
    again = detect(runs, detector="turn_count", false_alarm_rate=0.1, seed=0)
    other = detect(runs, detector="turn_count", false_alarm_rate=0.1, seed=1)
    assert [v.alarm for v in found.verdicts] == [v.alarm for v in again.verdicts] != [v.alarm for v in other.verdicts]


def test_more_than_turn_count_by_hand():
    """Every failure jumps at its fifth of six turns; the lengths of all runs are alike."""
    calm = [watched([1.0, 1.0 + i / 100, 1.0, 1.0, 1.0, 1.0], False, f"good {i}") for i in range(40)]
    wild = [watched([1.0, 1.0, 1.0, 1.0, 9.0, 9.0], True, f"bad {i}") for i in range(20)]
    cusum_found, turns = (
        detect([*calm, *wild], detector=name, false_alarm_rate=0.1, seed=0) for name in ("cusum", "turn_count")
    )
    found = against(cusum_found, turns)
    by_turns = sum(v.alarm is not None for v in turns.verdicts[40:])
    assert (found["difference"], found["of"]) == ((20 - by_turns) / 20, 20)
    plain = paired_shares([v.alarm is not None for v in turns.verdicts[40:]], [1] * 20).interval
    assert found["low"] <= plain.low < found["difference"] <= plain.high <= found["high"]
    assert found["clearly_better"]
    assert against(turns, turns)["difference"] == 0.0
    assert not against(turns, turns)["clearly_better"]
    assert against(turns, turns)["low"] < 0.0 < against(turns, turns)["high"], "no difference is no certainty"


def test_the_comparison_needs_runs_that_both_were_tried_on():
    runs = [watched([1.0, 2.0], False, task) for task in "abcdef"] + [watched([1.0] * 9, True, "g")]
    level, turns = (
        detect(runs, detector=name, false_alarm_rate=0.5, seed=0) for name in ("level_change", "turn_count")
    )
    found = against(level, turns)
    assert (found["of"], found["difference"], found["low"], found["clearly_better"]) == (0, None, None, False)
