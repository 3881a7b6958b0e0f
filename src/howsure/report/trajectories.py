"""Trajectories in the terminal: the summary of step 2, one run turn by turn, scores against failure, alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from howsure.measures import chance_auprc
from howsure.report.terminal import keep_whole, plain_table, where_it_lies
from howsure.report.text import counted, interval_text, percent, printable, shortened, signed_points
from howsure.runs import Run
from howsure.studies.trajectories.breakdown import TURN_COUNT
from howsure.studies.trajectories.document import RUNS, left_out
from howsure.studies.trajectories.scores import DISTANCE, LEARNED, score_name

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


def print_result(console: Console, result: Any, view: Any) -> None:
    print_trajectories(console, result.summary, {"metadata": result.metadata, "results": result.rows}, result.run)
    if view.detailed:
        print_detailed(console, result.rows, view.simulation)


def print_trajectories(console: Console, summary: dict[str, Any], document: dict[str, Any], run: Run | None) -> None:
    """What all runs together show, step by step."""
    _headed(console, "TRAJECTORY UNCERTAINTY ANALYSIS SUMMARY")
    metadata = document["metadata"]
    _line(console, f"Source: {printable(metadata['source_file'], one_line=True)}")
    _line(console, f"Total Simulations: {metadata['total_simulations']}")
    _line(console, f"Turns: {summary['coverage']['text']}")
    _line(console, f"Messages: {_messages(summary['messages'])}")
    _line(console, "\n--- Overall Statistics ---")
    for (actor, title), figure in zip(TITLES.items(), summary["headline"], strict=True):
        _statistics(console, title, summary["statistics"][actor], figure)
    _line(console, "--- Per-Simulation Summary ---")
    _simulations(console, document["results"], run)
    for group in summary["groups"][:SHOWN_GROUPS]:
        print_group(console, group)
    _more(console, len(summary["groups"]) - SHOWN_GROUPS, "group")
    for note in summary["notes"][:SHOWN_NOTES]:
        _line(console, f"note: {printable(note, one_line=True)}")
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


def _statistics(console: Console, title: str, found: dict[str, Any], figure: dict[str, Any]) -> None:
    """Under the figures their unit, and what qualifies the mean: its interval, and the note of the headline figure."""
    _line(console, title)
    for name in ("mean", "std", "min", "max"):
        infinite = found["infinite_turns"] and (name == "max" or found["turns"] == found["infinite_turns"])
        _line(console, f"  {name.capitalize() + ':':<5} {'∞' if infinite else _number(found[name])}")
    told = [f"{counted(found['turns'], 'turn')}, nats"]
    if interval := interval_text(figure, digits=4):
        told.append(f"95 % interval of the mean {interval}")
    if figure["note"]:
        told.append(figure["note"])
    _line(console, f"  ({'; '.join(told)})\n")


def _simulations(console: Console, results: Sequence[dict[str, Any]], run: Run | None) -> None:
    for place, row in enumerate(results[:SHOWN_SIMULATIONS], 1):
        summary = row["summary"]
        reward = "" if row["reward"] is None else f", reward {row['reward']:g}"
        _line(console, f"Simulation {place} (Task: {_short(row['task_id'])}{reward})")
        _line(console, f"  Turn count: {row['turn_count']}, scored {summary['scored_turn_count']}")
        if not summary["scored_turn_count"]:
            continue
        for label, name in (("overall):", "overall"), ("agent):  ", "agent"), ("user):   ", "user")):
            without = left_out(summary["infinite_turns"][name])
            shown = _number(summary[f"mean_uncertainty_{name}"]) + (f" ({without})" if without else "")
            _line(console, f"  Mean uncertainty ({label} {shown}")
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
    if turn.get("infinite"):
        return "∞"
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
    name = printable(group["name"] or "All runs", one_line=True)
    _line(console, f"--- Should they have been sure? {name}{_proxy(group)} ---")
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
    for line in score_lines(group, wide=wide):
        _line(console, line)
    _line(console, "")
    console.print(detector_table(group["breakdown"], wide=wide))
    for line in breakdown_lines(group["breakdown"]):
        _line(console, line)
    _line(console, "")
    if group["interventions"] is not None:
        print_interventions(console, group["interventions"])


def _proxy(group: dict[str, Any]) -> str:
    """Whose surprise the scores are, where it is not the writers' own doubt."""
    return "" if group["scored_by"] in (None, "log") else f", proxy: {group['scored_by']}'s surprise"


