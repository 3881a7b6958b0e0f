"""Replayed interventions: money and failures on paper, beside never, always and at random."""

import dataclasses
import itertools
import math

import msgspec
import numpy as np
import pytest

from howsure.errors import InputError
from howsure.measures import share_interval
from howsure.runs.files import to_json
from howsure.studies.trajectories.breakdown import Watched, detect
from howsure.studies.trajectories.intervention import Policy, parse_policy, replay

HANDOVER = Policy("handover", 10.0, 0.5)
CONFIRM = Policy("confirm", 1.0, 0.2)


def run(u, failed, task, turns_after=None):
    values = np.array(u, dtype=float)
    after = np.arange(len(values))[::-1] if turns_after is None else np.array(turns_after)
    return Watched(values, after, failed, task, {})


def on_paper():
    """Successes reach a CUSUM of 0.5. Of three failures one is caught early, one at its last turn, one never."""
    return detect(
        [
            *[run([1.0, 2.0, 3.0], False, task) for task in ("a", "b")],
            run([2.0, 9.0, 2.0, 2.0], True, "a"),
            run([2.0, 2.0, 9.0], True, "a"),
            run([2.0, 2.0], True, "b"),
            run([9.0, 2.0], False, "b"),
        ],
        detector="cusum",
        false_alarm_rate=0.5,
        seed=0,
    )


def rows_of(found, policy):
    return {row["when"]: row for row in found["table"] if row["policy"] == policy}


def test_the_table_on_paper():
    detection = on_paper()
    # the success of task b that rings raises the threshold of the fold that holds out task a
    assert [v.alarm for v in detection.verdicts] == [None, None, None, None, None, 0]
    detection = detect(detection.runs[:5], detector="cusum", false_alarm_rate=0.5, seed=0)
    assert [v.alarm for v in detection.verdicts] == [None, None, 1, 2, None]
    found = replay(detection, [HANDOVER], failure_cost=100.0)
    assert (found["runs"], found["failures"], found["notice_turns"], found["reason"]) == (5, 3, 1, None)
    rows = rows_of(found, "handover")
    assert list(rows) == ["alarm", "never", "always", "random"]
    alarm = rows["alarm"]
    assert (alarm["interventions"], alarm["spent"]) == (2, 20.0)
    assert (alarm["failures_avoided"], alarm["failures_left"]) == (0.5, 2.5)  # the other one left no turn
    assert (alarm["net_saving"], alarm["saving_low"]) == (30.0, None), "of five runs of two tasks"
    assert alarm["cost_per_avoided_failure"] is None, "nobody knows whether any is avoided"
    assert rows["never"]["failures_left"] == 3
    assert (rows["never"]["spent"], rows["never"]["cost_per_avoided_failure"]) == (0, None)
    assert (rows["always"]["interventions"], rows["always"]["failures_avoided"]) == (5, 1.5)
    # 2 of 5 runs; a random turn leaves one more in 3 of 4, 2 of 3 and 1 of 2 turns
    assert rows["random"]["interventions"] == pytest.approx(2)
    assert rows["random"]["failures_avoided"] == pytest.approx(0.5 * 2 / 5 * (3 / 4 + 2 / 3 + 1 / 2))


def test_notice_decides_what_is_in_time():
    detection = detect(on_paper().runs[:5], detector="cusum", false_alarm_rate=0.5, seed=0)
    avoided = [
        rows_of(replay(detection, [HANDOVER], notice_turns=notice), "handover")["alarm"]["failures_avoided"]
        for notice in (0, 1, 2, 3)
    ]
    assert avoided == [1.0, 0.5, 0.5, 0.0]


