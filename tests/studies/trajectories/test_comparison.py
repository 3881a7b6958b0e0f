"""Two runs compared by task: figures on paper, what is not compared and why, and runs of real logs."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import howsure
from howsure.cli.app import app
from howsure.errors import InputError
from howsure.measures import auroc, mcnemar_exact, paired_means, paired_shares
from howsure.report.run_report import report_of
from howsure.report.viewer.library import compare_apart
from howsure.runs import Run
from howsure.studies.trajectories.comparison import TrajectoriesComparison
from report.rendered import printed
from report.viewer.asking import Browser
from trajectory_logs import message, results, scored, simulation

REAL = Path(__file__).parents[4] / "shared" / "data" / "tau2"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def trial(task: str, solved: bool | None, agent: Sequence[float] = (0.5,), number: int = 0, **fields: Any) -> Any:
    """One run of a task, of as many turns of agent and user; a reward of None is missing."""
    reward = None if solved is None else {"reward": float(solved)}
    made = scored(agent, [0.1] * len(agent), id=f"{task}-{number}", task_id=task, trial=number, reward_info=reward)
    return made | fields


def about(agent: str | None = "gpt-x", domain: str | None = "airline") -> dict[str, Any]:
    environment = {} if domain is None else {"environment_info": {"domain_name": domain}}
    return {"agent_info": {"llm": agent}} | environment


def run_of(folder: Path, *logs: dict[str, Any], **options: Any) -> Path:
    folder.mkdir(parents=True)
    for place, log in enumerate(logs):
        (folder / f"log{place}.json").write_text(json.dumps(log), encoding="utf-8")
    howsure.trajectories([folder / f"log{place}.json" for place in range(len(logs))], out=folder / "run", **options)
    return folder / "run"


def pair(
    folder: Path, one: Sequence[Any], other: Sequence[Any], info: Any = None, of_b: Any = None
) -> TrajectoriesComparison:
    """Compared, with the info of both logs or that of each."""
    first = info or about()
    a = run_of(folder / "a", results(*one, info=first))
    compared = howsure.compare(a, run_of(folder / "b", results(*other, info=of_b or first)))
    assert isinstance(compared, TrajectoriesComparison)
    return compared


# -- success ----------------------------------------------------------------------------------------------------------


def test_single_trials_by_hand(tmp_path: Path) -> None:
    """Ten tasks: four solved in both, one in A alone, three in B alone, two in neither; B takes a turn more."""
    solved_a = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    solved_b = [1, 1, 1, 1, 0, 1, 1, 1, 0, 0]
    a = [trial(f"t{i}", bool(one), [0.5, 0.7]) for i, one in enumerate(solved_a)]
    b = [trial(f"t{i}", bool(one), [0.5, 0.9, 0.7]) for i, one in enumerate(solved_b)]
    compared = pair(tmp_path, a, list(reversed(b)))
    difference = compared.difference
    assert (compared.a.success_rate, compared.b.success_rate) == (0.5, 0.7)
    assert (compared.a.solved_count, compared.b.solved_count, difference.paired_count) == (5, 7, 10)
    assert difference.success_rate is not None
    wanted = paired_shares(solved_a, solved_b)
    assert wanted is not None
    assert wanted.interval is not None
    figure = difference.success_rate
    assert (figure.mean_difference, figure.low, figure.high) == pytest.approx(
        (0.2, wanted.interval.low, wanted.interval.high)
    )
    assert difference.mcnemar is not None
    cells = difference.mcnemar
    assert (cells.both_correct, cells.only_a_correct, cells.only_b_correct, cells.both_wrong) == (4, 1, 3, 2)
    assert cells.p_value == mcnemar_exact(solved_a, solved_b).p_value == pytest.approx(0.625)
    assert difference.turns is not None
    assert (difference.turns.mean_a, difference.turns.mean_b, difference.turns.mean_difference) == (4, 6, 2)
    assert difference.turns.note == "no interval: all changed alike"
    assert [one.id for one in difference.flips.lost] == ["airline/t4"]
    assert {one.id for one in difference.flips.won} == {"airline/t5", "airline/t6", "airline/t7"}
    assert difference.domains == []


def test_trials_of_a_task_are_one_unit(tmp_path: Path) -> None:
    """t0 is solved in 3 of 4 and in 1 of 2 trials, t1 in 1 of 4 and 2 of 2, the other four in all or none."""
    a = [trial("t0", i < 3, number=i) for i in range(4)] + [trial("t1", i < 1, number=i) for i in range(4)]
    b = [trial("t0", i < 1, number=i) for i in range(2)] + [trial("t1", True, number=i) for i in range(2)]
    for task in ("t2", "t3", "t4", "t5"):
        for side in (a, b):
            side.append(trial(task, task < "t4"))
    compared = pair(tmp_path, a, b)
    difference = compared.difference
    assert difference.mcnemar is None, "no test of single answers"
    assert difference.trial_count == 4
    figure = difference.success_rate
    assert figure is not None
    assert (figure.mean_a, figure.mean_b, figure.items) == pytest.approx((3 / 6, 3.5 / 6, 6))
    assert figure.low is not None
    assert figure.low < 0.5 / 6
    assert figure.method is not None
    assert "clusters" in figure.method
    (lost,), (won,) = difference.flips.lost, difference.flips.won
    assert (lost.id, lost.solved_a, lost.judged_a, lost.solved_b, lost.judged_b, lost.moved) == (
        "airline/t0",
        3,
        4,
        1,
        2,
        -0.25,
    )
    assert (won.id, won.moved) == ("airline/t1", 0.75)
    assert (lost.sample_a, lost.sample_b) == ("trajectory-0", "trajectory-1"), "solved in A, failed in B"
    assert (won.sample_a, won.sample_b) == ("trajectory-5", "trajectory-2"), "failed in A, solved in B"
    assert any("tasks have several trials" in note for note in compared.notes)


def test_a_missing_reward_is_missing(tmp_path: Path) -> None:
    a = [trial("t0", None), trial("t1", True), trial("t2", True), trial("t2", None, number=1)]
    b = [trial("t0", True), trial("t1", True), trial("t2", False)]
    compared = pair(tmp_path, a, b)
    difference = compared.difference
    assert (compared.a.judged_count, compared.a.trajectory_count, compared.a.success_rate) == (2, 4, 1.0)
    assert difference.success_rate is not None
    assert (difference.success_rate.mean_a, difference.success_rate.mean_b) == (1.0, 0.5)
    assert difference.success_rate.items == 2
    assert difference.unpaired.not_judged == ["airline/t0"]
    assert difference.turns is not None
    assert difference.turns.items == 3, "turns need no reward"
    assert (
        "1 task is in both, but without a reward in one of them, and in no success rate: airline/t0" in compared.notes
    )
    assert "no interval: 2 tasks, and it takes at least 5" in compared.notes


def test_tasks_of_one_run_alone_are_counted_and_named(tmp_path: Path) -> None:
    a = [trial(f"t{i}", True) for i in range(9)]
    b = [trial("t8", True), trial("other", False)]
    compared = pair(tmp_path, a, b)
    assert compared.difference.paired_count == 1
    assert compared.difference.unpaired.only_in_a == [f"airline/t{i}" for i in range(8)]
    named = "airline/t0, airline/t1, airline/t2, airline/t3, airline/t4 and 3 more"
    assert f"8 tasks are in A alone, and in no figure of both: {named}" in compared.notes
    assert "1 task is in B alone, and in no figure of both: airline/other" in compared.notes


def test_no_task_in_common_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are over different tasks: no task is in both$"):
        pair(tmp_path / "ids", [trial("a", True)], [trial("b", True)])
    with pytest.raises(InputError, match="no task is in both"):
        pair(tmp_path / "domains", [trial("a", True)], [trial("a", True)], of_b=about(domain="retail"))


def test_tasks_without_a_domain_are_paired_by_id(tmp_path: Path) -> None:
    compared = pair(tmp_path, [trial("a", True)], [trial("a", False)], info=about(domain=None))
    assert compared.difference.paired_count == 1
    assert [one.id for one in compared.difference.flips.lost] == ["a"]
    assert "logs without a domain: their tasks are paired by id alone" in compared.notes


def test_several_domains_and_agents(tmp_path: Path) -> None:
    """Tasks of one name in two domains are two tasks; whoever the agents of a run are, its trials are its own."""
    logs = [results(trial("t0", True), info=about("one", domain)) for domain in ("airline", "retail")]
    a = run_of(tmp_path / "a", *logs, results(trial("t0", False, number=1), info=about("two", "retail")))
    b = run_of(
        tmp_path / "b", *(results(trial("t0", False), info=about("three", domain)) for domain in ("airline", "retail"))
    )
    compared = howsure.compare(a, b)
    assert isinstance(compared, TrajectoriesComparison)
    known = {one.domain: one.success_rate for one in compared.difference.domains}
    assert {name: one and (one.mean_a, one.mean_b) for name, one in known.items()} == {
        "airline": (1.0, 0.0),
        "retail": (0.5, 0.0),
    }
    assert compared.a.agents == ["one", "two"]
    assert "the runs of A are of 2 agents, taken together: one, two" in compared.notes
    assert "Success rate by domain" in printed(compared)


# -- uncertainty ------------------------------------------------------------------------------------------------------


def doubtful(share: float, seed: int, tasks: int = 40) -> list[Any]:
    """Tasks that fail in some of the runs, with agents that are the less sure then, the more so the larger `share`."""
    draw = np.random.default_rng(seed)
    failed = [bool(task % 2) != bool(draw.random() < 0.2) for task in range(tasks)]
    return [
        trial(f"t{task}", not one, [0.3 + draw.random() + share * one, 0.5 + draw.random() + share * one])
        for task, one in enumerate(failed)
    ]


def test_mean_u_of_one_agent_and_how_well_it_foretells(tmp_path: Path) -> None:
    a, b = doubtful(0.2, 1), doubtful(1.0, 2)
    compared = pair(tmp_path, a, b)
    figure, areas = compared.difference.agent_uncertainty_nats, compared.difference.auroc
    assert figure is not None
    assert areas is not None
    means, failed = [], []
    for one in (a, b):
        agent = [[m["raw_data"]["choices"][0]["logprobs"]["content"][0]["logprob"] for m in s["messages"]] for s in one]
        means.append([-(turns[1] + turns[3]) / 2 for turns in agent])
        failed.append([s["reward_info"]["reward"] == 0.0 for s in one])
    wanted = paired_means(*means)
    assert wanted is not None
    assert wanted.interval is not None
    assert (figure.mean_difference, figure.low) == pytest.approx((wanted.mean_difference, wanted.interval.low))
    values = [auroc(*one) for one in zip(means, failed, strict=True)]
    assert (areas.a.value, areas.b.value) == pytest.approx(tuple(values))
    assert values[0] is not None
    assert values[1] is not None
    assert areas.difference == pytest.approx(values[1] - values[0])
    assert areas.low is not None
    assert areas.high is not None
    assert areas.low < areas.difference < areas.high  # type: ignore[operator]
    assert areas.tasks == 40


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (
            {"info": about("one"), "of_b": about("two")},
            "the scores are the agents' own, of one in A and of two in B, and a score of one model means nothing "
            "beside that of another",
        ),
        (
            {"info": about(None)},
            "the scores are the agents' own, of an unnamed agent in A and of an unnamed agent in B, and",
        ),
    ],
)
def test_scores_of_two_models_are_not_compared(tmp_path: Path, info: dict[str, Any], why: str) -> None:
    compared = pair(tmp_path, doubtful(0.2, 1), doubtful(1.0, 2), **info)
    assert compared.difference.agent_uncertainty_nats is None
    assert any(f"mean U of the agent is not compared: {why}" in note for note in compared.notes)
    assert compared.difference.auroc is not None, "ranks within a run are"


def test_of_users_who_score_themselves_nobody_knows_who_they_were(tmp_path: Path) -> None:
    compared = pair(tmp_path, doubtful(0.2, 1), doubtful(1.0, 2))
    assert compared.difference.user_uncertainty_nats is None
    why = "mean U of the user is not compared: the scores are the users' own, and the logs do not say which model"
    assert any(why in note for note in compared.notes)


def test_logs_without_scores_compare_success_alone(tmp_path: Path) -> None:
    talk = [message("user", "hello"), message("assistant", "yes")]
    runs = [simulation(talk, id=str(i), task_id=str(i), reward_info={"reward": i % 2}) for i in range(6)]
    compared = pair(tmp_path, runs, runs)
    assert compared.difference.success_rate is not None
    assert compared.difference.auroc is None
    told = "\n".join(compared.notes)
    assert "mean U of the agent is not compared: no turn of the agent has a score in A and B" in told
    assert "no run of A has both a reward and a score of its agent" in told


def test_conversations_read_by_one_model_are_compared_and_by_two_not(tmp_path: Path) -> None:
    from studies.trajectories.test_study import Teller

    class Other(Teller):
        name = "other"

    talk = [message("user", "hello there"), message("assistant", "yes of course")]
    more = [message("user", "hello there"), message("assistant", "unquestionably")]
    logs = [[simulation(said, id=str(i), task_id=str(i)) for i in range(5)] for said in (talk, more)]
    first, second = (
        run_of(tmp_path / name, results(*log, info=about(name)), score_with=Teller())
        for name, log in zip("ab", logs, strict=True)
    )
    third = run_of(tmp_path / "c", results(*logs[1], info=about("b")), score_with=Other())
    compared: Any = howsure.compare(first, second)
    assert compared.difference.agent_uncertainty_nats.mean_a == pytest.approx((0.3 + 0.2 + 0.6) / 3)
    assert compared.difference.agent_uncertainty_nats.mean_b == pytest.approx(1.4)
    assert compared.difference.user_uncertainty_nats.mean_difference == 0.0
    other: Any = howsure.compare(first, third)
    assert other.difference.agent_uncertainty_nats is None
    assert any("scored by teller in A and by other in B" in note for note in other.notes)
    windows = run_of(tmp_path / "d", results(*logs[1], info=about("b")), score_with=Teller(), window=500)
    narrower: Any = howsure.compare(first, windows)
    assert narrower.difference.agent_uncertainty_nats is None
    assert any("teller is not the same model in both, or read in other windows" in note for note in narrower.notes)


def test_infinite_turns_are_left_out_and_told(tmp_path: Path) -> None:
    a, b = [trial("t0", True, [0.5, 9999.0])], [trial("t0", True, [0.75])]
    compared = pair(tmp_path, a, b)
    figure = compared.difference.agent_uncertainty_nats
    assert figure is not None
    assert (figure.mean_a, figure.mean_b) == (0.5, 0.75)
    assert "turns of infinite U are in no mean: 1 in A, 0 in B" in compared.notes


@pytest.mark.parametrize(
    ("solved", "why"),
    [
        ([True] * 6, "all runs of A and B that have a score ended alike"),
        ([True, False, True, False], "no interval: it takes at least 5 tasks"),
    ],
)
def test_why_there_is_no_auroc_or_no_interval(tmp_path: Path, solved: list[bool], why: str) -> None:
    runs = [trial(f"t{i}", one, [0.1 * i]) for i, one in enumerate(solved)]
    compared = pair(tmp_path, runs, runs)
    areas = compared.difference.auroc
    assert why in ("\n".join(compared.notes) if areas is None else str(areas.note))


# -- as people meet it ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two versions of an agent, with words from outside that would like to be more."""
    folder = tmp_path_factory.mktemp("two")
    logs = [doubtful(0.2, 1), doubtful(1.0, 2)]
    for log in logs:
        for one in log:
            one["messages"][0]["content"] = f"{HOSTILE} my flight"
        log[0]["task_id"] = HOSTILE
    return run_of(folder / "a", results(*logs[0])), run_of(folder / "b", results(*logs[1]))