def _narrow_table(*headers: str, wide: bool) -> Table:
    """Nothing in it is cut; a header of two lines becomes one where there is room."""
    table = plain_table(*(header.replace("\n", " ") if wide else header for header in headers))
    keep_whole(table, *range(len(headers)))
    return table


def score_table(group: dict[str, Any], *, wide: bool = True) -> Table:
    failures, runs = group["failures"], group["judged"]
    chances = (("AUROC", 0.5), ("AUPRC", chance_auprc(runs, failures)), ("AUARC", 1 - failures / runs))
    heads = [f"{name}\n(chance {chance:.3f})" for name, chance in chances]
    table = _narrow_table("score of" if wide else "of", "by", "runs", *heads, wide=wide)
    for row in group["scores"]:
        areas = [_area(row[name], wide) for name in ("auroc", "auprc", "auarc")]
        name = score_name(row["score"]) if wide else _short_name(row["score"])
        table.add_row(row["whose"], name, str(row["runs"]), *areas)
    return table


def _short_name(score: str) -> str:
    return f"{score} *" if score in (DISTANCE, LEARNED) else score_name(score)


def score_lines(group: dict[str, Any], *, wide: bool = True) -> list[str]:
    """What there is to say below the table: marks, scores that were not judged, and why intervals are missing."""
    lines = []
    if not wide and any(row["score"] in (DISTANCE, LEARNED) for row in group["scores"]):
        lines.append("* adapted from SAUP")
    areas = [row[name] for row in group["scores"] for name in ("auroc", "auarc") if row[name]]
    if not wide and any(area["approximate"] for area in areas):
        lines.append("~ an interval that holds only roughly")
    for reason in dict.fromkeys(row["reason"] for row in group["scores"] if row["reason"]):
        lines.append(f"{_scores_with(group, 'reason', reason)}: {reason}")
    for note in dict.fromkeys(row["note"] for row in group["scores"] if row["note"]):
        lines.append(f"AUROC of {_scores_with(group, 'note', note)}: {note}")
    return lines


def _scores_with(group: dict[str, Any], field: str, value: str) -> str:
    """`agent: mean, rms; user: mean`, or `every score`, of the rows that have this value."""
    named: dict[str, list[str]] = {}
    for row in group["scores"]:
        if row[field] == value:
            named.setdefault(row["whose"], []).append(score_name(row["score"]))
    judged = [row for row in group["scores"] if field != "note" or not row["reason"]]
    if sum(map(len, named.values())) == len(judged):
        return "every score"
    return "; ".join(f"{whose} {', '.join(names)}" for whose, names in named.items())


def _area(found: dict[str, Any] | None, wide: bool) -> str:
    if found is None or found["value"] is None:
        return "—"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    if wide:
        return f"{found['value']:.3f} ({interval_text(found)})"
    low, high = (f"{found[end]:.2f}".removeprefix("0") for end in ("low", "high"))
    return f"{found['value']:.3f} ({_about(found)}{low}–{high})"


def _about(found: dict[str, Any]) -> str:
    """Of an interval that holds only roughly, where there is no room for the word."""
    return "~" if found["approximate"] else ""


def detector_table(breakdown: dict[str, Any], *, wide: bool = True) -> Table:
    heads = (
        f"alarms on\n{breakdown['watched']} turns",
        "failures caught",
        "false alarms",
        "median turns\nstill to come",
    )
    table = _narrow_table(*heads, wide=wide)
    for name, found in breakdown["detectors"].items():
        lead = found["turns_before_end"]
        shown = "—" if lead is None else f"{lead['median']:g}{_turns_interval(lead)}"
        table.add_row(detector_name(name), _share(found["caught"], wide), _share(found["false_alarms"], wide), shown)
    return table