def simulated(seed=0):
    rng = np.random.default_rng(seed)
    runs = []
    for task in range(20):
        for _ in range(3):
            failed = bool(rng.random() < 0.4)
            u = rng.gamma(4, 0.25, size=int(rng.integers(6, 15)))
            u[len(u) // 2 :] += failed
            runs.append(run(u, failed, f"task {task}"))
    return detect(runs, detector="cusum", false_alarm_rate=0.1, seed=0)


def test_alarms_beat_chance_where_there_is_a_signal():
    found = replay(simulated(), [HANDOVER, CONFIRM], failure_cost=60.0)
    for policy in (HANDOVER, CONFIRM):
        rows = rows_of(found, policy.name)
        assert rows["alarm"]["interventions"] == pytest.approx(rows["random"]["interventions"])
        assert rows["alarm"]["failures_avoided"] > 1.5 * rows["random"]["failures_avoided"]
        assert rows["alarm"]["avoided_low"] < rows["alarm"]["failures_avoided"] < rows["alarm"]["avoided_high"]
        for row in rows.values():
            assert row["failures_left"] + row["failures_avoided"] == pytest.approx(found["failures"])
            assert row["spent"] == pytest.approx(policy.cost * row["interventions"])
            assert row["net_saving"] == pytest.approx(60 * row["failures_avoided"] - row["spent"])
    assert all(row["net_saving"] is None for row in replay(simulated(), [CONFIRM])["table"])


def test_the_curve_is_a_sweep_over_one_threshold():
    detection = simulated(1)
    points = replay(detection, [HANDOVER])["curves"]["handover"]
    assert len(points) <= 200
    assert (points[0]["interventions"], points[0]["failures_avoided"]) == (0, 0.0)
    assert points[-1]["interventions"] == len(detection.runs)
    assert all(a["interventions"] < b["interventions"] for a, b in itertools.pairwise(points))
    for point in points[:-1]:
        rang = [
            (watched, np.flatnonzero(verdict.statistic > point["threshold"]))
            for watched, verdict in zip(detection.runs, detection.verdicts, strict=True)
        ]
        met = [w.failed and w.turns_after[at[0]] >= 1 for w, at in rang if len(at)]
        assert point["interventions"] == len(met)
        assert point["failures_avoided"] == pytest.approx(0.5 * sum(met))
    share = np.mean([w.failed * (w.turns_after >= 1).mean() for w in detection.runs])
    assert points[9]["random_failures_avoided"] == pytest.approx(0.5 * share * points[9]["interventions"])


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    rng = np.random.default_rng(2)
    runs = [run(rng.gamma(4, 0.25, size=6), bool(i % 3), f"task {i}") for i in range(450)]
    points = replay(detect(runs, detector="cusum", false_alarm_rate=0.1, seed=0), [CONFIRM])["curves"]["confirm"]
    assert 150 < len(points) <= 200
    assert (points[0]["interventions"], points[-1]["interventions"]) == (0, 450)


def test_infinite_turns_are_safe():
    runs = [*on_paper().runs, run([2.0, math.inf, 1.0], True, "b")]
    found = replay(detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0), [HANDOVER])
    to_json(found)
    first = found["curves"]["handover"][0]
    assert (first["threshold"], first["interventions"]) == (None, 0)


@pytest.mark.parametrize("rate", [0.5, 0.01])
def test_nothing_to_replay_has_its_reason(rate):
    runs = [run([1.0, 2.0, 3.0], task == "a", task) for task in "abc"] if rate < 0.5 else []
    found = replay(detect(runs, detector="cusum", false_alarm_rate=rate, seed=0), [HANDOVER])
    to_json(found)
    assert found["table"] == []
    assert found["reason"]
    assert found["curves"]["handover"] == [] or rate < 0.5  # a curve needs no fitted threshold


def test_intervals_are_no_matter_of_chance():
    assert replay(simulated(), [CONFIRM]) == replay(simulated(), [CONFIRM])


# -- what stepping in spoils ------------------------------------------------------------------------------------------


