"""Trust in the terminal: the entropies and what they lost, T with its doubt, the ordering, episodes and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.report.mcq import confidence_in_words
from howsure.report.tables import cut_to_fit, keep_whole, plain_table
from howsure.report.text import counted, printable, shortened, signed_bits, value_with_interval

SHOWN_PARTS = 20
"""Episodes, or files, in a table."""

SHOWN_NOTES = 20
SHOWN_CHARACTERS = 1000
"""Of a sentence that holds names from outside."""

NARROW, WIDE = 80, 110
"""From the second on, the tables of episodes and files have room for the entropies."""

NARROW_NAME, WIDE_NAME = 26, 60
"""Characters of an episode's or a file's name."""

NAMES = {"h_x": "H(X)", "h_x_given_s": "H(X|S)", "h_x_given_ls": "H(X|L,S)"}
GIVEN = {"h_x": "neither", "h_x_given_s": "grounding", "h_x_given_ls": "instruction too"}
DIFFERENCES = {"ΔH_S = H(X) − H(X|S)": "delta_h_s_bits", "ΔH_L,S = H(X) − H(X|L,S)": "delta_h_ls_bits"}


def print_analysis(console: Console, summary: dict[str, Any]) -> None:
    """The whole analysis of logs: all sections, what could not be read, and what a reader must know."""
    for section in trust_sections(summary, width=console.width):
        console.print(section)
        console.print()
    _line(console, f"rows: {summary['coverage']['text']}")
    for line in _missing_lines(summary["missing"]["by_entropy"]):
        _line(console, line)
    for note in summary["notes"][:SHOWN_NOTES]:
        _line(console, f"note: {note}")
    _more(console, len(summary["notes"]) - SHOWN_NOTES, "note")
    problems = summary.get("problems", [])
    for sentence in problems[:SHOWN_NOTES]:
        _line(console, f"problem: {sentence}", "yellow")
    _more(console, len(problems) - SHOWN_NOTES, "problem")


def trust_sections(summary: dict[str, Any], *, width: int = NARROW) -> list[RenderableType]:
    """The tables of a run and of an analysis alike, for a screen of this width."""
    found: list[RenderableType] = [entropy_table(summary), trust_table(summary)]
    if summary["sureness"] is not None:
        found.append(sureness_table(summary["sureness"]))
    if summary["episode_count"] > 1:
        count = summary["episode_count"]
        found.append(part_table("episode", summary["episodes"], count, wide=width >= WIDE))
    files = summary.get("files", [])
    if len(files) > 1:
        found.append(part_table("file", files, len(files), wide=width >= WIDE))
    return found


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(shortened(text, SHOWN_CHARACTERS)), style=style, soft_wrap=True)


def _more(console: Console, count: int, noun: str) -> None:
    if count > 0:
        _line(console, f"... and {counted(count, f'more {noun}')}; --json lists them")


def _missing_lines(by_entropy: dict[str, dict[str, int]]) -> list[str]:
    """`H(X|S) missing: 3 empty field, 1 unreadable`, for each entropy that is missing somewhere."""
    lines = []
    for name, found in by_entropy.items():
        reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in found.items())
        lines += [f"{NAMES[name]} missing: {reasons}"] if found else []
    return lines


# -- all steps -----------------------------------------------------------------------------------------------------


def entropy_table(summary: dict[str, Any]) -> Table:
    trust = summary["trust"]
    head = f"mean of {counted(trust['steps'], 'complete row')}"
    level = trust["delta_h_s_bits"]["level"]
    table = plain_table("entropy of the action", f"{head} ({level:.0%} interval)" if level else head)
    keep_whole(table, 0)
    for name, entry in summary["mean_entropy_bits"].items():
        table.add_row(f"{NAMES[name]}, given {GIVEN[name]}", value_with_interval(entry | {"unit": "bits"}))
    for words, name in DIFFERENCES.items():
        entry = trust[name]
        table.add_row(words, signed_bits(entry["value"], entry["low"], entry["high"]))
    return table


def trust_table(summary: dict[str, Any]) -> Table:
    trust, ordering, steps = summary["trust"], summary["ordering"], summary["per_step"]
    table = plain_table("trust T = ΔH_S / ΔH_L,S", "")
    keep_whole(table, 0)
    table.add_row("T over all steps", trust_in_words(trust))
    table.add_row("  bootstrap", bootstrap_in_words(trust))
    table.add_row("  Fieller", fieller_in_words(trust["fieller"]))
    table.add_row("H(X) ≥ H(X|S) ≥ H(X|L,S)", _share(ordering["both"]))
    table.add_row("  H(X) ≥ H(X|S)", _share(ordering["h_x_at_least_h_x_given_s"]))
    table.add_row("  H(X|S) ≥ H(X|L,S)", _share(ordering["h_x_given_s_at_least_h_x_given_ls"]))
    table.add_row("T of a step, median", _median(steps))
    table.add_row("  in 0 to 1", _share(steps["in_0_1"]))
    table.add_row("  below 0", _share(steps["below_0"]))
    table.add_row("  above 1", _share(steps["above_1"]))
    if steps["zero_denominator"]:
        table.add_row("  not defined", f"{counted(steps['zero_denominator'], 'step')} with ΔH_L,S = 0")
    return table


def trust_in_words(trust: dict[str, Any]) -> str:
    return f"{trust['value']:.4f}" if trust["identified"] else f"not identified: {trust['reason']}"


def bootstrap_in_words(trust: dict[str, Any]) -> str:
    """`0.508 to 0.572 (95%, drawing 10 episodes)`."""
    found = trust["bootstrap"]
    if found is None:
        return "—"
    drawn = f"{trust['drawn_count']:,} times {trust['drawn']}"
    if trust["drawn"] in ("episode", "step", "different step"):
        drawn = counted(trust["drawn_count"], trust["drawn"])
    return f"{found['low']:.4f} to {found['high']:.4f} ({found['level']:.0%}, drawing {drawn})"


def fieller_in_words(found: dict[str, Any] | None, digits: int = 4) -> str:
    """Fieller's set need not be an interval, and then says how little is known."""
    if found is None:
        return "—"
    low, high = (None if found[end] is None else f"{found[end]:.{digits}f}" for end in ("low", "high"))
    return {
        "interval": f"{low} to {high}",
        "complement": f"up to {low}, and from {high} on",
        "ray": f"up to {high}" if low is None else f"from {low} on",
        "line": "any number",
        "empty": "no number: ΔH_L,S is 0 throughout",
    }[found["shape"]] + (f" ({found['level']:.0%})" if digits == 4 else "")