def detector_name(name: str) -> str:
    shown = name.replace("_", " ")
    return f"{shown} (to beat)" if name == TURN_COUNT else shown


def _turns_interval(lead: dict[str, Any]) -> str:
    interval = interval_text(lead, digits=0)
    return f" ({interval})" if interval else ""


def _share(found: dict[str, Any], wide: bool) -> str:
    if found["value"] is None:
        return "—"
    counts = f"{found['count']} of {found['of']}"
    if found["low"] is None:
        return f"{counts}, {percent(found['value'])}"
    if wide:
        return f"{counts}, {percent(found['value'])} ({interval_text(found, 100, 1)} %)"
    return f"{counts}, {100 * found['value']:.0f} % ({_about(found)}{100 * found['low']:.0f}–{100 * found['high']:.0f})"


def breakdown_lines(breakdown: dict[str, Any]) -> list[str]:
    """How the thresholds came about, what the number of turns alone does, whom they could not be tried on, and what
    alarms have to do with known errors."""
    rate = percent(breakdown["false_alarm_rate"])
    lines = [
        f"thresholds aim at {rate} false alarms: fitted on successful runs of other tasks, they keep to that rate on "
        "average over draws of such runs, if runs are exchangeable; runs of one task are not, and for this set nothing "
        "is guaranteed"
    ]
    tried = [found for found in breakdown["detectors"].values() if found["tried"]]
    for what, field in (("failures caught", "caught"), ("false alarms", "false_alarms")):
        notes = dict.fromkeys(found[field]["note"] for found in tried if found[field]["note"])
        lines += [f"{what}: {note}" for note in notes]
    for name, found in breakdown["detectors"].items():
        shown = name.replace("_", " ")
        if not found["tried"]:
            lines.append(f"{shown}: not tried: {found['reason'] or _why_untried(found)}")
        elif found["not_tried"]:
            reasons = ", ".join(f"{count} {reason}" for reason, count in found["not_tried"].items())
            lines.append(f"{shown}: not tried on {counted(sum(found['not_tried'].values()), 'run')} ({reasons})")
        lines += _beside_turn_count(shown, found["against_turn_count"])
        lines += [_beside(shown, kind, marks) for kind, marks in found["marks"].items() if marks["alarmed"]]
    for kind, count in breakdown["marks_before_watch"].items():
        lines.append(f"{counted(count, kind.replace('_', ' '))} before the first watched turn: no alarm can tell of it")
    return lines


def difference_text(found: dict[str, Any]) -> str:
    """`+12.0 points (about -5.0 to +30.0)`."""
    return signed_points(found["difference"], found)


def _beside_turn_count(name: str, found: dict[str, Any] | None) -> list[str]:
    if found is None or found["difference"] is None:
        return []
    verdict = found["note"] or f"{name} clearly beats an alarm at a fixed number of turns"
    return [f"against turn count, {name}: {difference_text(found)} of failures caught; {verdict}"]


def _why_untried(found: dict[str, Any]) -> str:
    return next((fold["reason"] for fold in found["folds"] if fold["reason"]), "no run has a known turn")


def _beside(name: str, kind: str, marks: dict[str, Any]) -> str:
    line = (
        f"{name} and {shortened(kind.replace('_', ' '), NAME_CHARACTERS)}s: an alarm in {marks['alarmed']} of "
        f"{counted(marks['runs_with_mark'], 'run')} with one, "
        f"{marks['alarm_at_or_before_first_mark']} of them not after it"
    )
    near = marks["near"]
    if near is None:
        return line
    difference = difference_text(near) + (f" ({near['note']})" if near["note"] else "")
    return (
        f"{line}; {percent(near['value'])} of the alarms lie next to one, {percent(near['value_at_random'])} would by "
        f"chance: {difference}"
    )


