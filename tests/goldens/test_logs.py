"""Goldens of `howsure trajectories` and `howsure trust analyse`: logs that exist already, good and bad."""

from __future__ import annotations

import random
from typing import Any

import pytest

from goldens.pinned import Case, command
from trajectory_logs import call, greeting, message, results, scored, simulation

pytest.importorskip("pyarrow", reason="the extra `stats` is not installed")


def talks(count: int, trials: int = 1) -> list[dict[str, Any]]:
    """Runs of two to four turns on each side; those that fail grow unsure towards their end."""
    draw = random.Random(7)
    made = []
    for i in range(count):
        fails, length = i % 3 == 0, 2 + i % 3
        agent = [round(draw.uniform(0.1, 0.9) + (0.6 * turn if fails else 0.0), 3) for turn in range(length)]
        user = [round(draw.uniform(0.2, 1.4), 3) for _ in range(length)]
        fields = {"id": f"sim_{i}", "task_id": f"task_{i // trials}", "trial": i % trials}
        made.append(scored(agent, user, reward_info={"reward": 0.0 if fails else 1.0}, **fields))
    return made


def odd_ones() -> list[dict[str, Any]]:
    """A scripted turn, a call of a tool, a turn without log-probabilities, an error, and a run without messages."""
    talk = [
        greeting(),
        message("user", "Hi there! I'm calling because I need to cancel my reservation.", -0.1, -0.3),
        message("assistant", "I can help you with that.", -0.05, place="message"),
        message("assistant", None, tool_calls=call()),
        {"role": "tool", "content": "ok"},
        message("user", "Thanks", -0.2, -0.7, place="raw_data"),
        message("assistant", "Done."),
        message("user", "###STOP###", -0.4),
    ]
    return [
        simulation(talk, id="odd_1", task_id="cancel"),
        simulation([message("user", "x", float("nan")), message("assistant", "y", -0.5)], id="odd_2", reward_info=None),
        simulation([message("user", "x"), message("assistant", "y", -1.5)], id="odd_3", task_id="other"),
        simulation(None, id="odd_4", termination_reason="agent_error"),
    ]


def write_log(case: Case, name: str, *runs: dict[str, Any], **fields: Any) -> str:
    return case.put(name, results(*runs, **fields))


