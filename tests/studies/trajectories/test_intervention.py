"""Replayed interventions: money and failures on paper, beside never, always and at random."""

import itertools
import json
import math

import msgspec
import numpy as np
import pytest

from howsure.errors import InputError
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
    found = replay(detection, [HANDOVER], failure_cost=100.0, seed=0)
    assert (found["runs"], found["failures"], found["notice_turns"], found["reason"]) == (5, 3, 1, None)
    rows = rows_of(found, "handover")
    assert list(rows) == ["alarm", "never", "always", "random"]
    alarm = rows["alarm"]
    assert (alarm["interventions"], alarm["spent"]) == (2, 20.0)
    assert (alarm["failures_avoided"], alarm["failures_left"]) == (0.5, 2.5)  # the other one left no turn
    assert (alarm["cost_per_avoided_failure"], alarm["net_saving"]) == (40.0, 30.0)
    assert rows["never"]["failures_left"] == 3
    assert (rows["never"]["spent"], rows["never"]["cost_per_avoided_failure"]) == (0, None)
    assert (rows["always"]["interventions"], rows["always"]["failures_avoided"]) == (5, 1.5)
    # 2 of 5 runs; a random turn leaves one more in 3 of 4, 2 of 3 and 1 of 2 turns
    assert rows["random"]["interventions"] == pytest.approx(2)
    assert rows["random"]["failures_avoided"] == pytest.approx(0.5 * 2 / 5 * (3 / 4 + 2 / 3 + 1 / 2))


def test_notice_decides_what_is_in_time():
    detection = detect(on_paper().runs[:5], detector="cusum", false_alarm_rate=0.5, seed=0)
    avoided = [
        rows_of(replay(detection, [HANDOVER], notice_turns=notice, seed=0), "handover")["alarm"]["failures_avoided"]
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
    found = replay(simulated(), [HANDOVER, CONFIRM], failure_cost=60.0, seed=0)
    for policy in (HANDOVER, CONFIRM):
        rows = rows_of(found, policy.name)
        assert rows["alarm"]["interventions"] == pytest.approx(rows["random"]["interventions"])
        assert rows["alarm"]["failures_avoided"] > 1.5 * rows["random"]["failures_avoided"]
        assert rows["alarm"]["low"] < rows["alarm"]["failures_avoided"] < rows["alarm"]["high"]
        for row in rows.values():
            assert row["failures_left"] + row["failures_avoided"] == pytest.approx(found["failures"])
            assert row["spent"] == pytest.approx(policy.cost * row["interventions"])
            assert row["net_saving"] == pytest.approx(60 * row["failures_avoided"] - row["spent"])
    assert all(row["net_saving"] is None for row in replay(simulated(), [CONFIRM], seed=0)["table"])


def test_the_curve_is_a_sweep_over_one_threshold():
    detection = simulated(1)
    points = replay(detection, [HANDOVER], seed=0)["curves"]["handover"]
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
    points = replay(detect(runs, detector="cusum", false_alarm_rate=0.1, seed=0), [CONFIRM], seed=0)["curves"][
        "confirm"
    ]
    assert 150 < len(points) <= 200
    assert (points[0]["interventions"], points[-1]["interventions"]) == (0, 450)


def test_infinite_turns_are_safe():
    runs = [*on_paper().runs, run([2.0, math.inf, 1.0], True, "b")]
    found = replay(detect(runs, detector="cusum", false_alarm_rate=0.5, seed=0), [HANDOVER], seed=0)
    json.dumps(found, allow_nan=False)
    first = found["curves"]["handover"][0]
    assert (first["threshold"], first["interventions"]) == (None, 0)


@pytest.mark.parametrize("rate", [0.5, 0.01])
def test_nothing_to_replay_has_its_reason(rate):
    runs = [run([1.0, 2.0, 3.0], task == "a", task) for task in "abc"] if rate < 0.5 else []
    found = replay(detect(runs, detector="cusum", false_alarm_rate=rate, seed=0), [HANDOVER], seed=0)
    json.dumps(found, allow_nan=False)
    assert found["table"] == []
    assert found["reason"]
    assert found["curves"]["handover"] == [] or rate < 0.5  # a curve needs no fitted threshold


def test_the_seed_decides_the_interval():
    one, two, three = (replay(simulated(), [CONFIRM], seed=seed)["table"] for seed in (1, 1, 2))
    assert one == two
    assert one != three


def test_policies_are_written_and_kept_as_data():
    assert parse_policy("retry:3:0.5") == Policy("retry", 3.0, 0.5)
    assert msgspec.json.decode(msgspec.json.encode(CONFIRM), type=Policy) == CONFIRM
    for text in ("retry", "retry:3", "retry:3:0.5:1", "retry:a:b", ":1:0.5"):
        with pytest.raises(InputError, match="policy"):
            parse_policy(text)


def test_what_cannot_be_used_is_refused():
    for cost, rescue in ((-1.0, 0.5), (math.inf, 0.5), (1.0, 1.5), (1.0, math.nan)):
        with pytest.raises(InputError, match="policy 'x'"):
            Policy("x", cost, rescue)
    with pytest.raises(InputError, match="names of their own"):
        replay(simulated(), [CONFIRM, CONFIRM], seed=0)
    with pytest.raises(InputError, match="notice_turns"):
        replay(simulated(), [CONFIRM], notice_turns=-1, seed=0)
    with pytest.raises(InputError, match="failure_cost"):
        replay(simulated(), [CONFIRM], failure_cost=math.nan, seed=0)
