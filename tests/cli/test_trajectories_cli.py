"""`howsure trajectories` as a new user would call it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import commands
from howsure import trajectories
from howsure.studies.trajectories import Policy
from report.rendered import printed
from trajectory_logs import call, greeting, message, results, scored, simulation


def howsure(*arguments: Any, fresh: bool = False) -> CompletedProcess[str]:
    return commands.howsure(*arguments, fresh=fresh, COLUMNS="200")


def put(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    talk = [
        greeting(),
        message("user", "Hi there! I'm calling because I need to cancel my reservation for tomorrow.", -0.1, -0.3),
        message("assistant", "I can help you with that.", -0.05),
        message("assistant", None, tool_calls=call()),
        {"role": "tool", "content": "ok"},
        message("user", "Thanks ###STOP###", -0.2),
    ]
    first = simulation(talk, id="sim_123", task_id="airline_cancel_reservation")
    return put(tmp_path / "log.json", results(first, scored([0.5], [0.1], id="sim_124")))


def test_the_summary_reads_as_scripts_know_it(log: Path) -> None:
    done = howsure("trajectories", log, fresh=True)
    assert done.returncode == 0, done.stderr
    for line in (
        "TRAJECTORY UNCERTAINTY ANALYSIS SUMMARY",
        "Source: 2025-11-06T23:54:05",
        "Total Simulations: 2",
        "Turns: scored 5 of 7; 2 missing: 1 scripted, 1 tool call",
        "--- Overall Statistics ---",
        "Agent Reasoning Uncertainty (U_i,agent):",
        "  Mean: 0.2750",
        "User Confusion (U_i,user):",
        "--- Per-Simulation Summary ---",
        "Simulation 1 (Task: airline_cancel_reservation, reward 1)",
        "  Mean uncertainty (overall): 0.1500",
        "  Mean uncertainty (agent):   0.0500",
        "  Mean uncertainty (user):    0.2000",
    ):
        assert line in done.stdout.splitlines(), line
    assert "Not judged: all 2 runs succeeded" in done.stdout


def test_one_run_turn_by_turn(log: Path) -> None:
    done = howsure("trajectories", log, "--detailed", "--verbose", "--tokens")
    assert done.returncode == 0, done.stderr
    assert "DETAILED TRAJECTORY: Simulation 1" in done.stdout
    assert "Turn   Actor      U_i Score    Content Preview" in done.stdout
    assert "1      agent      — scripted   Hi! How can I help you today?" in done.stdout
    assert "2      user       0.2000       Hi there! I'm calling because I need to cancel..." in done.stdout
    assert "2 tokens, total 0.4000, min 0.1000, max 0.3000, std 0.1000, mean probability 0.8228" in done.stdout
    assert "0.1000  0.9048  't0'" in done.stdout
    other = howsure("trajectories", log, "--detailed", "--simulation", 2)
    assert "Simulation ID: sim_124" in other.stdout


def test_output_and_json_are_data(log: Path, tmp_path: Path) -> None:
    done = howsure("trajectories", log, "--output", tmp_path / "o.json", "--verbose", "--json", "--quiet")
    assert done.returncode == 0
    assert json.loads(done.stdout)["coverage"]["scored"] == 5
    data = json.loads((tmp_path / "o.json").read_text())
    assert data["results"][0]["uncertainty_scores"][1]["ui_score"] == pytest.approx(0.2, abs=1e-12)
    assert data["results"][0]["uncertainty_scores"][1]["statistics"]["token_count"] == 2
    nowhere = howsure("trajectories", log, "--output", tmp_path / "no" / "o.json")
    assert nowhere.returncode == 2
    assert "make it first" in nowhere.stderr


def test_bad_files_among_good_ones(log: Path, tmp_path: Path) -> None:
    put(tmp_path / "a.json", "")
    put(tmp_path / "b.json", log.read_text()[:300])
    put(tmp_path / "c.json", "[" * 200_000)
    put(tmp_path / "d.json", {"simulations": [simulation([message("user", "x", "y"), message("user", "x", -1.0)])]})
    put(tmp_path / "e.json", json.dumps([simulation([message("user", "x", float("nan"))])]))
    (tmp_path / "g.json").symlink_to("g.json")
    output = put(tmp_path.parent / "old.json", "{}")
    done = howsure("trajectories", tmp_path, "--output", output)
    assert done.returncode == 1
    assert "Total Simulations: 4" in done.stdout
    assert json.loads(output.read_text())["metadata"]["total_simulations"] == 4
    told = [line for line in done.stdout.splitlines() if line.startswith("problem: ")]
    for line, words in zip(
        told,
        ("is empty", "no whole JSON", "nested too deeply", "Expected `float`", "NaN", "symbolic links"),
        strict=True,
    ):
        assert words in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.json"], "nothing.json is not there"),
        (["log.json", "--policy", "confirm"], "is not name:cost:rescue[:spoil], such as confirm:1:0.3"),
        (["log.json", "--policy", "confirm:1:2"], "must lie between 0 and 1"),
        (["log.json", "--false-alarms", "1.5"], "--false-alarms must lie between 0 and 1"),
        (["log.json", "--watch", "tool"], "--watch must be one of agent, user, overall"),
        (["log.json", "--detector", "x"], "--detector must be one of"),
        (["log.json", "--plot", "x.svg"], "give at least one --policy"),
        (["log.json", "--policy", "a:1:1", "--policy", "a:2:1"], "names of their own"),
        (["log.json", "--policy", "a:1e308:1"], "must lie between 0 and 1e+100"),
        (["log.json", "--failure-cost", "inf"], "--failure-cost must be 0 to 1e+100, not inf"),
        (["log.json", "--output", "log.json"], "is one of the logs, which it would overwrite"),
        (["log.json", "--output", "."], "is a folder: name a file in it"),
        (["log.json", "--detailed", "--simulation", "3"], "--simulation must be 1 to 2, not 3"),
        (["log.json", "--plot", "x.txt", "--policy", "a:1:1"], "must end in .svg or .png"),
        (["log.json", "--jobs", "0"], "--jobs must be at least 1"),
        (["log.json", "--score-with", "nonsense"], "nonsense"),
        (["log.json", "--seed", "-1"], "--seed must be 0 or more"),
    ],
)
def test_bad_usage_is_one_sentence(
    log: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from typer.testing import CliRunner

    from howsure.cli.app import app

    monkeypatch.chdir(log.parent)
    done = CliRunner().invoke(app, ["trajectories", *arguments])
    assert done.exit_code == 2
    assert words in done.stderr + capfd.readouterr().err


def test_interventions_and_their_curve(tmp_path: Path) -> None:
    runs = [(0.5 + i / 100, 1.0) for i in range(20)] + [(2.0 + i / 100, 0.0) for i in range(20)]
    made = [
        scored([u, u], [0.1] * 3, id=f"s{i}", task_id=f"t{i}", reward_info={"reward": reward})
        for i, (u, reward) in enumerate(runs)
    ]
    log = put(tmp_path / "log.json", results(*made))
    plot = tmp_path / "saved.svg"
    policies = ("--policy", "_$confirm\x01$:1:0.5", "--policy", "handover:10:0.9:0.1", "--failure-cost", "50")
    done = howsure("trajectories", log, *policies, "--detector", "threshold", "--plot", plot)
    assert done.returncode == 0, done.stderr
    assert "failures caught" in done.stdout
    assert "the baseline to beat" in done.stdout
    assert "for this set nothing is guaranteed" in " ".join(done.stdout.split())
    assert "_$confirm␁$ (cost 1, rescues 50.0 %, spoils 0.0 %)" in done.stdout
    assert (
        "pays at every failure rate among the runs acted on, its cost aside; above 4.0 % with its cost" in done.stdout
    )
    assert "pays above a failure rate of 10.0 % among the runs acted on, its cost aside; above 30.0 %" in done.stdout
    heads = [line.split() for line in done.stdout.splitlines() if line.endswith("as often, at random")]
    assert len(heads) == 2
    assert "net failures avoided, expected" in plot.read_text()
    assert "$confirm␁$" in plot.read_text()


def test_nothing_is_judged_where_that_is_not_wanted(log: Path) -> None:
    assert "Should they have been sure?" not in howsure("trajectories", log, "--no-judge").stdout


def test_a_run_folder_and_the_list_of_runs(log: Path, tmp_path: Path) -> None:
    done = howsure("trajectories", log, "--out", tmp_path / "runs" / "one")
    assert done.returncode == 0
    assert f"run folder: {tmp_path / 'runs' / 'one'}" in done.stdout
    listed = howsure("runs", tmp_path / "runs")
    assert "trajectories" in listed.stdout
    assert "finished" in listed.stdout


def test_what_it_would_take(log: Path) -> None:
    done = howsure("trajectories", log, "--dry-run")
    assert done.stdout.strip() == "would take: 2 trajectories, 7 turns"


def test_hostile_text_moves_no_cursor(tmp_path: Path) -> None:
    bad = "\x1b[2J\x1b]0;gone\x07\u202e"
    log = put(tmp_path / "log.json", [simulation([message("user", bad, -0.1)], task_id=bad, id=bad)])
    done = howsure("trajectories", log, "--detailed", "--tokens")
    assert done.returncode == 0
    assert not set("\x1b\x07\u202e") & set(done.stdout)


def test_narrow_terminals_cut_no_figure(tmp_path: Path) -> None:
    made = [
        scored([0.5 + i / 40, 1.0], [0.1] * 3, id=f"s{i}", task_id=f"t{i}", reward_info={"reward": float(i % 3 > 0)})
        for i in range(60)
    ]
    policies = (Policy("confirm", 1.0, 0.5), Policy("handover", 10.0, 0.9, 0.1))
    result = trajectories(put(tmp_path / "log.json", results(*made)), policy=policies, failure_cost=50.0)
    narrow, wide = (printed(result, width).splitlines() for width in (80, 200))
    tables = {
        name: [line for line in narrow if line.startswith(name)] for name in ("agent: ", "threshold ", "net saving")
    }
    assert [len(lines) for lines in tables.values()] == [6, 1, 2]
    assert max(map(len, narrow)) <= 80
    assert not [line for line in narrow if "…" in line]
    assert any("AUROC (chance 0.500)" in line for line in wide)
    assert any(re.search(r"^agent: mean +60  0\.\d+ \(0\.\d+ to 0\.\d+\)", line) for line in wide)


def test_nothing_from_outside_floods_the_terminal(tmp_path: Path) -> None:
    bad = "x" * 10_000
    runs = [simulation([message("user", "a", "b"), {"role": bad + str(i)}], id=bad, task_id=bad) for i in range(30)]
    runs.append(simulation(None, id=bad))
    runs.append(simulation([message("user", bad, *[-0.5] * 500)], id=bad))
    runs[-1]["messages"][0]["raw_data"]["choices"][0]["logprobs"]["content"][0]["token"] = bad
    for i in range(14):
        info = {"agent_info": {"llm": f"{bad}{i}"}, "environment_info": {"domain_name": bad}}
        put(tmp_path / f"{i}.json", results(*runs, info=info))
    done = howsure("trajectories", tmp_path, "--detailed", "--simulation", 32, "--tokens", "--verbose")
    assert done.returncode == 1, done.stderr[-2000:]
    assert len(done.stdout) < 60_000
    assert "Further groups" in done.stdout
    assert re.search(r"^\.\.\. and \d+ more problems; --json lists them$", done.stdout, re.MULTILINE)