def test_trajectories(case: Case) -> None:
    log = write_log(case, "log.json", *talks(7), *odd_ones())
    case.howsure("plan", "trajectories", log, "--dry-run")
    case.howsure("plan-json", "trajectories", log, "--dry-run", "--json")
    case.howsure("shown", "trajectories", log)
    case.howsure("detailed", "trajectories", log, "--detailed", "--simulation", "8", "--no-judge")
    case.howsure("json", "trajectories", log, "--json", "--output", "out.json")
    case.file("out.json")
    case.howsure("run", "trajectories", log, "--out", "first", "--json")
    case.run("first")
    case.howsure("again", "trajectories", log, "--out", "first", "--quiet")
    case.howsure("exported", "export", "first", "--no-evidence", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_trajectories_verbose(case: Case) -> None:
    """Every turn with its statistics and tokens."""
    log = write_log(case, "log.json", *talks(2), *odd_ones())
    case.howsure("verbose", "trajectories", log, "--verbose", "--no-judge")
    case.howsure("detailed", "trajectories", log, "--verbose", "--detailed", "--simulation", "3", "--tokens")
    case.howsure("tokens", "trajectories", log, "--tokens", "--verbose", "-o", "out.json", "--json", "--no-judge")
    case.file("out.json")
    how = ("--tokens", "--verbose", "--out", "first", "--no-judge")
    case.howsure("run", "trajectories", log, *how, "-o", "again.json", "--quiet")
    case.file("again.json")
    case.run("first")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_trajectories_policies(case: Case) -> None:
    """What alarms would have saved; two groups of runs, with several trials a task."""
    info = {"agent_info": {"llm": "gpt-y"}, "environment_info": {"domain_name": "retail", "policy": "…"}}
    write_log(case, "logs/a.json", *talks(18, trials=2))
    write_log(case, "logs/b.json", *talks(12), info=info)
    policies = ("--policy", "confirm:1:0.5", "--policy", "handover:10:0.9:0.1", "--failure-cost", "50")
    how = ("logs", *policies, "--detector", "threshold", "--false-alarms", "0.2", "--notice", "0")
    case.howsure("shown", "trajectories", *how)
    few = (write_log(case, "few.json", *talks(7)), *policies[:2], "--watch", "overall", "--json")
    case.howsure("json", "trajectories", *few)
    case.howsure("refused", "trajectories", "logs", "--policy", "confirm")
    case.check()


def test_trajectories_compared(case: Case) -> None:
    """Two versions of an agent, with two trials a task, and tasks that one of them lacks."""
    before = write_log(case, "before.json", *talks(24, trials=2))
    after = talks(28, trials=2)[4:]
    for number, run in enumerate(after):
        run["reward_info"] = None if number == 3 else {"reward": float(number % 5 > 0)}
    other = write_log(case, "other.json", *talks(3), info={"environment_info": {"domain_name": "retail"}})
    for name, log in (("first", before), ("second", write_log(case, "after.json", *after)), ("other", other)):
        command("trajectories", log, "--out", f"runs/{name}", "--quiet", "--json")
    case.howsure("compared", "compare", "runs/first", "runs/second")
    case.howsure("json", "compare", "runs/first", "runs/second", "--json")
    case.howsure("report", "report", "runs/first", "runs/second", "--out", "two.html")
    case.howsure("refused", "compare", "runs/first", "runs/other")
    case.check()


def content(*values: float) -> dict[str, Any]:
    return {"content": [{"token": f" w{i}", "logprob": value, "bytes": None} for i, value in enumerate(values)]}


def test_trajectories_chats(case: Case) -> None:
    """JSON lines: conversations, a request with its response, and lines that are none."""
    talk = [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Two for tonight, please."},
        {"role": "assistant", "content": "At what time?", "logprobs": content(-0.25, -0.75)},
        {"role": "user", "content": "At eight."},
        {"role": "assistant", "content": "Here they are.", "logprobs": content(-1.5, -2.5, -2.0)},
    ]
    said = {"role": "assistant", "content": "Blue."}
    answer = {"model": "gpt-x", "choices": [{"index": 0, "message": said, "logprobs": content(-0.125)}]}
    lines = [
        {"messages": talk, "id": "a", "task_id": "tickets", "trial": 2, "model": "gpt-x", "reward": 0.5},
        {"messages": [{"role": "user", "content": "What colour is the sky?"}], "response": answer, "success": True},
        "{",
        {"messages": "none"},
        {"messages": talk[:3], "id": "b", "success": False},
    ]
    case.put("chats.jsonl", *lines)
    case.howsure("shown", "trajectories", "chats.jsonl")
    case.howsure("run", "trajectories", "chats.jsonl", "--out", "first", "--json", "--verbose", "-o", "out.json")
    case.file("out.json")
    case.run("first")
    case.check()


def test_trajectories_refused(case: Case) -> None:
    """Files that are bad among good ones, and what is refused in one sentence."""
    log = write_log(case, "logs/good.json", *talks(3))
    case.put("logs/empty.json")
    (case.folder / "logs/cut.json").write_text((case.folder / log).read_text()[:300])
    case.put("logs/other.json", {"simulations": 3})
    write_log(case, "logs/text.json", simulation([message("user", "x", "text"), message("assistant", "y", -1.5)]))
    case.howsure("bad-files", "trajectories", "logs", "--no-judge")
    for name, more in {
        "gone": ("gone.json",),
        "watch": (log, "--watch", "tool"),
        "detector": (log, "--detector", "x"),
        "over-itself": (log, "--output", log),
        "simulation": (log, "--detailed", "--simulation", "9"),
        "jobs": (log, "--jobs", "0"),
        "plot": (log, "--plot", "x.svg"),
    }.items():
        case.howsure(name, "trajectories", *more)
    case.check()


HEAD = "step,timestamp,agent_x,agent_y,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T"


def steps(count: int, lift: float = 0.0) -> list[str]:
    """Lines of a log; some lack an entropy, one has numbers that are none, and one a trust that is not its own."""
    draw = random.Random(count)
    lines = [HEAD]
    for i in range(1, count + 1):
        x, s, ls = (round(draw.uniform(low, low + 0.4) + lift, 4) for low in (1.9, 1.3, 0.2))
        trust: Any = round((x - s) / (x - ls), 4)
        given: list[Any] = [x, s, ls]
        if i == 3:
            given[0] = trust = ""
        if i == 5:
            given[1] = "nan"
        if i == 6:
            trust = 0.9
        lines.append(",".join(map(str, [i, f"2025-01-21T16:51:{i:02}", i % 4, 2, *given, trust])))
    return lines


def test_trust_analyse(case: Case) -> None:
    logs = [case.put(f"log-{i}.csv", *steps(6 + i, lift=i / 50)) for i in range(6)]
    case.howsure("plan", "trust", "analyse", *logs, "--dry-run")
    case.howsure("plan-json", "trust", "analyse", *logs, "--dry-run", "--json")
    case.howsure("shown", "trust", "analyse", *logs)
    case.howsure("json", "trust", "analyse", *logs, "--json")
    case.howsure("one", "trust", "analyse", logs[0])
    case.put("other.csv", "a,b", "1,2")
    case.howsure("bad", "trust", "analyse", logs[0], "gone.csv", "other.csv")
    case.howsure("gone", "trust", "analyse", "gone.csv")
    case.howsure("refused", "trust", "analyse", "other.csv")
    case.check()
