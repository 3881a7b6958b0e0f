"""Trajectories in the terminal: the summary of step 2, one run turn by turn, scores against failure, alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from howsure.report.tables import cut_to_fit, keep_whole, plain_table
from howsure.report.text import percent, printable
from howsure.runs import Run
from howsure.studies.trajectories.table import RUNS

WIDTH = 80
SHOWN_SIMULATIONS = 10
SHOWN_PROBLEMS = 20
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
    for group in summary["groups"]:
        print_group(console, group)
    for note in summary["notes"]:
        _line(console, f"note: {note}")
    print_problems(console, summary)
    if run is not None:
        _line(console, f"run folder: {run.path}")
    _line(console, "=" * WIDTH)


def _headed(console: Console, title: str) -> None:
    for line in ("=" * WIDTH, title, "=" * WIDTH, ""):
        console.print(Text(line))


def _line(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=True)


def _messages(counts: dict[str, int]) -> str:
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if name != "total"]
    return f"{counts['total']:,}: {', '.join(parts)}" if parts else "none"


def _statistics(console: Console, title: str, found: dict[str, Any]) -> None:
    _line(console, title)
    for name in ("mean", "std", "min", "max"):
        _line(console, f"  {name.capitalize() + ':':<5} {_number(found[name])}")
    _line(console, f"  ({found['turns']:,} turns, nats)\n")


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
    problems = summary["problems"]
    for sentence in problems[:SHOWN_PROBLEMS]:
        console.print(Text(f"problem: {printable(sentence, one_line=True)}"), style="yellow", soft_wrap=True)
    more = sum(summary["problem_counts"].values()) - SHOWN_PROBLEMS
    if more > 0:
        console.print(Text(f"and {more:,} more problems; --json lists them"), style="yellow")


# -- one run -------------------------------------------------------------------------------------------------------


def print_detailed(console: Console, results: Sequence[dict[str, Any]], number: int) -> None:
    """One simulation turn by turn."""
    row = results[number - 1]
    _headed(console, f"DETAILED TRAJECTORY: Simulation {number}")
    for name, value in (("Simulation ID", row["simulation_id"]), ("Task ID", row["task_id"]), ("Trial", row["trial"])):
        _line(console, f"{name}: {'—' if value is None else printable(str(value), one_line=True)}")
    _line(console, f"Total Turns: {row['turn_count']}\n\n--- Turn-by-Turn Uncertainty (U_i) ---\n")
    _line(console, f"{'Turn':<6} {'Actor':<10} {'U_i Score':<12} Content Preview")
    _line(console, "-" * WIDTH)
    for turn in row["uncertainty_scores"][:SHOWN_TURNS]:
        _turn(console, turn)
    if row["turn_count"] > SHOWN_TURNS:
        _line(console, f"... and {row['turn_count'] - SHOWN_TURNS:,} more turns")
    _line(console, "")


def _turn(console: Console, turn: dict[str, Any]) -> None:
    score = f"{turn['ui_score']:.4f}" if turn["ui_score"] is not None else f"— {turn['reason']}".replace("_", " ")
    shown = printable(turn["content_preview"], one_line=True)
    shown = f"{shown[:46]}..." if len(shown) > 49 else shown
    _line(console, f"{turn['turn']:<6} {turn['actor']:<10} {score:<12} {shown}")
    if turn.get("statistics") is not None:
        found = turn["statistics"]
        std = _number(found["std_uncertainty"])
        _line(
            console,
            f"{'':18}{found['token_count']:,} tokens, total {found['total_entropy']:.4f}, "
            f"min {found['min_uncertainty']:.4f}, max {found['max_uncertainty']:.4f}, std {std}, "
            f"mean probability {found['mean_probability']:.4f}",
        )
    for token in (turn.get("tokens") or ())[:SHOWN_TOKENS]:
        _line(
            console, f"{'':18}{_number(token['neg_log_likelihood']):>8}  {token['probability']:.4f}  {token['token']!r}"
        )
    if len(turn.get("tokens") or ()) > SHOWN_TOKENS:
        _line(console, f"{'':18}... and {len(turn['tokens']) - SHOWN_TOKENS:,} more tokens")


# -- groups --------------------------------------------------------------------------------------------------------


def print_group(console: Console, group: dict[str, Any]) -> None:
    """Whether scores foretold failure, when alarms came, and what acting on them would have saved."""
    scored = "" if group["scored_by"] in (None, "log") else f", scored by {group['scored_by']}"
    _line(console, f"--- Should they have been sure? {group['name'] or 'All runs'}{scored} ---")
    _line(
        console,
        f"{group['runs']} runs, {group['judged']} with a reward, {group['failures']} of them failed, "
        f"{group['tasks']} tasks",
    )
    for reason, count in group["reward_missing"].items():
        _line(console, f"  {count} not judged: {reason.replace('_', ' ')}")
    if group["reason"] is not None:
        _line(console, f"not judged: {group['reason']}\n")
        return
    console.print(score_table(group))
    _line(console, "")
    console.print(detector_table(group["breakdown"]))
    for line in breakdown_lines(group["breakdown"]):
        _line(console, line)
    _line(console, "")
    if group["interventions"] is not None:
        print_interventions(console, group["interventions"])


def score_table(group: dict[str, Any]) -> Table:
    share = group["failures"] / group["judged"]
    table = plain_table(
        "score of",
        "by",
        "runs",
        "AUROC (chance 0.500)",
        f"AUPRC (chance {share:.3f})",
        f"AUARC (chance {1 - share:.3f})",
    )
    keep_whole(table, 0, 1, 2, 3, 4, 5)
    for row in group["scores"]:
        areas = [_area(row[name]) for name in ("auroc", "auprc", "auarc")]
        if row["reason"] is not None:
            areas = [row["reason"], "", ""]
        table.add_row(row["whose"], row["score"].replace("_", " "), str(row["runs"]), *areas)
    return table


def _area(found: dict[str, Any] | None) -> str:
    if found is None or found["value"] is None:
        return "—"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def detector_table(breakdown: dict[str, Any]) -> Table:
    table = plain_table(
        f"alarms on {breakdown['watched']} turns", "failures caught", "false alarms", "turns before the end"
    )
    keep_whole(table, 0, 1, 2, 3)
    for name, found in breakdown["detectors"].items():
        table.add_row(name.replace("_", " "), *_detector_cells(found))
    return table


def _detector_cells(found: dict[str, Any]) -> list[str]:
    reason = found["reason"] or (_why_untried(found) if not found["tried"] else None)
    if reason is not None:
        return [reason, "", ""]
    lead = found["turns_before_end"]
    shown = "—" if lead is None else f"{lead['median']:g} ({lead['low']:g} to {lead['high']:g})"
    return [_share(found["caught"]), _share(found["false_alarms"]), shown]


def _why_untried(found: dict[str, Any]) -> str:
    return next((fold["reason"] for fold in found["folds"] if fold["reason"]), "no run could be tried")


def _share(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "—"
    counts = f"{found['count']} of {found['of']}, {percent(found['value'])}"
    return counts if found["low"] is None else f"{counts} ({percent(found['low'])} to {percent(found['high'])})"


def breakdown_lines(breakdown: dict[str, Any]) -> list[str]:
    """How the thresholds came about, whom they could not be tried on, and what alarms have to do with known errors."""
    rate = percent(breakdown["false_alarm_rate"])
    lines = [f"thresholds for {rate} false alarms, fitted on other tasks than those they are tried on"]
    for name, found in breakdown["detectors"].items():
        if found["tried"] and found["not_tried"]:
            reasons = ", ".join(f"{count} {reason}" for reason, count in found["not_tried"].items())
            lines.append(f"{name.replace('_', ' ')}: not tried on {sum(found['not_tried'].values())} runs ({reasons})")
        lines += [_beside(name, kind, marks) for kind, marks in found["marks"].items() if marks["alarmed"]]
    return lines


def _beside(name: str, kind: str, marks: dict[str, Any]) -> str:
    line = (
        f"{name.replace('_', ' ')} and {kind.replace('_', ' ')}s: an alarm in {marks['alarmed']} of "
        f"{marks['runs_with_mark']} runs that have one, {marks['alarm_at_or_before_first_mark']} of them not after it"
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
    console.print(intervention_table(found))
    _line(
        console, f"{found['failures']} failures in {found['runs']} runs; chances to rescue are those that were given\n"
    )


def intervention_table(found: dict[str, Any]) -> Table:
    saving = ("net saving",) if found["failure_cost"] is not None else ()
    table = plain_table("policy", "when", "interventions", "spent", "failures avoided", "cost of one avoided", *saving)
    keep_whole(table, *range(1, 6 + len(saving)))
    names = {
        policy["name"]: f"{policy['name']} (cost {policy['cost']:g}, rescues {percent(policy['rescue'])})"
        for policy in found["policies"]
    }
    for row in found["table"]:
        cells = [row["when"], f"{row['interventions']:.1f}", f"{row['spent']:.1f}", _avoided(row)]
        cells.append("—" if row["cost_per_avoided_failure"] is None else f"{row['cost_per_avoided_failure']:.2f}")
        cells += [f"{row['net_saving']:+.1f}"] if saving else []
        table.add_row(cut_to_fit(names.pop(row["policy"], "")), *cells)
    return table


def _avoided(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return f"{row['failures_avoided']:.1f}"
    return f"{row['failures_avoided']:.1f} ({row['low']:.1f} to {row['high']:.1f})"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def _short(text: str) -> str:
    shown = printable(text, one_line=True)
    return shown if len(shown) <= 70 else f"{shown[:69]}…"
