"""A run of the trust study in the terminal: its summary, a step in full, and the maps that come along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.report.terminal import cut_to_fit, plain_table, print_summary
from howsure.report.text import counted, printable, quoted, shortened
from howsure.report.trust_log import coherent_table, trust_in_words, trust_sections
from howsure.runs import Sample
from howsure.studies.trust.ratio import why_no_share

SHOWN_TOKENS = 4
SHOWN_CHARACTERS = 300


def print_result(console: Console, result: Any, view: Any) -> None:
    summary = result.summary
    sections: list[RenderableType] = [*trust_sections(summary, width=console.width), _played(summary)]
    if any(one["entropy_missing"] or one["action_missing"] for one in summary["answers"].values()):
        sections.append(_answers(summary["answers"]))
    print_summary(console, summary, result.samples, result.run, sections)


def print_coherent_result(console: Console, result: Any, view: Any) -> None:
    print_summary(console, result.summary, result.samples, result.run, [coherent_table(result.summary)])


def _played(summary: dict[str, Any]) -> Table:
    """What was done, and by which evidence it is known."""
    actions, reached = summary["actions"], summary["episodes_reached"]
    table = plain_table("what was done", "")
    table.add_row("asked by", f"{summary['evidence']}, {summary['view']} view")
    taken = ", ".join(f"{name} {count}" for name, count in actions["taken"].items())
    table.add_row(
        "actions", f"{taken or 'none'}; {actions['without_effect']} without effect, {actions['none']} not read"
    )
    table.add_row("task done", f"{reached['count']} of {counted(reached['of'], 'episode')}")
    by_actions = summary.get("trust_of_actions")
    if by_actions is not None:
        table.add_row("T by actions", f"{trust_in_words(by_actions)} (alternatives mapped onto the allowed actions)")
    return table


def _answers(answers: dict[str, dict[str, Any]]) -> Table:
    """How many answers could be used, and why the others could not."""
    table = plain_table("answers", "asked", "action", "entropy", "missing")
    for name, one in answers.items():
        reasons = Counter(one["entropy_missing"]) | Counter(one["action_missing"])
        words = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in sorted(reasons.items()))
        table.add_row(name, str(one["asked"]), str(one["with_action"]), str(one["with_entropy"]), words or "—")
    return table


def print_step(console: Console, sample: Sample) -> None:
    """One step with its three answers, entropies and trust."""
    result = sample.result
    lines = [f"[Step {result['step']} of episode {result['episode']}] at ({result['agent_x']}, {result['agent_y']})"]
    conditions = {name: result["conditions"][name] for name in ("X", "X|S", "X|L,S")}
    for name, found in conditions.items():
        lines += [*_answer(f"[H({name})]", found, sample.evidence.get("answers", {}).get(name, {})), ""]
    lines.append("[Entropy Comparison Results]")
    for name, found in conditions.items():
        lines.append(f"{f'H({name}):':<16}{_bits(found['entropy_bits'])}")
    lines.append(f"{'Trust T:':<16}{_trust(result)}")
    effect = result["effect"] or "no action could be read, so none was taken"
    lines.append(f"{'Taken:':<16}{result['action'] or '—'}: {effect}{_judged(result)}")
    console.print(Text("\n".join(printable(line) for line in [*lines, ""])), soft_wrap=True)


def _answer(label: str, found: dict[str, Any], evidence: dict[str, Any]) -> list[str]:
    action = found["action"] if found["action"] is not None else f"none ({found['action_missing']})"
    lines = [f"{label} Action: {action}"]
    spread = found.get("probabilities")
    if spread:
        ranked = sorted(spread.items(), key=lambda pair: -pair[1])
        other = f", other {found['other']:.3f}" if found.get("other") else ""
        lines.append("  probabilities: " + ", ".join(f"{name} {p:.3f}" for name, p in ranked) + other)
    lines += _tokens(evidence.get("action") or {})
    lines.append(f"  entropy: {_bits(found['entropy_bits'])} bits")
    if found["entropy_missing"] is not None:
        lines.append(f"  no entropy: {found['entropy_missing']}")
        if evidence.get("text"):
            lines.append(f"  it wrote: {shortened(evidence['text'], SHOWN_CHARACTERS)}")
    return lines


def _tokens(action: dict[str, Any]) -> list[str]:
    tokens, first = action.get("tokens") or [], action.get("first")
    if first is None:
        return []
    shown = [f"{quoted(token)} (pos {first + i})" for i, token in enumerate(tokens[:SHOWN_TOKENS])]
    return ["  action token: " + " ".join(shown) + (" …" if len(tokens) > SHOWN_TOKENS else "")]


def _judged(result: dict[str, Any]) -> str:
    if result["on_shortest_path"] is None:
        return ""
    return " (on a shortest path)" if result["on_shortest_path"] else " (not on a shortest path)"


def _trust(result: dict[str, Any]) -> str:
    """T of the step, where it is a share of something that was gained."""
    why = why_no_share(result)
    return _bits(result["trust"]) if why is None else f"— ({why})"


def _bits(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def print_maps(console: Console, maps: Sequence[dict[str, Any]]) -> None:
    table = plain_table("map", "size", "instruction")
    for one in maps:
        table.add_row(one["name"], f"{one['width']}×{one['height']}", cut_to_fit(one["instruction"] or "—"))
    console.print(table)
    console.print(Text("howsure trust maps NAME prints one whole; howsure trust NAME runs in it"))