def test_what_is_spoiled_is_taken_off_on_paper():
    """Of five runs the three of `on_paper` fail, two are alarmed, one in time; then the success of task b rings too."""
    detection = detect(on_paper().runs[:5], detector="cusum", false_alarm_rate=0.5, seed=0)
    verdicts = (detection.verdicts[0]._replace(alarm=2), *detection.verdicts[1:])
    detection = dataclasses.replace(detection, verdicts=verdicts)
    found = replay(detection, [Policy("handover", 10.0, 0.5, 0.25)], failure_cost=100.0)
    rows = rows_of(found, "handover")
    alarm = rows["alarm"]
    assert (alarm["interventions"], alarm["failures_avoided"], alarm["successes_spoiled"]) == (3, 0.5, 0.25)
    assert (alarm["net_avoided"], alarm["failures_left"]) == (0.25, 2.75)
    assert alarm["net_saving"] == 100 * 0.25 - 30
    assert rows["always"]["successes_spoiled"] == 0.25 * 2
    assert rows["random"]["successes_spoiled"] == pytest.approx(0.25 * 3 / 5 * 2)
    assert (rows["never"]["successes_spoiled"], rows["never"]["failures_left"]) == (0.0, 3)
    assert (found["alarmed"]["count"], found["alarmed"]["of"], found["alarmed"]["in_time"]) == (2, 3, 1)
    last = found["curves"]["handover"][-1]
    assert last["successes_spoiled"] == 0.25 * 2
    assert last["net_avoided"] == last["failures_avoided"] - last["successes_spoiled"]
    assert last["random_net_avoided"] == pytest.approx(last["random_failures_avoided"] - 0.25 * 2)


def test_a_saving_has_the_interval_of_what_each_run_saves():
    """F (r met − d spoiled) − c acted, run by run: what is spent is left to chance as well."""
    detection, policy = simulated(), Policy("ask", 2.0, 0.9, 0.1)
    rows = rows_of(replay(detection, [policy], failure_cost=50.0), "ask")
    alarm = rows["alarm"]
    assert alarm["saving_low"] < alarm["net_saving"] < alarm["saving_high"]
    assert alarm["cost_per_avoided_failure"] == pytest.approx(alarm["spent"] / alarm["net_avoided"])
    assert alarm["net_low"] > 0
    free = rows_of(replay(detection, [policy], failure_cost=0.0), "ask")
    assert free["always"]["saving_low"] is None, "each run costs the same, so that nothing is left to chance"
    assert free["alarm"]["saving_low"] < free["alarm"]["net_saving"] < free["alarm"]["saving_high"]


def test_a_policy_that_spoils_more_than_it_rescues_has_no_cost_of_a_failure_avoided():
    rows = rows_of(replay(simulated(), [Policy("harm", 1.0, 0.1, 1.0)], failure_cost=10.0), "harm")
    assert rows["always"]["net_avoided"] < 0
    assert rows["always"]["cost_per_avoided_failure"] is None
    assert rows["always"]["failures_left"] > replay(simulated(), [CONFIRM])["failures"]


def test_the_intervals_are_those_of_the_shares_times_what_is_assumed():
    detection = simulated()
    tasks = [run.task for run in detection.runs]
    met = [
        float(run.failed and v.alarm is not None and run.turns_after[v.alarm] >= 1)
        for run, v in zip(detection.runs, detection.verdicts, strict=True)
    ]
    hit = [
        float(not run.failed and v.alarm is not None) for run, v in zip(detection.runs, detection.verdicts, strict=True)
    ]
    row = rows_of(replay(detection, [Policy("p", 1.0, 0.5, 0.2)]), "p")["alarm"]
    avoided, spoiled = share_interval(met, clusters=tasks), share_interval(hit, clusters=tasks)
    assert (row["avoided_low"], row["avoided_high"]) == pytest.approx((30 * avoided.low, 30 * avoided.high))
    assert (row["spoiled_low"], row["spoiled_high"]) == pytest.approx((12 * spoiled.low, 12 * spoiled.high))
    assert row["net_low"] < 30 * avoided.low - 12 * np.mean(hit) < row["net_avoided"] < row["net_high"]
    assert 30 * avoided.low - 12 * spoiled.high < row["net_low"], "both at their worst at once is rarer than that"