def test_the_command_says_what_changed(two: tuple[Path, Path]) -> None:
    shown = printed(howsure.compare(*two), 120)
    for words in (
        "success rate", "turns", "mean U of the agent", "AUROC of", "40 in both", "B − A (95 % interval, paired)",
        "McNemar's exact p", "Solved in B, or more often there", "1 of 1",
    ):  # fmt: skip
        assert words in shown, words
    assert not set("\x1b\u202e") & set(shown)
    narrow = printed(howsure.compare(*two), 80)
    assert max(len(line) for line in narrow.splitlines()) <= 80


def test_as_json_and_through_another_process(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["compare", *map(str, two), "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    here: Any = howsure.compare(*two)
    assert data["difference"]["success_rate"]["mean_difference"] == here.difference.success_rate.mean_difference
    monkeypatch.setattr("howsure.report.viewer.library.LARGE_BYTES", 0)
    there = compare_apart(Run(two[0]), Run(two[1]))
    assert isinstance(there, TrajectoriesComparison)
    assert there.difference == here.difference


def test_the_report_of_two_runs_begins_with_what_changed(two: tuple[Path, Path]) -> None:
    page = report_of(two)
    for words in (
        "What changed",
        "How sure the difference is",
        "What flipped",
        "Does uncertainty foretell failure better?",
    ):
        assert words in page, words
    assert "agent in A" not in page
    assert "A: U over the agent&#39;s 2 turns" in page or "A: U over the agent's 2 turns" in page
    assert "<script>alert" not in page
    assert not set("\x1b\u202e") & set(page)


def test_the_viewer_links_the_trials_that_show_the_difference(two: tuple[Path, Path]) -> None:
    browser = Browser(two[0].parent.parent)
    shown = browser.get("/compare?a=a/run&b=b/run")
    assert shown.status == 200
    assert "Solved in B, or more often there" in shown.text
    compared: Any = howsure.compare(*two)
    flip = compared.difference.flips.won[0]
    for side, sample in (("a", flip.sample_a), ("b", flip.sample_b)):
        link = re.search(rf'href="(/sample\?path={side}[^"]+key={sample})"', shown.text)
        assert link is not None
        page = browser.get(html.unescape(link[1]))
        assert page.status == 200
        assert f"{'failed' if side == 'a' else 'solved'}" in page.text
        assert "<script>alert" not in page.text


def test_a_run_beside_itself(two: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(two[0], copy)
    assert "both are the same run" in howsure.compare(two[0], two[0]).notes  # type: ignore[attr-defined]
    assert "both are the same run" not in howsure.compare(two[0], copy).notes  # type: ignore[attr-defined]


def test_runs_of_real_logs(tmp_path: Path) -> None:
    if not REAL.is_dir():
        pytest.skip("the published result files are not here")
    names = ("gpt-4.1_airline_default_gpt-4.1_1trials.json", "qwen2.5-7b_airline_default_gpt-4.1_1trials.json")
    runs = [tmp_path / "a", tmp_path / "b"]
    for name, out in zip(names, runs, strict=True):
        howsure.trajectories(REAL / name, out=out)
    compared: Any = howsure.compare(*runs)
    assert (compared.a.agents, compared.b.task_count) == (["gpt-4.1"], 50)
    difference = compared.difference
    assert (difference.paired_count, len(difference.unpaired.only_in_b)) == (20, 30)
    assert difference.success_rate.mean_difference == pytest.approx(-0.35)
    assert difference.success_rate.high < 0.0
    assert (difference.mcnemar.only_a_correct, difference.mcnemar.only_b_correct) == (8, 1)
    assert len(difference.flips.lost) == 8
    many = howsure.trajectories(REAL / "gpt-4.1_telecom_no-user_4trials_5tasks.json", out=tmp_path / "trials")
    trials: Any = howsure.compare(many.run, many.run)
    assert (trials.difference.trial_count, trials.difference.success_rate.mean_difference) == (4, 0.0)
    assert "What changed" in report_of(runs)
