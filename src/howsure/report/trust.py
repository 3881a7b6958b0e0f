"""Trust: what grounding and instruction each decided, whether the robot should be so sure, and two runs compared.

A run, logs of somebody else's steps (`howsure trust analyse`) and a notebook show the same document, of which each
knows a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import LEAST_GAIN_BITS
from howsure.report.charts import Axis, Chart, Named, dots
from howsure.report.document import (
    Block,
    Card,
    Cell,
    Facts,
    Head,
    Html,
    Marked,
    Notes,
    Plot,
    Prose,
    Section,
    Table,
    Value,
)
from howsure.report.html import number
from howsure.report.rows import Column
from howsure.report.rows import Table as Rows
from howsure.report.run_data import RunData, StoredRun
from howsure.report.sureness import extremes, histogram_by_outcome, sureness, worth_a_look
from howsure.report.text import counted, interval_text, value_of
from howsure.report.tokens import percent
from howsure.report.trust_compare import compared as compared
from howsure.report.trust_steps import (
    GIVEN,
    MEANING,
    answers,
    card,
    changed,
    in_words,
    missing_words,
    replay,
    step_name,
)
from howsure.report.trust_steps import about as about
from howsure.runs import Sample
from howsure.studies.trust.estimates import EpisodeFigures, Order, StepSummary
from howsure.studies.trust.judge import AnswerCounts, TrustSummary
from howsure.studies.trust.logs import FileFigures, LogSummary
from howsure.studies.trust.ratio import Mean, TrustFigure, beyond_in_words, bounds_in_words, why_no_share
from howsure.studies.trust.record import TrustRecord

COLUMNS = (
    Column("episode", "episode", "number", digits=0),
    Column("step", "step", "number", digits=0),
    Column("action", "action", "word", help="What was done, by the model that was told everything."),
    Column("effect", "effect", "word", help="What came of it."),
    Column("moved", "had an effect", "flag", help="Whether the world was another after it."),
    Column("action_probability", "probability", "number", help="How likely the model found the action that was taken."),
    Column(
        "action_confidence",
        "confidence",
        "number",
        help="How likely the model found it that this is right: equally good actions are taken together.",
    ),
    Column("correct", "on a shortest path", "flag", help="Whether the action lies on a shortest path to the goal."),
    Column("best", "best actions", "word", help="All actions that lie on a shortest path."),
    Column("h_x", "H(X)", "number", "bits", help="Entropy of the action, told neither knowledge nor instruction."),
    Column("h_x_given_s", "H(X|S)", "number", "bits", help="Entropy of the action, told what is known of the place."),
    Column("h_x_given_ls", "H(X|L,S)", "number", "bits", help="Entropy of the action, told the instruction too."),
    Column(
        "trust",
        "T",
        "number",
        help="(H(X) − H(X|S)) / (H(X) − H(X|L,S)) where told everything it was surer; has no bounds in a single step.",
    ),
    Column("repeated", "asked before", "flag", help="Whether an earlier step was asked word for word the same."),
    Column("missing", "what is missing", "word", help="Which of the entropies are not there, and why."),
)
MOST_CARDS = 5
MOST_EPISODES = 3
"""Drawn step by step."""
MOST_STEPS = 400
"""Of one episode in a plot."""
MOST_MEANS = 500
"""Episodes in the plot of their means."""
TRUST_AXIS = (-1.0, 2.0)
"""T has no bounds: one step with a denominator near zero would press all others flat."""
NAME_CHARACTERS = 38

Places = NDArray[np.intp]


def row(sample: Sample[TrustRecord]) -> dict[str, Any]:
    step = sample.result
    names = ("episode", "step", "action", "effect", "moved", "action_probability", "action_confidence")
    known = step.first_asked is not None and step.first_episode is not None
    new = step.first_asked == step.step and step.first_episode == step.episode
    return {name: getattr(step, name) for name in names} | {
        "correct": step.on_shortest_path,
        "best": None if step.best_actions is None else ", ".join(step.best_actions),
        **{given.column: one.entropy_bits for given, one in answers(step)},
        "trust": step.trust if why_no_share(step) is None else None,
        "repeated": not new if known else None,
        "missing": missing_words(step),
        "_asked": step.asked,
    }


# -- a run, or logs ---------------------------------------------------------------------------------------------------


def document(summary: StepSummary | None, run: RunData | None) -> list[Section]:
    """`summary` is that of a run or of logs."""
    stored = run if isinstance(run, StoredRun) else None
    parts = (
        _overall(summary),
        _sureness(summary, run),
        _worth_a_look(run) if run else None,
        _by_step(stored) if stored else None,
        _by_episode(summary, stored),
        replay(stored) if stored else None,
        _files(summary) if isinstance(summary, LogSummary) else None,
        _done(summary) if isinstance(summary, TrustSummary) else None,
    )
    return [one for one in parts if one is not None]


def _overall(summary: StepSummary | None) -> Section:
    title, anchor = "How much comes from what it knows?", "trust"
    if summary is None:
        waiting = Prose("T over all steps is worked out when the run is finished.", "quiet")
        return Section(title, [waiting], MEANING, anchor)
    trust = summary.trust
    if not trust.steps:
        nothing = Prose("No step has all three entropies, so nothing can be said about T.")
        return Section(title, [nothing, Facts(_missing(summary))], MEANING, anchor)
    gained = in_words(_changed(trust.delta_h_s_bits), _changed(trust.delta_h_ls_bits))
    means: Sequence[Cell] = [Value.at(one, unit="bits") for one in summary.mean_entropy_bits.values()]
    rows: list[tuple[str, Cell]] = [
        *((f"{given.entropy}, {given.told}", one) for given, one in zip(GIVEN, means, strict=True)),
        ("independent episodes", f"{trust.independent_episodes:,} of {trust.episode_count:,}"),
        ("H(X) ≥ H(X|S) ≥ H(X|L,S)", _ordering(summary.ordering.both)),
        ("… H(X) ≥ H(X|S)", _ordering(summary.ordering.h_x_at_least_h_x_given_s)),
        ("… H(X|S) ≥ H(X|L,S)", _ordering(summary.ordering.h_x_given_s_at_least_h_x_given_ls)),
        *_steps(summary),
    ]
    if isinstance(summary, TrustSummary) and summary.trust_of_actions is not None:
        rows.append(("T of the actions alone", trust_in_words(summary.trust_of_actions)))
    about_t = "T is the share of all that was gained which came from knowledge alone."
    if trust.identified and (beyond := beyond_in_words(trust)) is not None:
        about_t = f"T is {beyond}."
    said = f"{gained} That is the mean of {counted(trust.steps, 'complete step')}."
    blocks: list[Block] = [
        Prose(f"{said} {about_t}" if trust.identified else said),
        means_plot(
            summary.mean_entropy_bits,
            "Were both a help, each dot would lie to the left of the one above.",
        ),
        Facts(rows + _missing(summary) if isinstance(summary, LogSummary) else rows),
    ]
    return Section(title, blocks, MEANING, anchor)


def means_plot(means: Mapping[str, Any], how_to_read: str, names: Sequence[str] = ()) -> Plot:
    """The three mean entropies, by the names of their conditions."""
    called = names or ("H(X) neither", "H(X|S) what is known", "H(X|L,S) instruction too")
    rows = [
        Named(name, Value.at(one, unit="bits"), number(one.value, 3))
        for name, one in zip(called, means.values(), strict=True)
    ]
    return dots(
        "How open was the action?",
        f"The mean entropy in each condition; further left is surer. {how_to_read}",
        Axis("entropy, bits", 0),
        rows,
        over="episodes",
    )


def _changed(difference: Mean) -> str:
    """`surer by 0.250 bits`; no direction where the interval holds both."""
    low, high = difference.low, difference.high
    if low is not None and high is not None and low <= 0 <= high:
        return f"neither clearly surer nor clearly less sure ({interval_text(difference)} bits)"
    value = difference.value or 0.0
    return changed(value, value_of({"value": abs(value), "unit": "bits", "low": low, "high": high}))


def trust_in_words(trust: TrustFigure) -> Cell:
    """`0.34 (about 0.29 to 0.40; over 6 episodes; between 0.33 and 0.36 whatever the unlisted tokens are)`."""
    if not trust.identified:
        return f"not identified: {trust.reason}"
    over = f"over {counted(trust.independent_episodes, 'episode')}"
    told = [part for part in (over, beyond_in_words(trust), bounds_in_words(trust.bounds)) if part]
    return Value.at(trust, note="; ".join(told))


def _ordering(entry: Order) -> Cell:
    """How often, of the steps whose prompts differ; or why there is nothing to compare."""
    if entry.reason is not None:
        return f"— ({entry.reason})"
    shown = Value.at(entry, unit="share")
    if not entry.undecided:
        return shown
    return f"{shown}; {counted(entry.undecided, 'more step')} left open by the tokens that are not listed"


def _steps(summary: StepSummary) -> list[tuple[str, Cell]]:
    """Where T of the single steps lies, and how many have none that is a share of a gain.

    Without T where that over all steps is not identified: those with a gain may be the ones that chance picked.
    """
    steps, found = summary.per_step, list[tuple[str, Cell]]()
    if steps.gained and summary.trust.identified:
        quarters = (
            f"{number(steps.median)} (quartiles {number(steps.lower_quartile)} and {number(steps.upper_quartile)})"
        )
        found = [
            ("T of a step, median", quarters),
            ("… in 0 to 1", Value.at(steps.in_0_1, unit="share")),
            ("… below 0", Value.at(steps.below_0, unit="share")),
            ("… above 1", Value.at(steps.above_1, unit="share")),
        ]
    if steps.lost:
        less = f"{counted(steps.lost, 'step')} with ΔH_L,S below 0: less sure when told everything"
        found.append(("… left out" if found else "steps that lost", less))
    if steps.too_small:
        small = f"{counted(steps.too_small, 'step')} with ΔH_L,S from 0 to {LEAST_GAIN_BITS} bits"
        found.append(("… too small" if found else "steps without a gain", small))
    return found


def _missing(summary: StepSummary) -> list[tuple[str, Cell]]:
    """`H(X|S) missing: 3 empty field, 1 unreadable`, for each entropy that is missing somewhere."""
    by_entropy = zip(GIVEN, summary.missing.by_entropy.values(), strict=True)
    return [(f"{given.entropy} missing", reasons_in_words(reasons)) for given, reasons in by_entropy if reasons]


def reasons_in_words(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(reasons.items()))


# -- should it be sure? -----------------------------------------------------------------------------------------------


def _sureness(summary: StepSummary | None, run: RunData | None) -> Section:
    title, anchor = "Should it be so sure?", "sureness"
    judged = summary.sureness if summary else None
    right = run.table.numbers("correct") if run else np.empty(0)
    if judged is None and not np.isfinite(right).any():
        nothing = "No action could be set against a shortest path to the goal: right and wrong are not known."
        return Section(title, [Prose(nothing)] if run else [], anchor=anchor, on="page")
    known = right[np.isfinite(right)]
    share, rest = f"{int(known.sum()):,} of {len(known):,}", len(right) - len(known)
    if judged is not None:
        share, rest = str(Value.at(judged.agreement, unit="share")), judged.not_judged
    left = f" {counted(rest, 'step')} could not be judged." if rest else ""
    blocks: list[Block] = [Prose(f"Actions on a shortest path to the goal: {share}.{left}")]
    if run is not None:
        sure = run.table.numbers("action_probability")
        caption = (
            "Actions by the probability that the model gave them, those on a shortest path below those that are not. "
            "Were its probabilities a guide, the first would lie further to the right."
        )
        kinds = ("on a shortest path", "off it")
        label = "probability of the action taken"
        blocks.append(
            histogram_by_outcome(
                "How sure was it of what it did?", caption, label, sure, right, kinds, span=(0.0, 1.0), what="actions"
            )
        )
    if judged is not None:
        without: list[tuple[str, Cell]] = [("without probability", counted(judged.without_probability, "action"))]
        more = without if judged.without_probability else []
        blocks += sureness(judged.calibration, judged.selective, "actions", "on vs off the path", more)
    lead = (
        "An action is right here where it lies on a shortest path to the goal. Its probability is that of the model "
        "that was told everything. Where several actions are equally good each is right, so that its confidence is "
        "their sum; how well it tells right from wrong is judged by the action's own probability."
    )
    return Section(title, blocks, lead, anchor)


def _worth_a_look(run: RunData) -> Section:
    table = run.table
    right = table.numbers("correct")
    # Any of several best actions is right, so that a right one is as sure as all of them together.
    believed = np.where(right == 1, table.numbers("action_confidence"), table.numbers("action_probability"))
    sides = extremes(np.where(_different(table), believed, np.nan), right, MOST_CARDS)
    wrong, good = ([_card(run, place) for place in side] for side in sides)
    leads = (
        "Steps off every shortest path to the goal, the surest first. Of those that were asked the same, the first is "
        "shown.",
        "Steps on a shortest path, by how likely the model found the best actions together, the least sure first: "
        "stopping to ask when unsure loses these.",
    )
    nothing = "No action has both a probability and a shortest path to compare it with."
    return worth_a_look(wrong, good, nothing, headers=["sure", "action", "best", Head("effect", cut=True)], leads=leads)


def _different(table: Rows) -> NDArray[np.bool_]:
    """The first of the steps that asked the same and went the same way: a robot at a wall would fill all places."""
    asked, action = table.values("_asked"), table.values("action")
    found, known = np.zeros(len(table), dtype=bool), set()
    for at in table.in_order().tolist():
        key = (asked[at], action[at])
        found[at] = not asked[at] or key not in known
        known.add(key)
    return found


def _card(run: RunData, at: int) -> Card:
    sample: Sample[TrustRecord] = run.sample(at)
    step, right = sample.result, bool(sample.result.on_shortest_path)
    sure = percent(step.action_confidence if right else step.action_probability)
    verdict = f"{sure} on the best actions" if right else f"{sure} sure, off the shortest path"
    cells = [sure, step.action, ", ".join(step.best_actions or ()), step.effect]
    link = run.links.sample(run.table.keys[at])
    return Card(step_name(step), verdict, right, lambda: [Html(card(sample, run))], cells, {"": link} if link else {})


# -- step by step -----------------------------------------------------------------------------------------------------


def _by_step(run: StoredRun) -> Section | None:
    episodes = _episodes_of(run.table)
    if not any(np.isfinite(run.table.numbers(given.column)).any() for given in GIVEN):
        return None
    blocks: list[Block] = []
    for episode, places in episodes[:MOST_EPISODES]:
        drawn = places[:MOST_STEPS].tolist()
        cut = f" The first {MOST_STEPS} of {len(places):,} steps are drawn." if len(places) > MOST_STEPS else ""
        blocks += [_entropies(run, episode, drawn, cut), _trusts(run, episode, drawn, cut)]
    lead = (
        "How open the action was at each step: lower is surer, and a wide gap below a line means that what was told in "
        "between decided something. T is the part that knowledge took off the entropy, of what knowledge and "
        "instruction together took off: at the dashed lines nothing (0) and everything (1). It may lie beyond them, "
        "and where the model became less sure by being told everything, there is none. Where something is missing, "
        "the line breaks."
    )
    if len(episodes) > MOST_EPISODES:
        lead += f" The first {MOST_EPISODES} episodes are drawn; all {len(episodes):,} are below, by their means."
    return Section("Step by step", blocks, lead, "by-step")


def _episodes_of(table: Rows) -> list[tuple[int, Places]]:
    """The rows of each episode, both in order."""
    order = table.in_order()
    of = table.numbers("episode")[order]
    by_episode = np.argsort(of, kind="stable")[: np.isfinite(of).sum()]  # NaN comes last
    present, starts = np.unique(of[by_episode], return_index=True)
    parts = np.split(order[by_episode], starts[1:])
    return [(int(episode), places) for episode, places in zip(present.tolist(), parts, strict=False)]


def _entropies(run: StoredRun, episode: int, places: Sequence[int], cut: str) -> Plot:
    steps = _picked(run, "step", places)
    columns = [_picked(run, given.column, places) for given in GIVEN]
    lacking = sum(any(column[i] is None for column in columns) for i in range(len(places)))
    gaps = f"An entropy is missing at {counted(lacking, 'step')}." if lacking else ""
    chart = three_lines(f"Episode {episode}: entropy", "step", steps, columns, _links(run, places))
    rows = list(zip(map(_whole, steps), *columns, strict=True))
    return chart.figure(f"{gaps}{cut}".strip(), ["step", *(given.entropy for given in GIVEN)], rows)


def _trusts(run: StoredRun, episode: int, places: Sequence[int], cut: str) -> Block:
    """T of the steps; what lies beyond the axis is marked at its edge, and is in the table as it is."""
    low, high = TRUST_AXIS
    steps, values = _picked(run, "step", places), _picked(run, "trust", places)
    if all(value is None for value in values):
        nothing = "it takes all three entropies, and the last clearly below the first"
        return Prose(f"No step of episode {episode} has a T: {nothing}.", "quiet")
    chart = Chart(f"Episode {episode}: trust T", Axis("step", whole=True), Axis("T", low, high))
    chart.level(0.0).level(1.0)
    tips = [f"step {number(s, 0)}: T {number(v, 4)}" for s, v in zip(steps, values, strict=True)]
    _trace(chart, steps, values, "", 3, tips, _links(run, places))
    beyond = sum(value is not None and not low <= value <= high for value in values)
    lacking = sum(value is None for value in values)
    told = f"{counted(beyond, 'step')} beyond {low:g} to {high:g}, drawn at the edge. " if beyond else ""
    told += f"There is no T at {counted(lacking, 'step')}." if lacking else ""
    rows = list(zip(map(_whole, steps), values, strict=True))
    return chart.figure(f"{told}{cut}".strip(), ["step", "T"], rows)


def three_lines(
    title: str,
    axis: str,
    xs: Sequence[float | None],
    columns: Sequence[Sequence[float | None]],
    links: Sequence[str | None] | None = None,
) -> Chart:
    """The three entropies over steps, episodes or states."""
    chart = Chart(title, Axis(axis, whole=True), Axis("entropy, bits", 0))
    for given, ys in zip(GIVEN, columns, strict=True):
        tips = [f"{axis} {number(x, 0)}: {given.entropy} {number(y, 3)} bits" for x, y in zip(xs, ys, strict=True)]
        _trace(chart, xs, ys, given.entropy, given.series, tips, links)
    return chart


def _trace(
    chart: Chart,
    xs: Sequence[float | None],
    ys: Sequence[float | None],
    label: str,
    series: int,
    tips: Sequence[str],
    links: Sequence[str | None] | None,
) -> None:
    """A line through the values with a mark on each, so that one between two gaps is seen too."""
    there = [i for i in range(len(xs)) if xs[i] is not None and ys[i] is not None]
    gaps = np.flatnonzero(np.diff(there) > 1) + 1
    for at, part in enumerate(np.split(np.array(there, dtype=int), gaps)):
        chart.line([xs[i] for i in part], [ys[i] for i in part], "" if at else label, series)
    chart.points(
        [xs[i] for i in there],
        [ys[i] for i in there],
        "",
        series,
        tips=[tips[i] for i in there],
        links=None if links is None else [links[i] for i in there],
    )


def _picked(run: RunData, name: str, places: Sequence[int]) -> list[float | None]:
    values = run.table.values(name)
    return [values[at] for at in places]


def _links(run: RunData, places: Sequence[int]) -> list[str | None]:
    return [run.links.sample(run.table.keys[at]) for at in places]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


# -- episodes and files -----------------------------------------------------------------------------------------------


def _by_episode(summary: StepSummary | None, run: StoredRun | None) -> Section:
    blocks: list[Block] = []
    if run is not None and len(episodes := _episodes_of(run.table)) > 1:
        blocks.append(_episode_means(run, episodes))
    if summary is not None and summary.episode_count > 1:
        blocks.append(_parts("episode", summary.episodes, [one.episode for one in summary.episodes]))
        more = summary.episode_count - len(summary.episodes)
        blocks += [Prose(f"and {counted(more, 'more episode')}", "quiet")] if more > 0 else []
    lead = "Whether later episodes are surer than earlier ones. A single episode has no T."
    return Section("Episode by episode", blocks, lead, "by-episode")


def _episode_means(run: StoredRun, episodes: Sequence[tuple[int, Places]]) -> Plot:
    columns = np.column_stack([run.table.numbers(given.column) for given in GIVEN])
    rows: list[tuple[float | None, ...]] = []
    for episode, places in episodes:
        bits = columns[places][np.isfinite(columns[places]).all(axis=1)]
        rows.append((episode, len(bits), len(places), *(bits.mean(axis=0).tolist() if len(bits) else [None] * 3)))
    xs, _, _, *means = zip(*rows[:MOST_MEANS], strict=True)
    more = f" The first {MOST_MEANS} of {len(rows):,} are drawn." if len(rows) > MOST_MEANS else ""
    return three_lines("Entropy by episode", "episode", xs, means).figure(
        f"The mean over the complete steps of each episode; lower is surer.{more}",
        ["episode", "complete steps", "steps", *(given.entropy for given in GIVEN)],
        rows,
    )


def _parts(what: str, parts: Sequence[EpisodeFigures | FileFigures], names: Sequence[str]) -> Table:
    """Episodes, or files, each by itself; a file may have a T of its own."""
    files = [part for part in parts if isinstance(part, FileFigures)]
    heads = [Head(what, cut=True), Head("steps")]
    heads += [Head(given.entropy, numeric=True, wide=True) for given in GIVEN]
    heads += [Head("ΔH_S", numeric=True), Head("ΔH_L,S", numeric=True), *([Head("T")] if files else [])]
    rows: list[list[Cell]] = []
    for part, name in zip(parts, names, strict=True):
        bits = part.mean_entropy_bits.values()
        gains = [None if one is None else f"{one:+.3f}" for one in (part.delta_h_s_bits, part.delta_h_ls_bits)]
        steps = f"{part.rows:,}" if part.rows == part.complete else f"{part.complete:,} of {part.rows:,}"
        end = name if len(name) <= NAME_CHARACTERS else f"…{name[1 - NAME_CHARACTERS :]}"  # where names of files differ
        rows.append([end, steps, *(number(one) for one in bits), *gains])
        if isinstance(part, FileFigures):
            trust = part.trust
            without = Marked("not identified") if trust.steps else None
            rows[-1].append(Value.at(trust) if trust.identified else without)
    return Table(heads, rows, more="in --json")


def _files(summary: LogSummary) -> Section:
    several = len(summary.files) > 1
    blocks: list[Block] = [_parts("file", summary.files, [one.file for one in summary.files])] if several else []
    return Section("Files", [*blocks, *([Notes(summary.problems, "problem")] if summary.problems else [])])


# -- what was done ----------------------------------------------------------------------------------------------------


def _done(summary: TrustSummary) -> Section:
    """What was done, by which evidence it is known, and why some answers could not be used."""
    actions, reached = summary.actions, summary.episodes_reached
    taken = ", ".join(f"{name} {count:,}" for name, count in actions.taken.items()) or "none"
    rows: list[tuple[str, Cell]] = [
        ("asked by", f"{summary.evidence}, {summary.view} view"),
        ("actions", f"{taken}; {actions.without_effect:,} without effect, {actions.none:,} not read"),
        ("goal reached", f"{reached.count:,} of {counted(reached.of, 'episode')}"),
    ]
    lacking = any(one.entropy_missing or one.action_missing for one in summary.answers.values())
    counts = (Head(name, numeric=True) for name in ("asked", "action", "entropy"))
    table = Table(
        [Head("answers"), *counts, Head("missing")], [_answers(name, one) for name, one in summary.answers.items()]
    )
    return Section("What was done", [Facts(rows), table] if lacking else [Facts(rows)])


def _answers(name: str, one: AnswerCounts) -> list[Cell]:
    missing = Counter(one.entropy_missing) | Counter(one.action_missing)
    return [name, one.asked, one.with_action, one.with_entropy, reasons_in_words(missing) if missing else None]
