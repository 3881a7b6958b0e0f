"""Trust in the terminal: the entropies and what they lost, T with its interval, the ordering, episodes and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.measures import LEAST_GAIN_BITS
from howsure.report.mcq import auroc_in_words, confidence_in_words, ece_in_words
from howsure.report.terminal import cut_to_fit, keep_whole, plain_table
from howsure.report.text import (
    counted,
    interval_text,
    percent,
    printable,
    shortened,
    signed_bits,
    value_with_interval,
)
from howsure.studies.trust.ratio import beyond_in_words, bounds_in_words

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
DIFFERENCES_SHORT = {"delta_h_s_bits": "ΔH_S", "delta_h_ls_bits": "ΔH_L,S"}


def print_analysis(console: Console, summary: Any) -> None:
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
    level = next((entry["level"] for entry in summary["mean_entropy_bits"].values() if entry["level"]), None)
    table = plain_table("entropy of the action", f"{head} ({level:.0%} interval)" if level else head)
    keep_whole(table, 0)
    for name, entry in summary["mean_entropy_bits"].items():
        table.add_row(f"{NAMES[name]}, given {GIVEN[name]}", value_with_interval({**entry, "unit": "bits"}))
    for words, name in DIFFERENCES.items():
        entry = trust[name]
        table.add_row(words, signed_bits(entry["value"], entry))
    return table


def trust_table(summary: dict[str, Any]) -> Table:
    trust, ordering = summary["trust"], summary["ordering"]
    table = plain_table("trust T = ΔH_S / ΔH_L,S", "")
    keep_whole(table, 0)
    table.add_row("T over all steps", trust_in_words(trust))
    table.add_row("H(X) ≥ H(X|S) ≥ H(X|L,S)", ordering_in_words(ordering["both"]))
    table.add_row("  H(X) ≥ H(X|S)", ordering_in_words(ordering["h_x_at_least_h_x_given_s"]))
    table.add_row("  H(X|S) ≥ H(X|L,S)", ordering_in_words(ordering["h_x_given_s_at_least_h_x_given_ls"]))
    for name, words in steps_in_words(summary).items():
        table.add_row(name, words)
    return table


def trust_in_words(trust: dict[str, Any]) -> str:
    """`0.342 (about 0.287 to 0.402, over 6 episodes; between 0.33 and 0.36 whatever the unlisted tokens are)`."""
    if not trust["identified"]:
        return f"not identified: {trust['reason']}"
    episodes = f"over {counted(trust['independent_episodes'], 'episode')}"
    over = ", ".join(part for part in (interval_text(trust), episodes) if part)
    parts = (over, beyond_in_words(trust), bounds_in_words(trust["bounds"]))
    return f"{trust['value']:.3f} ({'; '.join(part for part in parts if part)})"


def ordering_in_words(entry: dict[str, Any]) -> str:
    """How often, of the steps whose prompts differ; or why there is nothing to compare."""
    if entry["reason"] is not None:
        return f"— ({entry['reason']})"
    undecided = entry.get("undecided", 0)
    more = f"; {counted(undecided, 'more step')} left open by the tokens that are not listed" if undecided else ""
    return f"{share_in_words(entry)}{more}"


def steps_in_words(summary: dict[str, Any]) -> dict[str, str]:
    """Where T of the single steps lies, and how many have none that is a share of a gain.

    Without T where that over all steps is not identified: those with a gain may be the ones that chance picked.
    """
    steps, found = summary["per_step"], {}
    if steps["gained"] and summary["trust"]["identified"]:
        found = {
            "T of a step, median": _median(steps),
            "  in 0 to 1": share_in_words(steps["in_0_1"]),
            "  below 0": share_in_words(steps["below_0"]),
            "  above 1": share_in_words(steps["above_1"]),
        }
    if steps["lost"]:
        found["  left out"] = f"{counted(steps['lost'], 'step')} with ΔH_L,S below 0: less sure when told everything"
    if steps["too_small"]:
        found["  too small"] = f"{counted(steps['too_small'], 'step')} with ΔH_L,S from 0 to {LEAST_GAIN_BITS} bits"
    return found


def share_in_words(entry: dict[str, Any]) -> str:
    """`19 of 60, 31.7 % (23.3 to 38.3)`."""
    if entry["value"] is None:
        return "—"
    return f"{entry['count']:,} of {entry['of']:,}, {value_with_interval({**entry, 'unit': 'share'})}"


def _median(steps: dict[str, Any]) -> str:
    if steps["median"] is None:
        return "—"
    return f"{steps['median']:.3f} (quartiles {steps['lower_quartile']:.3f} and {steps['upper_quartile']:.3f})"


# -- should it be sure? --------------------------------------------------------------------------------------------


def sureness_table(found: dict[str, Any]) -> Table:
    table = plain_table("should it be so sure?", "")
    keep_whole(table, 0)
    for name, words in sureness_in_words(found).items():
        table.add_row(name, words)
    return table


def sureness_in_words(found: dict[str, Any]) -> dict[str, str]:
    """The actions against the shortest path, line by line."""
    rows = {"on a shortest path": share_in_words(found["agreement"])}
    calibrated, ranked = found["calibration"], found["selective"]
    if calibrated is not None:
        rows["confidence"] = _confidence(calibrated)
        rows[f"ECE, {calibrated['bins']} equal-width bins"] = ece_in_words(calibrated, "equal_width")
        rows["Brier, log-loss"] = f"{calibrated['brier']:.3f}, {calibrated['log_loss_nats']:.3f} nats"
    if ranked is not None:
        rows["AUROC (on vs off the path)"] = _auroc(ranked)
    if found["without_probability"]:
        rows["without probability"] = counted(found["without_probability"], "action")
    return rows


def _confidence(calibrated: dict[str, Any]) -> str:
    if calibrated["overconfidence_low"] is not None:
        return confidence_in_words(calibrated)
    points = f"{calibrated['overconfidence'] * 100:+.1f} points from the share on a shortest path"
    return f"{percent(calibrated['mean_confidence'])} on average: {points}, over too few episodes for an interval"


def _auroc(ranked: dict[str, Any]) -> str:
    if ranked["auroc"] is None:
        return "— (all actions are on the path, or all off it)"
    return auroc_in_words(ranked)


# -- coherent trust -----------------------------------------------------------------------------------------------


def coherent_in_words(summary: dict[str, Any]) -> dict[str, str]:
    """T over the states, what wording alone gives, and the informations that it is made of, line by line."""
    trust, told = summary["trust"], summary["information_bits"]
    null, count = trust["null"], summary["states"]["count"]
    rows = {
        "T over all states": f"not identified: {trust['reason']}" if trust["value"] is None else f"{trust['value']:.3f}"
    }
    if null is not None and trust["value"] is not None:
        rows["  from wording alone"] = (
            f"{null['mean']:.3f} on average, {null['high']:.3f} or less in 19 of 20; {percent(null['share_at_least'])} "
            "reach the T above"
        )
    return rows | {
        "I(X;S) = H(X) − H(X|S)": _bits(told["s"]),
        "I(X;S,L) = H(X) − H(X|L,S)": _bits(told["ls"]),
        "states with all pairs": f"{count:,} of {summary['states']['of']:,}",
        "pairs": f"{summary['instructions']} instructions × {summary['groundings']} groundings",
    }


def coherent_table(summary: dict[str, Any]) -> Table:
    table = plain_table("T = I(X;S) / I(X;S,L)", "")
    keep_whole(table, 0)
    for name, words in coherent_in_words(summary).items():
        table.add_row(name, words)
    return table


def _bits(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f} bits"


# -- episodes and files --------------------------------------------------------------------------------------------


def part_table(what: str, parts: Sequence[dict[str, Any]], count: int, *, wide: bool = True) -> Table:
    """Episodes, or files, each by itself; a narrow table leaves out the entropies. A file may have a T of its own."""
    entropies = list(NAMES.values()) if wide else []
    of_trust = ["T"] if any("trust" in entry for entry in parts) else []
    table = plain_table(what, "rows", *entropies, *DIFFERENCES_SHORT.values(), *of_trust)
    keep_whole(table, *range(1, len(table.columns)))
    for entry in parts[:SHOWN_PARTS]:
        means = [_number(entry["mean_entropy_bits"][name]) for name in NAMES] if wide else []
        differences = [_number(entry[name], "+") for name in DIFFERENCES_SHORT]
        name = _end_of(entry[what], WIDE_NAME if wide else NARROW_NAME)
        table.add_row(name, _rows(entry), *means, *differences, *([_part_trust(entry["trust"])] if of_trust else []))
    if count > SHOWN_PARTS:
        table.add_row(Text(f"and {count - SHOWN_PARTS:,} more", style="dim"))
    return table


def _end_of(name: str, characters: int) -> Text:
    """Names of files and their episodes differ at their ends."""
    shown = printable(name[-characters - 1 :], one_line=True)
    return cut_to_fit(shown if len(shown) <= characters else f"…{shown[1 - characters :]}")


def _rows(entry: dict[str, Any]) -> str:
    return f"{entry['rows']:,}" if entry["rows"] == entry["complete"] else f"{entry['complete']:,} of {entry['rows']:,}"


def _part_trust(trust: dict[str, Any]) -> str:
    if not trust["identified"]:
        return "not identified" if trust["steps"] else "—"
    return f"{trust['value']:.3f} ({interval_text(trust, digits=2)})"


def _number(value: float | None, sign: str = "") -> str:
    return "—" if value is None else f"{value:{sign}.3f}"
