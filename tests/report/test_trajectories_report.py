"""Pages of trajectories: figures by hand, groups apart, alarms at their turns, conversations that stay words."""

from __future__ import annotations

import html
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.report import trajectories as view
from howsure.report import views
from howsure.report.document import Document, Section
from howsure.report.run_data import StoredRun
from howsure.report.run_report import report_of
from howsure.report.trajectories_alarms import _curves
from howsure.report.trajectories_groups import DRAWN, QUARTILES, alarms_of, groups_of, quantiles
from howsure.report.trajectories_talk import spark
from howsure.runs import Sample
from howsure.studies.trajectories import Policy
from howsure.studies.trajectories.intervention import ActedOn, CurvePoint, Interventions, PolicyTerms
from report.rendered import about, as_html, body, cards, page, printed, stored
from trajectory_logs import call, greeting, message, results, scored, simulation

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202eevil\x1b[31m"


def study(folder: Path, *logs: dict[str, Any], **options: Any) -> StoredRun:
    paths = []
    for place, log in enumerate(logs):
        paths.append(folder / f"log{place}.json")
        paths[-1].write_text(json.dumps(log), encoding="utf-8")
    howsure.trajectories(paths, out=folder / "run", **options)
    return stored(folder / "run")


def unfinished(run: StoredRun) -> StoredRun:
    """The same run before its end."""
    path = run.folder / "run.json"
    path.write_text(path.read_text().replace('"finished"', '"interrupted"'))
    (run.folder / "summary.json").unlink()
    return stored(run.folder)


def calm_and_wild() -> dict[str, Any]:
    """Twelve calm runs that are solved, then three that become unsure at their third turn of four and fail."""
    calm = [[0.5, 0.5 + 0.01 * i, 0.5, 0.5] for i in range(12)]
    wild = [[0.5, 0.5, 5.0, 5.0 + i] for i in range(3)]
    return results(*[
        scored(u, [0.1] * 4, id=f"s{i}", task_id=f"t{i}", reward_info={"reward": float(i < 12)})
        for i, u in enumerate(calm + wild)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    policies = (Policy("ask", 1.0, 0.5), Policy(HOSTILE, 10.0, 1.0, 0.2))
    judging = {"false_alarms": 0.2, "policy": policies, "failure_cost": 50.0}
    return study(tmp_path_factory.mktemp("judged"), calm_and_wild(), **judging)


def sections(run: StoredRun) -> list[Section]:
    """Those of a page."""
    return [section for section in view.document(run.summary, run) if section.on != "terminal"]


def titled(run: StoredRun, title: str) -> str:
    """The markup of the section whose title ends so."""
    return as_html([section for section in sections(run) if section.title.endswith(title)])


def titles(run: StoredRun) -> list[str]:
    return [section.title for section in sections(run) if section.title not in ("All turns together", "Worth a look")]


def text_of(markup: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", markup)))


def tables(markup: str) -> list[list[list[str]]]:
    """The rows of every table, without their headers."""
    return [
        [
            [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
        ]
        for table in re.findall(r"<table>.*?</table>", markup, re.DOTALL)
    ]


def cells(markup: str, header: str) -> list[list[str]]:
    """The rows of the first table whose headers include this one."""
    place = [f">{header}<" in one for one in re.findall(r"<table>.*?</table>", markup, re.DOTALL)].index(True)
    return tables(markup)[place]


def row_of(run: StoredRun, index: int) -> int:
    return run.table.numbers("_index").tolist().index(index)


def document_of(run: StoredRun) -> Document:
    return views.document_of(run.study, run.summary, run)


# -- rows ------------------------------------------------------------------------------------------------------------


def test_a_row_by_hand(tmp_path: Path) -> None:
    talk = [
        greeting(), message("user", "my flight", -0.2, -0.4), message("assistant", "", tool_calls=call()),
        message("tool", "{}", id="c1"), message("assistant", "done", -3.0), message("assistant", "bye", -4.0),
    ]  # fmt: skip
    run = study(tmp_path, results(simulation(talk, id="a", task_id="flights", reward_info={"reward": 0.5})))
    row = run.table.row(0)
    wanted = {
        "task": "flights", "domain": "airline", "agent": "gpt-x", "trial": 0, "reward": 0.5, "solved": False,
        "turns": 5, "agent_mean": 3.5, "user_mean": pytest.approx(0.3), "largest": 4.0, "scored": 3,
        "infinite": 0, "missing": "1 scripted, 1 tool_call", "scored_by": "log", "termination": "user_stop",
        "opening": "my flight",
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert row["_who"] == "auaaa"
    assert [math.isnan(u) for u in row["_agent"]] == [True, True, False, False]
    assert row["_agent_rms"] == pytest.approx(math.sqrt(12.5))
    assert set(wanted) == {column.name for column in view.COLUMNS}


def test_an_infinite_mean_is_no_number_for_people_and_a_rank_for_plots(tmp_path: Path) -> None:
    runs = [scored([u], [0.1], id=str(i), task_id=str(i)) for i, u in enumerate([0.5, 9999.0, 1.0])]
    run = study(tmp_path, results(*runs))
    assert run.table.values("agent_mean") == [0.5, None, 1.0]
    assert run.table.values("_agent_mean")[1] == math.inf
    _, solved = cards(run)
    assert [one.verdict for one in solved] == [
        "infinite U, solved", "mean U 1.00 nats, solved", "mean U 0.50 nats, solved",
    ]  # fmt: skip
    assert "infinite" in text_of(about(run, 1))
    assert run.table.values("infinite") == [0, 1, 0]
    assert run.table.values("scored") == [2, 2, 2]
    assert run.table.values("missing") == [None] * 3
    assert "1 of 3 are not drawn: the value is missing or infinite" in text_of(page(run))


def test_a_mean_beside_an_infinite_turn_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = study(tmp_path, results(scored([9999.0, 0.8], [0.1, 0.3], id="a")))
    assert run.table.values("agent_mean") == [0.8]
    assert cards(run)[1][0].verdict == "mean U 0.80 nats (without 1 turn of infinite U), solved"
    page = text_of(about(run, 0))
    assert "agent, mean U 0.800 nats (without 1 turn of infinite U)" in page
    assert "user, mean U 0.200 nats largest U infinite" in page
    assert "turns scored 4 of 4" in page


def test_a_run_alone_in_its_group_is_neither_the_surest_nor_the_least_sure(tmp_path: Path) -> None:
    several = [scored([u], [0.1], id=str(u), task_id=f"{u}", reward_info={"reward": 0.0}) for u in (0.5, 1.0, 1.5)]
    info = {"agent_info": {"llm": "other"}, "environment_info": {"domain_name": "airline", "policy": ""}}
    alone = results(scored([9.0], [0.1], id="alone", task_id="alone", reward_info={"reward": 0.0}), info=info)
    failed, _ = cards(study(tmp_path, results(*several), alone))
    assert [one.title for one in failed] == ["0.5", "1.0", "alone", "1.5"]


# -- plots -----------------------------------------------------------------------------------------------------------


def test_a_quartile_beside_something_infinite_is_the_value_that_lies_there() -> None:
    column = [[1.0, 1.0], [2.0, 2.0], [3.0, math.inf], [4.0, math.inf], [math.inf, math.inf]]
    found = quantiles(np.array(column), QUARTILES)
    assert found.T.tolist() == [[2.0, 3.0, 4.0], [2.0, math.inf, math.inf]]


def test_infinite_turns_are_counted_and_stand_in_the_table(tmp_path: Path) -> None:
    turns = [[0.5, 1.0], [0.6, 2.0], [0.7, 9999.0], [0.8, 9999.0], [0.9, 9999.0]]
    runs = [scored(u, [0.1], id=str(i), task_id=str(i)) for i, u in enumerate(turns)]
    markup = page(study(tmp_path, results(*runs)))
    assert cells(markup, "turn of the agent")[1] == ["2", "solved", "5", "2", "∞", "∞"]
    assert "3 turns are infinitely unsure (a token of probability 0)" in text_of(markup)


@pytest.mark.parametrize(("runs", "said"), [(2, False), (3, True)])
def test_a_median_of_two_runs_is_not_said_to_end_below_three(tmp_path: Path, runs: int, said: bool) -> None:
    listed = [scored([0.5, 0.6], [0.1], id=str(i), task_id=str(i)) for i in range(runs)]
    words = text_of(page(study(tmp_path, results(*listed))))
    assert ("ends where fewer than 3 are left" in words) is said


def test_what_is_infinite_on_the_page_of_a_run_is_the_line_and_not_every_turn_after_it(tmp_path: Path) -> None:
    run = study(tmp_path, results(scored([0.5, 9999.0, 1.0], [0.1] * 3, id="a")))
    markup = about(run, 0)
    assert "U is infinite at turn 4, where a token has probability 0; from there on the line" in text_of(markup)
    assert [row[2:4] for row in cells(markup, "speaker")][1::2] == [["0.5", "0.5"], ["∞", "∞"], ["1", "∞"]]


def test_runs_that_the_plot_against_rewards_leaves_out_are_counted(tmp_path: Path) -> None:
    runs = [
        scored([u], [0.1], id=str(i), task_id=str(i), reward_info=None if i == 2 else {"reward": 0.5})
        for i, u in enumerate([0.5, 9999.0, 1.0, 2.0])
    ]
    words = text_of(page(study(tmp_path, results(*runs))))
    assert "2 of 4 have no finite score or no reward." in words


def test_of_long_curves_so_many_points_are_drawn_as_a_table_has_rows() -> None:
    names = (
        "spent",
        "failures_avoided",
        "successes_spoiled",
        "net_avoided",
        "random_failures_avoided",
        "random_net_avoided",
    )
    missing: dict[str, Any] = {"threshold": None, "cost_per_avoided_failure": None, "net_saving": None}
    curve = [CurvePoint(interventions=i, **dict.fromkeys(names, float(i)), **missing) for i in range(200)]
    terms = {"cost": 1.0, "rescue": 0.5, "spoil": 0.0, "break_even": 0.0, "break_even_with_costs": None}
    replayed = Interventions(
        detector="cusum",
        note=None,
        notice_turns=1,
        failure_cost=None,
        runs=200,
        failures=100,
        reason=None,
        alarmed=ActedOn(None, 0, 0),
        policies=[PolicyTerms(name=f"p{i}", **terms) for i in range(4)],
        table=[],
        curves={f"p{i}": curve for i in range(4)},
    )
    markup = as_html([Section("", [_curves(replayed)])])
    assert "more rows" not in markup
    rows = cells(markup, "failures avoided, net")
    assert {row[0] for row in rows} == {"p0", "p1", "p2", "p3"}
    assert rows[-1][1:] == ["199", "199", "199"], "both ends are kept"


def test_tables_have_every_point_of_their_plots(tmp_path: Path) -> None:
    draw = random.Random(3)
    runs = [
        scored(
            [draw.random()],
            [draw.random()],
            id=str(i),
            task_id=str(i),
            reward_info={"reward": draw.choice([0, 0.5, 1])},
        )
        for i in range(520)
    ]
    markup = page(study(tmp_path, results(*runs)))
    assert "more rows" not in markup
    assert {row[0] for row in cells(markup, "share of failures found")} == set(DRAWN.values())
    assert "500 of 520 runs are drawn" in markup


def test_medians_and_quartiles_by_turn(judged: StoredRun) -> None:
    rows = cells(titled(judged, "airline, gpt-x"), "turn of the agent")
    assert ["2", "solved", "12", "0.5275", "0.555", "0.5825"] in rows
    assert ["4", "failed", "3", "5.5", "6", "6.5"] in rows
    assert len(rows) == 8


def test_all_parts_of_a_judged_group(judged: StoredRun) -> None:
    assert titles(judged) == [
        "airline, gpt-x", "Did uncertainty foretell failure?", "When would an alarm have fired?",
        "What would intervening have saved?",
    ]  # fmt: skip
    assert "15 runs of 15 tasks, 3 failed" in text_of(titled(judged, "airline, gpt-x"))
    markup = titled(judged, "foretell failure?")
    curve = cells(markup, "share of failures found")
    assert ["agent: mean", "0", "1"] in curve, "every failure before the first solved run"
    assert ["turn count", "1", "1"] in curve
    assert len([row for row in curve if row[0] == "turn count"]) == 2, "a tie of all is one step"
    rows = {row[0]: row[1:] for row in cells(markup, "AUROC (chance 0.500)")}
    assert rows["turn count"][:2] == ["15", "0.50 (about 0.19 to 0.81)"]
    assert rows["agent: rms"][2] == "1.000"
    assert len(rows) == 1 + 3 * 6


def test_alarms_are_drawn_where_they_rang(judged: StoredRun) -> None:
    (group,) = groups_of(judged.summary, judged)
    rang = alarms_of(group)["cusum"]
    assert {(judged.table.values("task")[one.row], one.turn) for one in rang} >= {("t12", 6), ("t13", 6), ("t14", 6)}
    markup = titled(judged, "airline, gpt-x")
    assert markup.count('class="point s3"') == len(rang) + 1, "each alarm, and the legend"
    assert "t12: alarm at turn 6, failed" in markup
    markup = titled(judged, "alarm have fired?")
    caught = {row[0]: row[1:] for row in cells(markup, "false alarms")}
    assert caught["cusum"][0] == "3 of 3, 100.0 %"
    assert caught["cusum"][2:] == ["2.0", "2 and 2"], "turns still to come, and their quartiles"
    said = text_of(markup)
    assert "turn count, when turn k is reached, whatever was said: the baseline to beat; threshold, when" in said
    assert "for this set nothing is guaranteed" in said
    assert "failures caught: no interval: 3 tasks, and it takes at least 5" in said
    assert re.search(r"against turn count, cusum: \+[0-9.]+ points of failures caught; nobody can say", said)
    early = cells(markup, "solved")
    assert sum(int(row[3]) for row in early if row[0] == "2") == 3, "two turns were still to come"


def test_interventions_are_drawn_with_the_policies_names_made_safe(judged: StoredRun) -> None:
    markup = titled(judged, "intervening have saved?")
    first, second = (
        {row[0]: row[1:] for row in rows} for rows in tables(markup) if rows and rows[0][0] == "interventions"
    )
    assert list(first) == ["interventions", "spent", "failures avoided", "cost of one avoided", "net saving"]
    assert "runs spoiled" in second
    assert re.fullmatch(r"2\.4 \(about [0-9.]+ to [0-9.]+\)", second["runs spoiled"][1]), "a fifth of twelve"
    said = text_of(markup)
    assert (
        "ask (cost 1, rescues 50.0 %, spoils 0.0 %): acting in time pays at every failure rate among the runs acted "
        "on, its cost aside; above 4.0 %"
    ) in said
    assert "Failures avoided less runs spoiled, along all thresholds" in said
    assert "<img" not in markup
    assert "\x1b" not in markup
    assert markup.count('class="line s0"') == 2, "the curve and the legend"
    assert markup.count('class="line thin s0"') == 1


def test_without_policies_a_sentence_says_how_to_have_them(tmp_path: Path) -> None:
    run = study(tmp_path, calm_and_wild())
    assert "--policy confirm:1:0.3" in text_of(titled(run, "intervening have saved?"))


def test_why_no_alarm_could_be_fitted(tmp_path: Path) -> None:
    runs = [scored([1.0, 1 + i], [0.1], id=str(i), task_id=str(i), reward_info={"reward": i % 2}) for i in range(6)]
    words = text_of(titled(study(tmp_path, results(*runs)), "alarm have fired?"))
    assert "No alarm could be fitted to these runs" in words
    assert "set no threshold for a false alarm rate of 0.1: that takes 9" in words
    assert words.count("that takes 9") == 1, "what holds for all is said once"


def test_groups_are_never_pooled_and_the_smallest_are_counted(tmp_path: Path) -> None:
    def log(domain: str, runs: int, base: float) -> dict[str, Any]:
        made = [
            scored([base + i], [0.1], id=str(i), task_id=str(i), reward_info={"reward": i % 2}) for i in range(runs)
        ]
        info = {"agent_info": {"llm": "m"}, "environment_info": {"domain_name": domain}}
        return results(*made, info=info)

    logs = [log("five", 5, 0), log("four", 4, 100), log("three", 3, 200), log("two", 2, 300)]
    run = study(tmp_path, *logs)
    rows = cells(titled(run, "five, m"), "turn of the agent")
    assert [row[4] for row in rows] == ["2", "2"], "medians of 1, 3 and of 0, 2, 4 alone"
    drawn = [title for title in titles(run) if "<svg" in titled(run, title)]
    assert {title.partition(",")[0] for title in drawn} == {"five", "four", "three"}
    assert "two, m: Did uncertainty foretell failure?" in titles(run), "tables of the others too"
    assert "2 runs of 2 tasks, 1 failed" in text_of(titled(run, "two, m"))
    assert [one.verdict for one in cards(run)[0][:4]] == [f"mean U {u:.2f} nats, failed" for u in (0, 100, 200, 300)], (
        "the surest of each group come first, whatever its scale"
    )


def test_of_many_groups_the_smallest_are_counted(tmp_path: Path) -> None:
    infos = [{"agent_info": {"llm": f"m{i:02}"}, "environment_info": {"domain_name": "d"}} for i in range(12)]
    made = [scored([1.0], [0.1], id="a", task_id="a")]
    run = study(tmp_path, *(results(*made, info=info) for info in infos))
    assert titles(run)[-1] == "Further groups"
    more = "Not shown, but in summary.json: d, m10 (1 run of 1 task, 0 failed); d, m11 (1 run of 1 task, 0 failed)."
    assert more in text_of(page(run))
    assert more in " ".join(printed(document_of(run), 400).split())


def test_a_run_in_progress_shows_what_its_rows_allow(tmp_path: Path) -> None:
    run = unfinished(study(tmp_path, calm_and_wild()))
    assert run.summary is None
    assert titles(run) == ["airline, gpt-x", "Did uncertainty foretell failure?"]
    assert "agent: mean" in text_of(titled(run, "foretell failure?"))
    assert "AUROC (chance" not in page(run)
    assert cards(run)[0]
    assert "U 5.000 nats" in text_of(about(run, row_of(run, 12)))


def test_nothing_yet(tmp_path: Path) -> None:
    run = unfinished(study(tmp_path, calm_and_wild()))
    (run.folder / "samples.jsonl").write_text("")
    run = stored(run.folder)
    assert titles(run) == []
    assert "There are no runs yet." in page(run)


def test_logs_without_scores_say_what_to_do(tmp_path: Path) -> None:
    talk = [message("user", "hello"), message("assistant", "yes")]
    run = study(tmp_path, results(*[simulation(talk, id=str(i), task_id=str(i)) for i in range(2)]))
    words = text_of(page(run))
    assert "No turn here has a score" in words
    assert "Not judged: no turn has a score" in words
    assert "nobody knows how sure it was. --score-with smollm2" in words


def test_runs_without_a_reward_are_drawn_and_not_judged(tmp_path: Path) -> None:
    runs = [scored([1.0, 2.0], [0.5], id=str(i), task_id=str(i), reward_info=None) for i in range(2)]
    words = text_of(page(study(tmp_path, results(*runs, simulation(None, ticks=[{}], id="voice")))))
    assert "reward not known: median" in words
    assert "No turn here has a score" not in words
    assert "has a reward (2 no reward)" in words


def test_rewards_between_solved_and_failed_have_a_plot(tmp_path: Path) -> None:
    runs = [
        scored([1.0 + i], [0.5], id=str(i), task_id=f"t{i}", reward_info={"reward": r}) for i, r in enumerate([0.25, 1])
    ]
    rows = cells(titled(study(tmp_path, results(*runs)), "foretell failure?"), "reward")
    assert rows == [["t0", "1", "0.25"], ["t1", "2", "1"]]


def test_adapted_scores_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from studies.trajectories.test_study import Flat

    monkeypatch.setattr("howsure.studies.trajectories.study.SentenceEmbedder", Flat)
    run = study(tmp_path, calm_and_wild(), distances=True)
    shown = " ".join(printed(document_of(run), 80).split())
    for words in ("agent: distance *", "overall: learned *", "* adapted from SAUP", "do not reproduce it"):
        assert words in shown, words
    rows = {row[0] for row in cells(titled(run, "foretell failure?"), "AUROC (chance 0.500)")}
    assert {"user: distance *", "user: learned *", "turn count"} <= rows


# -- samples worth a look --------------------------------------------------------------------------------------------


def test_the_surest_failures_and_the_least_sure_successes(judged: StoredRun) -> None:
    failed, solved = cards(judged)
    assert [one.title for one in failed[:2]] == ["t12", "t13"]
    assert [one.title for one in solved[:2]] == ["t11", "t10"]
    assert failed[0].verdict == "mean U 2.75 nats, failed"
    first = text_of(body(failed[0]))
    assert "trial 0, reward 0.00, 8 turns" in first
    assert "U over the agent's 4 turns: 0.50 to 5.00 nats" in first


def test_a_spark_has_gaps_and_tells_its_values() -> None:
    assert "the first 200 are drawn" in str(spark([1.0] * 201, "agent"))
    assert "drawn" not in str(spark([1.0] * 200, "agent"))
    drawn = str(spark([1.0, 2.0, math.nan, 3.0, math.inf, 4.0], "agent"))
    assert drawn.count("<path") == 2, "the axis, and the one pair of neighbours"
    assert drawn.count("<circle") == 4
    assert "1.00, 2.00, none, 3.00, infinite, 4.00" in drawn
    assert "1.00 to 4.00 nats, infinite once or more" in drawn
    assert "No turn of the agent has a finite U" in str(spark([math.nan, math.inf], "agent"))


# -- the page of a run -----------------------------------------------------------------------------------------------


def test_a_conversation_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    talk = [
        greeting(), message("user", HOSTILE, -1.0), message("assistant", "", -3.0, tool_calls=call(q=HOSTILE)),
        message("tool", f"{HOSTILE} no such flight", id="c1", error=True), message("assistant", "sorry", -4.0, -6.0),
    ]  # fmt: skip
    run = study(tmp_path, results(simulation(talk, id="a", task_id=HOSTILE)), tokens=True)
    found = view.about(run.sample(0), run)
    markup = as_html(found)
    assert [one.title for one in found] == [
        "How it ended", "Uncertainty turn by turn", "The conversation", "Raw record",
    ]  # fmt: skip
    assert "<script" not in markup
    assert "<img" not in markup
    assert "style=" not in markup
    assert not set("\x1b\u202e") & set(markup)
    kinds = re.findall(r'<li class="message (\w+)">', markup)
    assert kinds == ["agent", "user", "agent", "tool", "agent"]
    words = text_of(as_html(found[2:3]))
    assert "agent, turn 1 no U Hi! How can I help you today? No U: the greeting" in words
    assert "agent, turn 3 U 3.000 nats so far 3.000 tool error" in words
    assert f"agent, turn 4 U 5.000 nats so far {math.sqrt(17):.3f}" in words
    assert "no such flight" in words
    assert "token by token (2) t0 «t0» 1.8 %, 5.8 bits" in words
    assert cells(markup, "so far (RMS), nats")[2] == ["3", "agent", "3", "3", "", "tool error"]


def test_alarms_stand_at_their_turns(judged: StoredRun) -> None:
    markup = about(judged, row_of(judged, 12))
    alarmed = [one for one in markup.split("<li ") if "alarmed" in one]
    assert any("agent, turn 6" in one and "alarm: cusum" in one for one in alarmed)
    assert re.search(r'class="rule".*?>alarm: [^<]*cusum<', markup.split("</svg>")[0]), "an upright line on the plot"
    calm = about(judged, row_of(judged, 0))
    assert "alarmed" not in calm


def test_shades_compare_with_the_same_speaker_in_comparable_runs(judged: StoredRun) -> None:
    markup = about(judged, row_of(judged, 14))
    assert re.search(r'shade u4">U 7\.000 nats', markup)
    assert re.search(r'shade u0">U 0\.500 nats', markup)
    assert "The shades begin at: agent: 0.50" in markup


def test_a_run_of_before_shows_previews_and_says_so(tmp_path: Path) -> None:
    long = "word " * 100
    run = study(tmp_path, results(simulation([message("user", long, -1.0), message("assistant", "ok", -1.0)])))
    sample = run.sample(0)
    assert long.strip() in text_of(about(run))
    old = Sample(sample.id, sample.index, sample.result)
    words = text_of(as_html(view.about(old, run)[:3]))
    assert "kept the beginnings of messages only" in words
    assert long[:90] in words
    assert long.strip() not in words


def test_what_was_cut_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SAID_CHARACTERS", 10)
    run = study(tmp_path, results(simulation([message("user", "x" * 25, -1.0)])))
    assert "had 25 characters, and was cut" in text_of(about(run, 0))


def test_hundreds_of_turns_are_folded_and_drawn_in_part(tmp_path: Path) -> None:
    run = study(tmp_path, results(scored([0.5] * 400, [0.1] * 400, id="a"), scored([0.5], [0.1], id="b")))
    markup = about(run, 0)
    assert "messages 61 to 120 of 800" in markup
    assert "The first 500 of 800 turns are drawn" in markup
    assert markup.count('<li class="message') == 800
    assert "The first 120 of up to 400 turns are drawn" in page(run)
    assert len(markup) < 1_000_000


def test_a_page_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MOST_MESSAGES", 5), ("MOST_CHARACTERS", 500), ("MOST_TOKENS", 3)):
        monkeypatch.setattr(f"howsure.report.trajectories_talk.{name}", value)
    talk = [message("user", f"{i} " + "y" * 400, -1.0, -1.0) for i in range(7)]
    run = study(tmp_path, results(simulation(talk)), tokens=True)
    words = text_of(as_html(view.about(run.sample(0), run)[2:3]))
    assert "and 2 more messages, in samples.jsonl" in words
    assert words.count("y" * 400) == 2
    assert words.count("lists: this page has no room") == 4


def test_a_run_that_is_not_supported_says_why(tmp_path: Path) -> None:
    run = study(tmp_path, results(simulation(None, ticks=[{}], id="v"), scored([1.0], [1.0], id="b")))
    found = view.about(run.sample(0), run)
    assert [one.title for one in found] == ["How it ended", "Not analysed", "Raw record"]
    assert "a voice run" in text_of(as_html(found[1:2]))


def test_reports_are_whole_and_a_broken_sample_harms_no_other(judged: StoredRun, tmp_path: Path) -> None:
    assert "not hold" not in report_of([judged.folder])
    run = study(tmp_path, calm_and_wild())
    path = run.folder / "samples.jsonl"
    lines = path.read_text().splitlines()
    bad = json.loads(lines[3])
    bad["result"]["turns"] = [{"number": "three"}]
    path.write_text("\n".join([*lines[:3], json.dumps(bad), *lines[4:]]) + "\n")
    run = stored(run.folder)
    assert run.table.values("reason").count("unreadable_sample") == 1
    report = report_of([run.folder])
    assert "not hold" not in report
    assert "14 runs of 14 tasks, 3 failed" in report


def test_a_run_that_kept_beginnings_only_does_not_say_that_it_has_everything(tmp_path: Path) -> None:
    run = study(tmp_path, results(scored([0.5], [0.1], id="a")))
    sample = run.sample(0)
    assert "Everything that was said" in about(run)
    older = as_html(view.about(msgspec.structs.replace(sample, evidence={}), run))
    assert "Everything that was said" not in older
    assert "This run kept the beginnings of messages only" in older


def test_a_message_for_which_a_page_has_no_room_says_how_long_it_is(tmp_path: Path) -> None:
    turns = [message("user", "u" * 45_000, -0.1) for _ in range(15)]
    run = study(tmp_path, results(simulation(turns, id="a")))
    markup = about(run, 0)
    assert "of 45,000 characters: this page has no room for more" in markup


def test_shades_count_infinite_turns_among_all_turns(tmp_path: Path) -> None:
    turns = [0.1 * place for place in range(1, 11)] + [9999.0] * 10
    run = study(tmp_path, results(scored(turns, [0.1] * 20, id="a")))
    page = text_of(about(run, 0))
    assert "agent: ∞, ∞, ∞, ∞ nats" in page, (
        "half of the turns are infinite, so that all finite ones are the surer half"
    )