def print_interventions(console: Console, found: dict[str, Any]) -> None:
    """Each policy at the alarms beside never, always and at random."""
    _line(console, f"Interventions at the alarms of {found['detector'].replace('_', ' ')}, replayed:")
    if found["reason"] is not None:
        _line(console, f"  {found['reason']}\n")
        return
    for policy in found["policies"]:
        _line(console, f"{_short(policy['name'])} ({policy_terms(policy)})")
        console.print(intervention_table(found, policy, wide=console.width >= WIDE))
        _line(console, f"  {break_even_text(policy)}")
    for line in intervention_lines(found):
        _line(console, line)
    _line(console, "")


def policy_terms(policy: dict[str, Any]) -> str:
    """`cost 1, rescues 30.0 %, spoils 5.0 %`."""
    return f"cost {policy['cost']:g}, rescues {percent(policy['rescue'])}, spoils {percent(policy['spoil'])}"


def break_even_text(policy: dict[str, Any]) -> str:
    """How many of the runs acted on must be failures for a policy to pay."""
    if policy["break_even"] is None:
        return "nothing to gain: it neither rescues nor spoils, or failures cost nothing"
    rate, costs = policy["break_even"], policy["break_even_with_costs"]
    pays = f"above a failure rate of {percent(rate)}" if rate > 0.0 else "at every failure rate"
    text = f"acting in time pays {pays} among the runs acted on, its cost aside"
    if costs is None:
        return text
    return f"{text}; {'at no rate' if costs >= 1 else f'above {percent(costs)}'} with its cost"


def intervention_lines(found: dict[str, Any]) -> list[str]:
    alarmed = found["alarmed"]
    lines = [
        f"{counted(found['failures'], 'failure')} in {counted(found['runs'], 'run')}; of the runs with an alarm "
        f"{_share(alarmed, True)} failed, {alarmed['in_time']} with time left to rescue them; chances to rescue and to "
        "spoil are those that were given"
    ]
    return lines + ([found["note"]] if found["note"] else [])


def intervention_table(found: dict[str, Any], policy: dict[str, Any], *, wide: bool = True) -> Table:
    """Spoiled runs have columns where the policy can spoil any; what was spent gives way to them."""
    spoils, saves = policy["spoil"] > 0, found["failure_cost"] is not None
    heads = ["  when", "interventions" if wide else "acts"]
    heads += ["spent"] if wide or not spoils else []
    heads += ["failures avoided" if wide else "avoided"]
    heads += ["runs spoiled" if wide else "spoiled", "net avoided" if wide else "net"] if spoils else []
    heads += ["cost of one\navoided", *(["net saving"] if saves else [])]
    table = _narrow_table(*heads, wide=wide)
    for row in found["table"]:
        if row["policy"] != policy["name"]:
            continue
        cells = [f"  {row['when']}", f"{row['interventions']:.1f}"]
        cells += [f"{row['spent']:.1f}"] if wide or not spoils else []
        cells.append(expected(row, "failures_avoided", "avoided_"))
        if spoils:
            cells.append(expected(row, "successes_spoiled", "spoiled_" if wide else None))
            cells.append(expected(row, "net_avoided", "net_" if wide else None))
        cells.append("—" if row["cost_per_avoided_failure"] is None else f"{row['cost_per_avoided_failure']:.2f}")
        table.add_row(*cells, *([expected(row, "net_saving", "saving_" if wide else None)] if saves else []))
    return table


def expected(row: dict[str, Any], name: str, prefix: str | None) -> str:
    """`10.0 (6.1 to 14.2)`: an expected number of runs, with its interval where there is one and room for it."""
    interval = "" if prefix is None else interval_text(row, digits=1, prefix=prefix)
    return f"{row[name]:.1f} ({interval})" if interval else f"{row[name]:.1f}"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def _short(text: str) -> str:
    return shortened(text, NAME_CHARACTERS)
