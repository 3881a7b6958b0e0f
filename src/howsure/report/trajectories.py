"""Trajectories: how unsure agent and user were, whether that foretold failure, and two runs compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import final_value, running_rms
from howsure.report.comparison import Flips, Row, differences, figure_rows, flips, mcnemar_in_words, what_changed
from howsure.report.document import (
    Block,
    Card,
    Document,
    Facts,
    Head,
    Html,
    Lines,
    Notes,
    Plot,
    Prose,
    Quoted,
    Section,
    Table,
    Value,
)
from howsure.report.rows import Column
from howsure.report.rows import key_of as table_key
from howsure.report.run_data import RunData, StoredRun
from howsure.report.sureness import extremes, worth_a_look
from howsure.report.text import counted, shortened
from howsure.report.trajectories_alarms import alarms, interventions
from howsure.report.trajectories_groups import AGENT, USER, Group, against_failure, counts, groups_of, over_turns
from howsure.report.trajectories_talk import about, mean_in_words, spark
from howsure.runs import Sample
from howsure.studies.comparing import McNemar, PairedFigure
from howsure.studies.trajectories.comparison import AurocDifference, Flip, TrajectoriesComparison
from howsure.studies.trajectories.document import infinite, mean, missing_turns, preview
from howsure.studies.trajectories.judge import key_of
from howsure.studies.trajectories.scores import turns_of, uncertainties
from howsure.studies.trajectories.summary import Statistics, TrajectoriesSummary
from howsure.studies.trajectories.turns import Trajectory, Turn

__all__ = ["COLUMNS", "about", "compared", "detailed", "document", "row"]

COLUMNS = (
    Column("task", "task", "text"),
    Column("domain", "domain", "word"),
    Column("agent", "agent", "word", help="The model that was the agent."),
    Column("trial", "trial", "number", digits=0, help="Which try at its task this run is."),
    Column("reward", "reward", "number", help="As the log has it; 1 is solved, below that a run has failed."),
    Column("solved", "solved", "flag", help="Whether the reward is 1; empty where there is none."),
    Column("turns", "turns", "number", digits=0, help="Messages of agent and user."),
    Column("agent_mean", "agent, mean U", "number", "nats",
           help="Mean of −ln p per token over the agent's turns; those of infinite U are left out, and counted beside "
           "it."),
    Column("user_mean", "user, mean U", "number", "nats", help="The same over the user's turns."),
    Column("largest", "largest U", "number", "nats",
           help="The U of the turn that was least sure; empty if it is infinite."),
    Column("scored", "turns scored", "number", digits=0, help="Turns that have a U; the others say why not."),
    Column("infinite", "infinite U", "number", digits=0,
           help="Turns with a token of probability zero, among those scored."),
    Column("missing", "turns without U", "text", help="Why turns have no U, with counts."),
    Column("scored_by", "scored by", "word",
           help="log: the writer's own log-probabilities; else the model that read it."),
    Column("termination", "ended by", "word"),
    Column("opening", "opening", "text", help="What the conversation is about, in the words of who brought it."),
)  # fmt: skip

OPENING_CHARACTERS = 300
MOST_CARDS = 5
DRAWN_GROUPS, SHOWN_GROUPS = 3, 10
SHOWN_SIMULATIONS = 10
SHOWN_PROBLEMS = 20
SHOWN_TURNS, SHOWN_TOKENS = 1000, 40
WIDTH = 80
NAME_CHARACTERS, LINE_CHARACTERS = 70, 1000


def row(sample: Sample[Trajectory]) -> dict[str, Any]:
    one = sample.result
    agent, user = (tuple(uncertainties(turns_of(one, actor)).tolist()) for actor in ("agent", "user"))
    missing, key = missing_turns(one.turns), key_of(one)
    return {
        "task": one.task_id,
        "domain": one.domain,
        "agent": one.agent,
        "trial": one.trial,
        "reward": one.reward,
        "solved": None if one.failed is None else not one.failed,
        "turns": len(one.turns),
        "agent_mean": mean(_known(agent)),
        "user_mean": mean(_known(user)),
        "largest": max(_known(agent + user), default=None),
        "scored": len(one.turns) - missing.total(),
        "infinite": infinite(agent + user),
        "missing": ", ".join(f"{count} {name}" for name, count in sorted(missing.items())) or None,
        "scored_by": key[2] or None,
        "termination": one.termination,
        "opening": None if one.opening is None else one.opening[:OPENING_CHARACTERS],
        "_key": key,
        "_reward_missing": one.reward_missing,
        "_agent": agent,
        "_user": user,
        "_who": "".join(AGENT if turn.actor == "agent" else USER for turn in one.turns),
        "_agent_mean": _ranked_mean(agent),
        "_agent_rms": final_value(running_rms(agent), agent).value if agent else None,
        "_user_mean": _ranked_mean(user),
    }


def _known(scores: Sequence[float]) -> list[float]:
    return [value for value in scores if not math.isnan(value)]


def _ranked_mean(scores: Sequence[float]) -> float | None:
    """As a score that ranks runs, which is infinite where a turn is."""
    return math.inf if math.inf in scores else mean(_known(scores))


# -- all runs ---------------------------------------------------------------------------------------------------------


def document(summary: TrajectoriesSummary | None, run: RunData | None) -> list[Section]:
    sections = []
    if summary and run:
        sections.append(Section("", [Lines(_in_lines(summary, run))], on="terminal"))
    if summary:
        sections.append(_overall(summary))
    if run:
        sections.append(_worth_a_look(run))
    groups = groups_of(summary, run)
    for place, group in enumerate(groups[:SHOWN_GROUPS]):
        parts = _of_group(group, alone=len(groups) == 1)
        sections += parts if place < DRAWN_GROUPS else [_without_plots(part) for part in parts]
    if left_out := groups[SHOWN_GROUPS:]:
        names = "; ".join(f"{group.name} ({counts(group)})" for group in left_out[:20])
        more = f"; and {len(left_out) - 20:,} more" if len(left_out) > 20 else ""
        sections.append(Section("Further groups", [Prose(f"Not shown, but in summary.json: {names}{more}.")]))
    if summary and summary.problems:
        sections.append(_problems(summary))
    return sections


def _of_group(group: Group, *, alone: bool) -> list[Section]:
    """Its parts, under its name where there are several groups."""
    before, judged = "" if alone else f"{group.name}: ", group.judged
    sections = [over_turns(group, group.name), against_failure(group, f"{before}Did uncertainty foretell failure?")]
    if judged is not None and judged.breakdown is not None:
        sections.append(alarms(group, judged.breakdown, f"{before}When would an alarm have fired?"))
        sections.append(interventions(judged.interventions, f"{before}What would intervening have saved?"))
    return sections


def _without_plots(section: Section) -> Section:
    """Of small groups the tables are enough."""
    return replace(section, blocks=[block for block in section.blocks if not isinstance(block, Plot)])


def _overall(summary: TrajectoriesSummary) -> Section:
    """Mean and spread of both actors over finite turns; a terminal has them in its first lines."""
    rows = [
        (actor, one.turns, one.mean, one.std, one.min, "∞" if one.infinite_turns else one.max)
        for actor, one in summary.statistics.items()
    ]
    heads = ["", "turns", "mean U, nats", "standard deviation", "least", "most"]
    messages = Prose(f"{counted(summary.simulations, 'run')}. Messages: {_messages(summary)}.", "quiet")
    return Section("All turns together", [Table(heads, rows), messages], on="page")


def _messages(summary: TrajectoriesSummary) -> str:
    counts = {name.replace("_", " ").removesuffix("s"): count for name, count in summary.messages.items()}
    total = counts.pop("total")
    parts = [counted(count, name) for name, count in counts.items()]
    return shortened(f"{total:,}: {', '.join(parts)}" if parts else "none", LINE_CHARACTERS)


def _problems(summary: TrajectoriesSummary) -> Section:
    left_out = len(summary.problems) - SHOWN_PROBLEMS
    more = [Prose(f"... and {counted(left_out, 'more problem')}; --json lists them")] if left_out > 0 else []
    return Section("What could not be read", [Notes(summary.problems[:SHOWN_PROBLEMS], "problem"), *more])


# -- as scripts read it -----------------------------------------------------------------------------------------------

TITLES = {"agent": "Agent Reasoning Uncertainty (U_i,agent):", "user": "User Confusion (U_i,user):"}


def _headed(title: str) -> list[str]:
    return ["=" * WIDTH, title, "=" * WIDTH, ""]


def _in_lines(summary: TrajectoriesSummary, run: RunData) -> list[str]:
    """What all runs together show, under names that scripts know."""
    lines = [
        *_headed("TRAJECTORY UNCERTAINTY ANALYSIS SUMMARY"),
        f"Source: {shortened(run.source, LINE_CHARACTERS)}",
        f"Total Simulations: {summary.simulations}",
        f"Turns: {summary.coverage.text}",
        f"Messages: {_messages(summary)}",
        "",
        "--- Overall Statistics ---",
    ]
    for actor, title in TITLES.items():
        lines += [title, *_statistics(summary.statistics[actor]), ""]
    lines.append("--- Per-Simulation Summary ---")
    for place in range(min(len(run.table), SHOWN_SIMULATIONS)):
        lines += _simulation(place + 1, run.table.row(place))
    if len(run.table) > SHOWN_SIMULATIONS:
        lines.append(f"... and {len(run.table) - SHOWN_SIMULATIONS:,} more; --output FILE or --out FOLDER has all")
    return [*lines, "=" * WIDTH]


def _statistics(one: Statistics) -> list[str]:
    lines = []
    for name in ("mean", "std", "min", "max"):
        is_infinite = one.infinite_turns and (name == "max" or one.turns == one.infinite_turns)
        lines.append(f"  {name.capitalize() + ':':<5} {'∞' if is_infinite else _four(getattr(one, name))}")
    return [*lines, f"  ({counted(one.turns, 'turn')}, nats)"]


def _four(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def _simulation(number: int, one: dict[str, Any]) -> list[str]:
    if one["turns"] is None:
        return [f"Simulation {number}: it cannot be read"]
    reward = "" if one["reward"] is None else f", reward {one['reward']:g}"
    lines = [
        f"Simulation {number} (Task: {shortened(one['task'], NAME_CHARACTERS)}{reward})",
        f"  Turn count: {one['turns']}, scored {one['scored']}",
    ]
    scores = {"overall): ": one["_agent"] + one["_user"], "agent):   ": one["_agent"], "user):    ": one["_user"]}
    for label, known in {label: _known(values) for label, values in scores.items()}.items() if one["scored"] else ():
        lines.append(f"  Mean uncertainty ({label}{mean_in_words(known, 4, '')}")
    return lines


def detailed(one: Trajectory, number: int, *, verbose: bool = False) -> Document:
    """A run turn by turn, as scripts read it; `verbose` adds the statistics of each turn."""
    lines = _headed(f"DETAILED TRAJECTORY: Simulation {number}")
    for name, value in (("Simulation ID", one.id), ("Task ID", one.task_id), ("Trial", one.trial)):
        lines.append(f"{name}: {'—' if value is None else shortened(str(value), NAME_CHARACTERS)}")
    lines += [f"Total Turns: {len(one.turns)}", "", "--- Turn-by-Turn Uncertainty (U_i) ---", ""]
    turns = one.turns[:SHOWN_TURNS]
    scores = [_score(turn) for turn in turns]
    width = max([12, *map(len, scores)])
    room = WIDTH - 19 - width  # what turn and actor leave, and the score
    lines += [f"{'Turn':<6} {'Actor':<10} {'U_i Score':<{width}} Content Preview", "-" * WIDTH]
    for turn, score in zip(turns, scores, strict=True):
        shown = shortened(preview(turn), WIDTH)
        shown = f"{shown[: room - 3]}..." if len(shown) > room else shown
        lines.append(f"{turn.number:<6} {turn.actor:<10} {score:<{width}} {shown}")
        lines += [f"{'':18}{line}" for line in _more_of(turn, verbose)]
    if len(one.turns) > SHOWN_TURNS:
        lines.append(f"... and {counted(len(one.turns) - SHOWN_TURNS, 'more turn')}; --json lists them")
    return Document("", sections=[Section("", [Lines([*lines, ""])])])


def _score(turn: Turn) -> str:
    u = turn.uncertainty_nats
    if u is None:
        return f"— {(turn.reason or '').replace('_', ' ')}"
    return "∞" if math.isinf(u) else f"{u:.4f}"


def _more_of(turn: Turn, verbose: bool) -> list[str]:
    """Its statistics, and its tokens where they were asked for."""
    lines = []
    if verbose and (known := turn.statistics):
        lines.append(
            f"{counted(known.token_count, 'token')}, total {known.total_entropy:.4f}, min {known.min_uncertainty:.4f}, "
            f"max {known.max_uncertainty:.4f}, std {_four(known.std_uncertainty)}, "
            f"mean probability {known.mean_probability:.4f}"
        )
    tokens = turn.tokens or []
    for token in tokens[:SHOWN_TOKENS]:
        nats = "∞" if token.neg_log_likelihood is None else _four(token.neg_log_likelihood)
        lines.append(f"{nats:>8}  {token.probability:.4f}  {shortened(repr(token.token), NAME_CHARACTERS)}")
    if len(tokens) > SHOWN_TOKENS:
        lines.append(f"... and {counted(len(tokens) - SHOWN_TOKENS, 'more token')}; --output has them")
    return lines


# -- samples worth a look ---------------------------------------------------------------------------------------------


def _worth_a_look(run: RunData) -> Section:
    confidence = _sureness(run)
    sides = extremes(confidence, run.table.numbers("solved"), MOST_CARDS)
    failed, solved = ([_card(run, place) for place in side] for side in sides)
    return worth_a_look(
        failed,
        solved,
        _why_none(run, confidence),
        headers=["agent", Head("what it is about", cut=True)],
        titles=("Confident but failed", "Solved but unsure"),
        leads=(
            "Failed, the surest agents first: the lower U was, the less it warned.",
            "Solved, the least sure agents first: whoever intervenes at doubt stops the first of these for nothing.",
        ),
        lead="Runs of which the agent's uncertainty says the opposite of what came of them.",
    )


def _sureness(run: RunData) -> NDArray[np.float64]:
    """How sure the agent of each run was among its group, from 0 to 1, since U of two models cannot be compared.

    It is the share of the group that was less sure, those alike by half: a run alone in its group lies in the middle.
    """
    means = run.table.numbers("_agent_mean")
    sureness = np.full(len(run.table), np.nan)
    for group in groups_of(None, run):
        rows = group.rows[~np.isnan(means[group.rows])]
        if len(rows):
            _, places, counts = np.unique(means[rows], return_inverse=True, return_counts=True)
            less_sure = len(rows) - np.cumsum(counts) + counts / 2
            sureness[rows] = (less_sure / len(rows))[places]
    return sureness


def _why_none(run: RunData, confidence: NDArray[np.float64]) -> str:
    if not len(run.table):
        return "There are no runs yet."
    if np.isnan(confidence).all():
        return (
            "No turn of an agent has a score, so that nobody knows how sure it was. --score-with smollm2 lets a local "
            "model read the conversations."
        )
    reasons = Counter(reason for reason in run.table.values("_reward_missing") if reason)
    listed = ", ".join(f"{count:,} {shortened(name.replace('_', ' '), 60)}" for name, count in reasons.most_common(5))
    return (
        f"No run with a score of its agent has a reward{f' ({listed})' if listed else ''}, so that nobody knows which "
        "runs failed."
    )


def _card(run: RunData, place: int) -> Card:
    one = run.table.row(place)
    known = _known(one["_agent"])
    verdict = "infinite U" if mean(known) is None else f"mean U {mean_in_words(known, 2)}"
    verdict += f", {'solved' if one['solved'] else 'failed'}"
    trial = "" if one["trial"] is None else f"trial {one['trial']}, "
    facts = f"{trial}reward {one['reward']:.2f}, {counted(one['turns'], 'turn')}"
    about_it = ", ".join(part for part in (one["domain"], one["agent"]) if part)

    def body() -> list[Block]:
        opening = one["opening"] or _first_words(run.sample(place).result)
        shown = Prose(f"{about_it}: {facts}" if about_it else facts, "quiet")
        return [shown, Html(spark(one["_agent"], "agent")), Quoted(opening)]

    key = run.table.keys[place]
    link = run.links.sample(key)
    cells = [verdict, one["opening"]]
    return Card(one["task"] or key, verdict, bool(one["solved"]), body, cells, {"": link} if link else {})


def _first_words(one: Trajectory) -> str:
    words = next((turn.content for turn in one.turns if turn.content.strip()), "(nothing was said)")
    return words[:OPENING_CHARACTERS]


# -- two runs ---------------------------------------------------------------------------------------------------------


PAIRED = (
    "B − A is taken task by task, over the tasks that both runs have; a task with several trials counts by their mean. "
    "An interval that holds 0 says that there may be no difference at all."
)


def compared(comparison: TrajectoriesComparison, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
    difference = comparison.difference
    pairs = difference.flips
    told = [] if difference.mcnemar is None else [_mcnemar(difference.mcnemar, difference.success_rate)]
    sections = [
        what_changed(_rows(comparison), told, PAIRED),
        differences(
            [
                ("Success rate", "more successful", "share", difference.success_rate),
                ("Turns", "longer", "turns", difference.turns),
                ("Mean U of the agent", "less sure", "nats", difference.agent_uncertainty_nats),
                ("Mean U of the user", "less sure", "nats", difference.user_uncertainty_nats),
            ]
        ),
    ]
    if difference.auroc is not None:
        sections.append(_auroc(difference.auroc))
    if difference.domains:
        known = [(one.domain or "(none)", one.success_rate) for one in difference.domains]
        rows = [(name, one.items, *_paired(one)) for name, one in known if one is not None]
        heads = ["domain", "tasks", "A", "B", "B − A (95 % interval, paired)"]
        sections.append(Section("Success rate by domain", [Table(heads, rows)]))
    lead = "Tasks that one run solved more often than the other, those first whose success rate moved farthest."
    sections.append(
        flips(
            [
                Flips("Solved in A, or more often there", "What B has lost.", False, pairs.lost),
                Flips("Solved in B, or more often there", "What B has won.", True, pairs.won),
            ],
            ["solved in A", "solved in B", Head("what it is about", cut=True)],
            lambda flip: (_of(flip.solved_a, flip.judged_a), _of(flip.solved_b, flip.judged_b), flip.opening),
            lambda flip: _flip(flip, a, b),
            a,
            b,
            lambda flip: (flip.sample_a, flip.sample_b),
            lead,
        )
    )
    return sections


def _mcnemar(test: McNemar, paired: PairedFigure | None) -> str:
    kinds = ("solved in B alone", "solved in A alone")
    return mcnemar_in_words(test, paired, "task", hang_together=False, kinds=kinds)


def _rows(comparison: TrajectoriesComparison) -> list[Row]:
    a, b, difference = comparison.a, comparison.b, comparison.difference
    rows: list[Row] = [
        ("agent", ", ".join(a.agents) or None, ", ".join(b.agents) or None, ""),
        *figure_rows("success rate", "share", a.success_rate, b.success_rate, difference.success_rate),
        *figure_rows("turns", "turns", a.mean_turns, b.mean_turns, difference.turns, 1),
    ]
    for whose, paired in (("agent", difference.agent_uncertainty_nats), ("user", difference.user_uncertainty_nats)):
        if paired is not None:
            rows.append((f"mean U of the {whose}", *_paired(paired, "nats")))
    return [
        *rows,
        ("scored by", ", ".join(a.scored_by) or "nobody", ", ".join(b.scored_by) or "nobody", ""),
        ("tasks", a.task_count, b.task_count, f"{difference.paired_count:,} in both"),
        ("trajectories", a.trajectory_count, b.trajectory_count, ""),
        ("  solved", _of(a.solved_count, a.judged_count), _of(b.solved_count, b.judged_count), ""),
        ("turns scored", _of(a.coverage.scored, a.coverage.items), _of(b.coverage.scored, b.coverage.items), ""),
    ]


def _paired(paired: PairedFigure, unit: str = "share") -> tuple[Value, Value, Value]:
    """A, B, and B − A."""
    change = Value.at(paired, "mean_difference", unit, is_difference=True)
    return Value(paired.mean_a, unit), Value(paired.mean_b, unit), change


def _auroc(auroc: AurocDifference) -> Section:
    heads = ["AUROC of", "A", "B", "B − A (95 % interval, paired)"]
    change = Value.at(auroc, "difference", is_difference=True)
    row = ("the agent's mean U", Value.at(auroc.a), Value.at(auroc.b), change)
    return Section(
        "Does uncertainty foretell failure better?",
        [Table(heads, [row]), *([Prose(f"B − A: {auroc.note}.", "quiet")] if auroc.note else [])],
        "The chance that a failed run has a less sure agent than a solved one: 0.5 is chance. It is a matter of ranks "
        "within a run, so that scores of two models may be compared by it.",
    )


def _of(count: int, of: int) -> str:
    return f"{count:,} of {of:,}"


def _flip(flip: Flip, a: StoredRun | None, b: StoredRun | None) -> list[Block]:
    """What it is about, and the trial of each run that shows the difference."""
    sides = (
        ("A", a, flip.sample_a, flip.solved_a, flip.judged_a, flip.turns_a),
        ("B", b, flip.sample_b, flip.solved_b, flip.judged_b, flip.turns_b),
    )
    opening = [Quoted(flip.opening[:OPENING_CHARACTERS])] if flip.opening else []
    facts = [
        (name, f"solved {_of(solved, of)}, {'no turns' if turns is None else f'{turns:.3g} turns'}")
        for name, _, _, solved, of, turns in sides
    ]
    shown = [(name, run, run.table.row_of(table_key(sample))) for name, run, sample, *_ in sides if run is not None]
    known = [(name, run.table.values("_agent")[place]) for name, run, place in shown if place is not None]
    sparks = [Html(spark(scores, "agent", f"{name}: ")) for name, scores in known if scores is not None]
    return [*opening, Facts(facts), *sparks]