def test_the_interval_of_what_is_net_covers():
    """Runs of which 30 % fail, all acted on at once: expected is 0.6 · 0.3 − 0.2 · 0.7 of them."""
    policy, held = Policy("p", 1.0, 0.6, 0.2), []
    rng = np.random.default_rng(0)
    for _ in range(300):
        runs = [run([1.0, 2.0, 1.5], bool(failed), f"t{i}") for i, failed in enumerate(rng.random(60) < 0.3)]
        row = rows_of(replay(detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0), [policy]), "p")["always"]
        held.append(row["net_low"] <= 60 * (0.6 * 0.3 - 0.2 * 0.7) <= row["net_high"])
    assert np.mean(held) == pytest.approx(0.96, abs=0.03)


def test_no_interval_has_width_zero_from_luck():
    """No alarm rings in ten runs: that is luck, and might be otherwise. Never stepping in is no luck."""
    runs = [run([1.0, 2.0, 1.5], bool(i % 2), f"t{i}") for i in range(20)]
    rows = rows_of(replay(detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0), [HANDOVER]), "handover")
    assert rows["alarm"]["interventions"] == 0
    assert rows["alarm"]["avoided_low"] == 0.0 < rows["alarm"]["avoided_high"]
    assert (rows["never"]["avoided_low"], rows["never"]["net_high"]) == (None, None)
    assert rows["alarm"]["spoiled_low"] is None, "a policy that is said to spoil nothing spoils nothing"


def test_break_even_by_hand():
    assert Policy("p", 10.0, 0.9, 0.1).break_even() == pytest.approx(0.1)  # d / (r + d)
    assert Policy("p", 10.0, 0.9, 0.1).break_even(50.0) == pytest.approx((0.2 + 0.1) / 1.0)  # f r − (1 − f) d = c / F
    assert Policy("p", 1.0, 0.3).break_even() == 0.0
    assert Policy("p", 1.0, 0.3).break_even(50.0) == pytest.approx(1 / 15)
    assert Policy("p", 10.0, 0.1).break_even(50.0) == pytest.approx(2.0)  # above 1: it never pays
    assert Policy("p", 10.0, 0.0).break_even() is None
    assert Policy("p", 10.0, 0.5).break_even(0.0) is None


@pytest.mark.parametrize(("rescue", "spoil", "cost"), [(0.3, 0.05, 1.0), (0.9, 0.4, 10.0)])
def test_above_the_break_even_acting_pays_and_below_it_does_not(rescue, spoil, cost):
    """Runs of which a share fails, all acted on in time: the replay's net saving changes sign at the break-even."""
    policy = Policy("p", cost, rescue, spoil)
    rate = policy.break_even(50.0)
    for share, pays in ((rate + 0.02, True), (rate - 0.02, False)):
        runs = [run([1.0, 2.0, 1.5], i < share * 1000, f"t{i}") for i in range(1000)]
        found = replay(detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0), [policy], failure_cost=50.0)
        assert (rows_of(found, "p")["always"]["net_saving"] > 0) is pays


def test_policies_are_written_and_kept_as_data():
    assert parse_policy("retry:3:0.5") == Policy("retry", 3.0, 0.5)
    assert msgspec.json.decode(msgspec.json.encode(CONFIRM), type=Policy) == CONFIRM
    assert parse_policy("retry:3:0.5:0.1") == Policy("retry", 3.0, 0.5, 0.1)
    for text in ("retry", "retry:3", "retry:3:0.5:1:1", "retry:a:b", "retry:1:1:x", ":1:0.5"):
        with pytest.raises(InputError, match="policy"):
            parse_policy(text)


def test_what_cannot_be_used_is_refused():
    for cost, rescue in ((-1.0, 0.5), (math.inf, 0.5), (1.0, 1.5), (1.0, math.nan)):
        with pytest.raises(InputError, match="policy 'x'"):
            Policy("x", cost, rescue)
    with pytest.raises(InputError, match="policy 'x': the chance to spoil one, 1.5"):
        Policy("x", 1.0, 0.5, 1.5)
    with pytest.raises(InputError, match="names of their own"):
        replay(simulated(), [CONFIRM, CONFIRM])
    with pytest.raises(InputError, match="notice_turns"):
        replay(simulated(), [CONFIRM], notice_turns=-1)
    with pytest.raises(InputError, match="failure_cost"):
        replay(simulated(), [CONFIRM], failure_cost=math.nan)