def _share(entry: dict[str, Any]) -> str:
    if entry["value"] is None:
        return "—"
    shown = value_with_interval(entry | {"unit": "share"})
    return f"{entry['count']:,} of {entry['of']:,}, {shown}"


def _median(steps: dict[str, Any]) -> str:
    if steps["median"] is None:
        return "—"
    return f"{steps['median']:.4f} (quartiles {steps['lower_quartile']:.4f} and {steps['upper_quartile']:.4f})"


# -- should it be sure? --------------------------------------------------------------------------------------------


def sureness_table(found: dict[str, Any]) -> Table:
    table = plain_table("should it be sure?", "")
    keep_whole(table, 0)
    table.add_row("on a shortest path", _share(found["agreement"]))
    calibrated = found["calibration"]
    if calibrated is None:
        table.add_row("probability", "not known of any action that is judged")
        return table
    table.add_row("probability", confidence_in_words(calibrated))
    table.add_row("calibration error", f"{calibrated['ece_equal_width']:.3f} in {calibrated['bins']} equal bins")
    table.add_row("Brier, log-loss", f"{calibrated['brier']:.3f}, {calibrated['log_loss_nats']:.3f} nats")
    table.add_row("on path from off", _auroc(found["auroc"]))
    if found["without_probability"]:
        table.add_row("without probability", counted(found["without_probability"], "action"))
    return table


def _auroc(found: dict[str, Any] | None) -> str:
    if found is None:
        return "AUROC — (all actions are alike)"
    return f"AUROC {value_with_interval(found | {'unit': ''})}"


# -- episodes and files --------------------------------------------------------------------------------------------


def part_table(what: str, parts: Sequence[dict[str, Any]], count: int, *, wide: bool = True) -> Table:
    """Episodes, or files, each by itself; a narrow table leaves out the entropies, and sets that are no interval."""
    entropies = list(NAMES.values()) if wide else []
    table = plain_table(what, "rows", *entropies, "ΔH_S", "ΔH_L,S", "T (Fieller)")
    keep_whole(table, *range(1, len(table.columns)))
    for entry in parts[:SHOWN_PARTS]:
        means = [_number(entry["mean_entropy_bits"][name]) for name in NAMES] if wide else []
        differences = [_number(entry["trust"][name]["value"], "+") for name in DIFFERENCES.values()]
        name = _end_of(entry[what], WIDE_NAME if wide else NARROW_NAME)
        table.add_row(name, _rows(entry), *means, *differences, _part_trust(entry["trust"], wide))
    if count > SHOWN_PARTS:
        table.add_row(Text(f"and {count - SHOWN_PARTS:,} more", style="dim"))
    return table


def _end_of(name: str, characters: int) -> Text:
    """Names of files and their episodes differ at their ends."""
    shown = printable(name[-characters - 1 :], one_line=True)
    return cut_to_fit(shown if len(shown) <= characters else f"…{shown[1 - characters :]}")


def _rows(entry: dict[str, Any]) -> str:
    return f"{entry['rows']:,}" if entry["rows"] == entry["complete"] else f"{entry['complete']:,} of {entry['rows']:,}"


def _part_trust(trust: dict[str, Any], wide: bool) -> str:
    if not trust["steps"]:
        return "—"
    found = fieller_in_words(trust["fieller"], digits=2)
    if trust["identified"]:
        return f"{trust['value']:.3f} ({found})"
    return f"not identified ({found})" if wide and trust["fieller"] is not None else "not identified"


def _number(value: float | None, sign: str = "") -> str:
    return "—" if value is None else f"{value:{sign}.3f}"
