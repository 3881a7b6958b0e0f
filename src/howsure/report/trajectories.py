"""Trajectories in the terminal: the summary of step 2, one run turn by turn, scores against failure, alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from howsure.report.tables import keep_whole, plain_table, where_it_lies
from howsure.report.text import counted, percent, printable, shortened
from howsure.runs import Run
from howsure.studies.trajectories.table import RUNS

WIDTH = 80
WIDE = 110
"""From this many columns on, intervals have room for all of their digits."""

SHOWN_SIMULATIONS = 10
SHOWN_GROUPS = 10
SHOWN_NOTES = 20
SHOWN_PROBLEMS = 20
SHOWN_CHARACTERS = 1000
"""Of one line that holds names from outside."""

NAME_CHARACTERS = 70
SHOWN_TURNS = 1000
SHOWN_TOKENS = 40
TITLES = {"agent": "Agent Reasoning Uncertainty (U_i,agent):", "user": "User Confusion (U_i,user):"}


def print_trajectories(console: Console, summary: dict[str, Any], document: dict[str, Any], run: Run | None) -> None:
    """What all runs together show, step by step."""
    _headed(console, "TRAJECTORY UNCERTAINTY ANALYSIS SUMMARY")
    metadata = document["metadata"]
    _line(console, f"Source: {metadata['source_file']}")
    _line(console, f"Total Simulations: {metadata['total_simulations']}")
    _line(console, f"Turns: {summary['coverage']['text']}")
    _line(console, f"Messages: {_messages(summary['messages'])}")
    _line(console, "\n--- Overall Statistics ---")
    for actor, title in TITLES.items():
        _statistics(console, title, summary["statistics"][actor])
    _line(console, "--- Per-Simulation Summary ---")
    _simulations(console, document["results"], run)
    for group in summary["groups"][:SHOWN_GROUPS]:
        print_group(console, group)
    _more(console, len(summary["groups"]) - SHOWN_GROUPS, "group")
    for note in summary["notes"][:SHOWN_NOTES]:
        _line(console, f"note: {note}")
    _more(console, len(summary["notes"]) - SHOWN_NOTES, "note")
    print_problems(console, summary)
    if run is not None:
        for line in where_it_lies(run):
            _line(console, line)
    _line(console, "=" * WIDTH)


def _headed(console: Console, title: str) -> None:
    for line in ("=" * WIDTH, title, "=" * WIDTH, ""):
        console.print(Text(line))


def _line(console: Console, text: str) -> None:
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS]}…"
    console.print(Text(printable(text)), soft_wrap=True)


def _more(console: Console, count: int, noun: str) -> None:
    if count > 0:
        _line(console, f"... and {counted(count, f'more {noun}')}; --json lists them")


def _messages(counts: dict[str, int]) -> str:
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if name != "total"]
    return f"{counts['total']:,}: {', '.join(parts)}" if parts else "none"


def _statistics(console: Console, title: str, found: dict[str, Any]) -> None:
    _line(console, title)
    for name in ("mean", "std", "min", "max"):
        infinite = found["infinite_turns"] and name in ("mean", "max")
        _line(console, f"  {name.capitalize() + ':':<5} {'∞' if infinite else _number(found[name])}")
    _line(console, f"  ({counted(found['turns'], 'turn')}, nats)\n")


def _simulations(console: Console, results: Sequence[dict[str, Any]], run: Run | None) -> None:
    for place, row in enumerate(results[:SHOWN_SIMULATIONS], 1):
        summary = row["summary"]
        reward = "" if row["reward"] is None else f", reward {row['reward']:g}"
        _line(console, f"Simulation {place} (Task: {_short(row['task_id'])}{reward})")
        _line(console, f"  Turn count: {row['turn_count']}, scored {summary['scored_turn_count']}")
        if not summary["scored_turn_count"]:
            continue
        for label, name in (("overall):", "overall"), ("agent):  ", "agent"), ("user):   ", "user")):
            _line(console, f"  Mean uncertainty ({label} {_number(summary[f'mean_uncertainty_{name}'])}")
    if len(results) > SHOWN_SIMULATIONS:
        where = f"{run.path / RUNS}" if run is not None else "--output FILE or --out FOLDER"
        _line(console, f"... and {len(results) - SHOWN_SIMULATIONS:,} more; all of them in {where}")
    _line(console, "")


def print_problems(console: Console, summary: dict[str, Any]) -> None:
    for sentence in summary["problems"][:SHOWN_PROBLEMS]:
        console.print(Text(f"problem: {shortened(sentence, SHOWN_CHARACTERS)}"), style="yellow", soft_wrap=True)
    _more(console, len(summary["problems"]) - SHOWN_PROBLEMS, "problem")


# -- one run -------------------------------------------------------------------------------------------------------


def print_detailed(console: Console, results: Sequence[dict[str, Any]], number: int) -> None:
    """One simulation turn by turn."""
    row = results[number - 1]
    _headed(console, f"DETAILED TRAJECTORY: Simulation {number}")
    for name, value in (("Simulation ID", row["simulation_id"]), ("Task ID", row["task_id"]), ("Trial", row["trial"])):
        _line(console, f"{name}: {'—' if value is None else _short(str(value))}")
    _line(console, f"Total Turns: {row['turn_count']}\n\n--- Turn-by-Turn Uncertainty (U_i) ---\n")
    turns = row["uncertainty_scores"][:SHOWN_TURNS]
    width = max([12, *(len(_score(turn)) for turn in turns)])
    _line(console, f"{'Turn':<6} {'Actor':<10} {'U_i Score':<{width}} Content Preview")
    _line(console, "-" * WIDTH)
    for turn in turns:
        _turn(console, turn, width)
    _more(console, row["turn_count"] - SHOWN_TURNS, "turn")
    _line(console, "")


def _score(turn: dict[str, Any]) -> str:
    return f"— {turn['reason'].replace('_', ' ')}" if turn["ui_score"] is None else f"{turn['ui_score']:.4f}"


def _turn(console: Console, turn: dict[str, Any], width: int) -> None:
    room = WIDTH - 19 - width  # what turn and actor leave, and the score
    shown = printable(turn["content_preview"], one_line=True)
    shown = f"{shown[: room - 3]}..." if len(shown) > room else shown
    _line(console, f"{turn['turn']:<6} {turn['actor']:<10} {_score(turn):<{width}} {shown}")
    if turn.get("statistics") is not None:
        found = turn["statistics"]
        std = _number(found["std_uncertainty"])
        _line(
            console,
            f"{'':18}{counted(found['token_count'], 'token')}, total {found['total_entropy']:.4f}, "
            f"min {found['min_uncertainty']:.4f}, max {found['max_uncertainty']:.4f}, std {std}, "
            f"mean probability {found['mean_probability']:.4f}",
        )
    for token in (turn.get("tokens") or ())[:SHOWN_TOKENS]:
        nats = "∞" if token["neg_log_likelihood"] is None else _number(token["neg_log_likelihood"])
        _line(console, f"{'':18}{nats:>8}  {token['probability']:.4f}  {_short(repr(token['token']))}")
    if len(turn.get("tokens") or ()) > SHOWN_TOKENS:
        _line(console, f"{'':18}... and {counted(len(turn['tokens']) - SHOWN_TOKENS, 'more token')}; --output has them")


# -- groups --------------------------------------------------------------------------------------------------------


def print_group(console: Console, group: dict[str, Any]) -> None:
    """Whether scores foretold failure, when alarms came, and what acting on them would have saved."""
    scored = "" if group["scored_by"] in (None, "log") else f", scored by {group['scored_by']}"
    _line(console, f"--- Should they have been sure? {group['name'] or 'All runs'}{scored} ---")
    _line(
        console,
        f"{counted(group['runs'], 'run')}, {group['judged']:,} with a reward, {group['failures']:,} of them failed, "
        f"{counted(group['tasks'], 'task')}",
    )
    for reason, count in group["reward_missing"].items():
        _line(console, f"  {count:,} not judged: {reason.replace('_', ' ')}")
    if group["reason"] is not None:
        _line(console, f"not judged: {group['reason']}\n")
        return
    wide = console.width >= WIDE
    console.print(score_table(group, wide=wide))
    for row in group["scores"]:
        if row["reason"] is not None:
            _line(console, f"{row['whose']} {row['score'].replace('_', ' ')}: {row['reason']}")
    _line(console, "")
    console.print(detector_table(group["breakdown"], wide=wide))
    for line in breakdown_lines(group["breakdown"]):
        _line(console, line)
    _line(console, "")
    if group["interventions"] is not None:
        print_interventions(console, group["interventions"])


def _narrow_table(*headers: str, wide: bool) -> Table:
    """Nothing in it is cut; a header of two lines becomes one where there is room."""
    table = plain_table(*(header.replace("\n", " ") if wide else header for header in headers))
    keep_whole(table, *range(len(headers)))
    return table


def score_table(group: dict[str, Any], *, wide: bool = True) -> Table:
    share = group["failures"] / group["judged"]
    chances = (("AUROC", 0.5), ("AUPRC", share), ("AUARC", 1 - share))
    heads = [f"{name}\n(chance {chance:.3f})" for name, chance in chances]
    table = _narrow_table("score of" if wide else "of", "by", "runs", *heads, wide=wide)
    for row in group["scores"]:
        areas = [_area(row[name], wide) for name in ("auroc", "auprc", "auarc")]
        table.add_row(row["whose"], row["score"].replace("_", " "), str(row["runs"]), *areas)
    return table


def _area(found: dict[str, Any] | None, wide: bool) -> str:
    if found is None or found["value"] is None:
        return "—"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    if wide:
        return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
    low, high = (f"{found[end]:.2f}".removeprefix("0") for end in ("low", "high"))
    return f"{found['value']:.3f} ({low}–{high})"


def detector_table(breakdown: dict[str, Any], *, wide: bool = True) -> Table:
    heads = (f"alarms on\n{breakdown['watched']} turns", "failures caught", "false alarms", "turns before\nthe end")
    table = _narrow_table(*heads, wide=wide)
    for name, found in breakdown["detectors"].items():
        lead = found["turns_before_end"]
        shown = "—" if lead is None else f"{lead['median']:g} ({lead['low']:g} to {lead['high']:g})"
        table.add_row(name.replace("_", " "), _share(found["caught"], wide), _share(found["false_alarms"], wide), shown)
    return table


def _share(found: dict[str, Any], wide: bool) -> str:
    if found["value"] is None:
        return "—"
    counts = f"{found['count']} of {found['of']}, {percent(found['value'])}"
    if found["low"] is None:
        return counts
    low, high = found["low"], found["high"]
    ends = f"{percent(low)} to {percent(high)}" if wide else f"{100 * low:.0f}–{100 * high:.0f}"
    return f"{counts} ({ends})"


def breakdown_lines(breakdown: dict[str, Any]) -> list[str]:
    """How the thresholds came about, whom they could not be tried on, and what alarms have to do with known errors."""
    rate = percent(breakdown["false_alarm_rate"])
    lines = [f"thresholds for {rate} false alarms, fitted on other tasks than those they are tried on"]
    for name, found in breakdown["detectors"].items():
        shown = name.replace("_", " ")
        if not found["tried"]:
            lines.append(f"{shown}: not tried: {found['reason'] or _why_untried(found)}")
        elif found["not_tried"]:
            reasons = ", ".join(f"{count} {reason}" for reason, count in found["not_tried"].items())
            lines.append(f"{shown}: not tried on {counted(sum(found['not_tried'].values()), 'run')} ({reasons})")
        lines += [_beside(shown, kind, marks) for kind, marks in found["marks"].items() if marks["alarmed"]]
    for kind, count in breakdown["marks_before_watch"].items():
        lines.append(f"{counted(count, kind.replace('_', ' '))} before the first watched turn: no alarm can tell of it")
    return lines


def _why_untried(found: dict[str, Any]) -> str:
    return next((fold["reason"] for fold in found["folds"] if fold["reason"]), "no run has a known turn")


def _beside(name: str, kind: str, marks: dict[str, Any]) -> str:
    line = (
        f"{name} and {shortened(kind.replace('_', ' '), NAME_CHARACTERS)}s: an alarm in {marks['alarmed']} of "
        f"{counted(marks['runs_with_mark'], 'run')} that have one, "
        f"{marks['alarm_at_or_before_first_mark']} of them not after it"
    )
    near = marks["near"]
    if near is None:
        return line
    return (
        f"{line}; {percent(near['value'])} of the alarms lie next to one, {percent(near['value_at_random'])} by chance"
    )


def print_interventions(console: Console, found: dict[str, Any]) -> None:
    """Each policy at the alarms beside never, always and at random."""
    _line(console, f"Interventions at the alarms of {found['detector'].replace('_', ' ')}, replayed:")
    if found["reason"] is not None:
        _line(console, f"  {found['reason']}\n")
        return
    for policy in found["policies"]:
        name = _short(policy["name"])
        _line(console, f"{name} (cost {policy['cost']:g}, rescues {percent(policy['rescue'])})")
        console.print(intervention_table(found, policy["name"], wide=console.width >= WIDE))
    _line(
        console,
        f"{counted(found['failures'], 'failure')} in {counted(found['runs'], 'run')}; "
        "chances to rescue are those that were given\n",
    )


def intervention_table(found: dict[str, Any], policy: str, *, wide: bool = True) -> Table:
    saving = ("net saving",) if found["failure_cost"] is not None else ()
    heads = ("  when", "interventions", "spent", "failures avoided", "cost of one\navoided", *saving)
    table = _narrow_table(*heads, wide=wide)
    for row in found["table"]:
        if row["policy"] != policy:
            continue
        cells = [f"  {row['when']}", f"{row['interventions']:.1f}", f"{row['spent']:.1f}", _avoided(row)]
        cells.append("—" if row["cost_per_avoided_failure"] is None else f"{row['cost_per_avoided_failure']:.2f}")
        table.add_row(*cells, *([f"{row['net_saving']:+.1f}"] if saving else []))
    return table


def _avoided(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return f"{row['failures_avoided']:.1f}"
    return f"{row['failures_avoided']:.1f} ({row['low']:.1f} to {row['high']:.1f})"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def _short(text: str) -> str:
    return shortened(text, NAME_CHARACTERS)
