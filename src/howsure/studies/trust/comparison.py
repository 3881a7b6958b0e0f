"""Two runs over the same episodes: how sure each was with what it was told, T, the actions, and where they part.

Episodes are paired, and steps are not: the models act, so that only the steps before their actions part were met by
both. What an episode contributes to a figure of B, less what it contributes to that of A, is its contribution to the
difference; episodes that hang together in either run, such as copies, are one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from howsure.measures import PairedDifference, mcnemar_exact, paired_shares, too_few
from howsure.measures.paired_units import Happened, Ratio, difference_of_ratios, difference_of_shares
from howsure.runs import Run, Sample
from howsure.studies.comparing import (
    Comparison,
    McNemar,
    PairedFigure,
    Side,
    check_same,
    notes_on_models,
    read_side,
    refuse_other_data,
)
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL, ends
from howsure.studies.trust.judge import Reached, to_step
from howsure.studies.trust.ratio import TrustFigure, estimate
from howsure.studies.trust.record import TrustRecord, UserInput
from howsure.studies.trust.steps import ENTROPIES, Array, Codes, Steps
from howsure.types import Fields

_SAME_EPISODES = (
    "instruction", "grounding", "episodes", "max_steps", "act", "own_grounding", "carry", "summarise", "interactive",
)  # fmt: skip
_ASKED_BY = {"evidence": "asked by", "view": "shown"}

TrustRun = Side[TrustRecord]
Records = Sequence[Sample[TrustRecord]]


class TrustSide(Fields, kw_only=True):
    """The figures of one run, over all of its steps."""

    run: str
    model: str | None
    evidence: str | None
    view: str | None
    coverage: Coverage
    mean_entropy_bits: dict[str, float | None]
    delta_h_s_bits: float | None
    delta_h_ls_bits: float | None
    trust: TrustFigure
    on_shortest_path: float | None
    confidence: float | None
    episodes_reached: Reached
    notes: list[str]


class EpisodeFlip(Fields, kw_only=True):
    """An episode of both runs, and the first step at which they act differently: until there both met the same."""

    id: str
    episode: int
    reached_a: bool
    reached_b: bool
    steps_a: int
    steps_b: int
    parted_at: int | None
    """None where one only stopped sooner."""
    agent_x: int | None
    agent_y: int | None
    action_a: str | None
    action_b: str | None
    best_actions: list[str] | None
    on_shortest_path_a: bool | None
    on_shortest_path_b: bool | None
    sample_a: str
    """The step at which they part, or the last one."""
    sample_b: str


class Flips(Fields, kw_only=True):
    """Episodes that reached the goal in one run alone; and those of which the first step that differs lies on a
    shortest path in one alone."""

    reached_in_a: list[EpisodeFlip]
    reached_in_b: list[EpisodeFlip]
    on_path_in_a: list[EpisodeFlip]
    on_path_in_b: list[EpisodeFlip]


class TrustDifference(Fields, kw_only=True):
    """B − A. Means, shares and T are over the steps of the episodes that have such steps in both."""

    episode_count: int
    unit_count: int
    mean_entropy_bits: dict[str, PairedFigure | None]
    delta_h_s_bits: PairedFigure | None
    delta_h_ls_bits: PairedFigure | None
    trust: PairedFigure | None
    trust_missing: str | None
    """Why there is no difference of T."""
    on_shortest_path: PairedFigure | None
    confidence: PairedFigure | None
    reached: PairedFigure | None
    mcnemar: McNemar
    """Of episodes that reached the goal."""
    parted_count: int
    """Episodes in which the two acted differently."""
    flips: Flips


class TrustComparison(Comparison, kw_only=True):
    a: TrustSide
    b: TrustSide
    difference: TrustDifference
    notes: list[str]


def compare(run_a: Run, run_b: Run) -> TrustComparison:
    """Compare two finished runs over the same episodes; no model is needed."""
    sides = [read_side(run, "trust", TrustRecord, "steps", counted=False) for run in (run_a, run_b)]
    check_comparable(*sides)
    a, b = (_Played.of(side) for side in sides)
    difference = _difference(a, b, _units(a.steps, b.steps))
    first, second = (_about(side, played) for side, played in zip(sides, (a, b), strict=True))
    notes = list(_notes(sides, (a, b), difference))
    return TrustComparison(study="trust", a=first, b=second, difference=difference, notes=notes)


# -- may they be compared? --------------------------------------------------------------------------------------------


def check_comparable(a: TrustRun, b: TrustRun) -> None:
    """Refuse other episodes: another world, other seeds, something else that was told."""
    are_maps = all("sha256" in side.data for side in (a, b))  # which are the same whatever they are called
    worlds = [{name: of for name, of in side.data.items() if not are_maps or name != "name"} for side in (a, b)]
    if worlds[0] != worlds[1]:
        refuse_other_data(a, b, "worlds", " and ".join(_in_words(one) for one in worlds))
    seeds = [side.run.manifest.identity.seed for side in (a, b)]
    if seeds[0] != seeds[1]:
        refuse_other_data(a, b, "episodes", f"they begin with the seeds {seeds[0]} and {seeds[1]}")
    check_same(a, b, _SAME_EPISODES)
    first, second = (_by_episode(side.samples) for side in (a, b))
    if first.keys() != second.keys() or not first:
        refuse_other_data(a, b, "episodes", f"{len(first)} in the first and {len(second)} in the second")
    for number, steps in first.items():
        one, other = steps[0].result, second[number][0].result
        if (_state(one), one.instruction) != (_state(other), other.instruction):
            refuse_other_data(a, b, "episodes", f"episode {number} does not begin alike")
        said = ([step.result.told for step in side[number]] for side in (first, second))
        if a.options.get("interactive") and any(x != y for x, y in zip_longest(*said, fillvalue=UserInput())):
            refuse_other_data(a, b, "episodes", f"something else was said in episode {number}")


def _in_words(world: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {of}" for name, of in sorted(world.items()))


def _by_episode(samples: Records) -> dict[int, list[Sample[TrustRecord]]]:
    episodes: dict[int, list[Sample[TrustRecord]]] = {}
    for sample in sorted(samples, key=lambda one: (one.result.episode, one.result.step)):
        episodes.setdefault(sample.result.episode, []).append(sample)
    return episodes


def _state(step: TrustRecord) -> tuple[int | None, int | None, str | None, str | None]:
    return step.agent_x, step.agent_y, step.agent_dir, step.carrying


# -- what changed -----------------------------------------------------------------------------------------------------


class _Played(NamedTuple):
    """A run as columns: its steps, and the place of the episode of each in the list of them."""

    samples: dict[int, list[Sample[TrustRecord]]]
    steps: Steps
    trust: TrustFigure

    @classmethod
    def of(cls, side: TrustRun) -> _Played:
        samples = _by_episode(side.samples)
        steps = Steps.of([to_step(sample.result) for episode in samples.values() for sample in episode])
        return cls(samples, steps, estimate(steps))

    @property
    def reached(self) -> Array:
        return np.array([float(any(one.result.reached for one in steps)) for steps in self.samples.values()])

    @property
    def bits(self) -> Array:
        """The three entropies of each step; NaN where one of them is missing."""
        return np.where(self.steps.complete[:, None], self.steps.entropies, np.nan)

    @property
    def gains(self) -> Array:
        """What grounding, and what grounding and instruction, took off."""
        return self.bits[:, :1] - self.bits[:, 1:]

    def column(self, values: Array, below: Array | None = None) -> _Column:
        """Of the steps that have a value; without `below` each counts one."""
        known = ~np.isnan(values)
        under = np.ones(len(values)) if below is None else below
        return _Column(values[known], under[known], self.steps.episode[known])


def _about(side: TrustRun, played: _Played) -> TrustSide:
    steps, trust, reached = played.steps, played.trust, played.reached
    complete = steps.entropies[steps.complete]
    means: list[float | None] = complete.mean(axis=0).tolist() if len(complete) else [None, None, None]
    return TrustSide(
        run=str(side.run.path),
        model=side.model,
        evidence=side.options.get("evidence"),
        view=side.options.get("view"),
        coverage=side.summary.coverage,
        mean_entropy_bits=dict(zip(ENTROPIES, means, strict=True)),
        delta_h_s_bits=trust.delta_h_s_bits.value,
        delta_h_ls_bits=trust.delta_h_ls_bits.value,
        trust=trust,
        on_shortest_path=_mean(steps.on_shortest_path),
        confidence=_mean(steps.confidence),
        episodes_reached=Reached(int(reached.sum()), len(reached)),
        notes=side.summary.notes,
    )


def _mean(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


class _Column(NamedTuple):
    """What the steps of a run have of something, above and below a line, and the place of each one's episode."""

    above: Array
    below: Array
    episode: Codes

    def within(self, episodes: Codes) -> _Column:
        rows = np.isin(self.episode, episodes)
        return _Column(self.above[rows], self.below[rows], self.episode[rows])

    @property
    def value(self) -> float:
        return float(self.above.sum() / self.below.sum())


def _paired(a: _Column, b: _Column, unit: Codes, *, is_share: bool = False) -> PairedFigure | None:
    """Over the episodes that have such steps in both; None where there are none."""
    episodes = np.intersect1d(a.episode, b.episode)
    if not len(episodes):
        return None
    a, b = a.within(episodes), b.within(episodes)
    of_a, of_b = unit[a.episode], unit[b.episode]
    if is_share:
        difference = difference_of_shares(Happened(a.above, of_a), Happened(b.above, of_b), level=LEVEL)
    else:
        difference = difference_of_ratios(Ratio(a.above, a.below, of_a), Ratio(b.above, b.below, of_b), level=LEVEL)
    return _figure(a.value, b.value, difference, unit[episodes])


def _figure(a: float, b: float, difference: PairedDifference | None, units: Codes) -> PairedFigure | None:
    if difference is None:
        return None
    independent = len(np.unique(units))
    why = too_few(independent, "episodes" if independent == len(units) else "independent episodes")
    interval = difference.interval
    return PairedFigure(
        mean_a=a,
        mean_b=b,
        mean_difference=difference.mean_difference,
        **ends(interval),
        items=len(units),
        note=None if interval is not None else why or "no interval: all changed alike",
    )


def _difference(a: _Played, b: _Played, unit: Codes) -> TrustDifference:
    def paired(of: Callable[[_Played], _Column], *, is_share: bool = False) -> PairedFigure | None:
        return _paired(of(a), of(b), unit, is_share=is_share)

    sides = (("A", a.trust), ("B", b.trust))
    why = [f"not identified in {name}: {trust.reason}" for name, trust in sides if not trust.identified]
    flips = list(_flips(a, b))
    reached_a, reached_b = a.reached, b.reached
    reached = paired_shares(reached_a, reached_b, clusters=unit, level=LEVEL)
    return TrustDifference(
        episode_count=len(unit),
        unit_count=len(np.unique(unit)),
        mean_entropy_bits={
            name: paired(lambda one, i=i: one.column(one.bits[:, i]))  # type: ignore[misc]
            for i, name in enumerate(ENTROPIES)
        },
        delta_h_s_bits=paired(lambda one: one.column(one.gains[:, 0])),
        delta_h_ls_bits=paired(lambda one: one.column(one.gains[:, 1])),
        trust=None if why else paired(lambda one: one.column(one.gains[:, 0], one.gains[:, 1])),
        trust_missing="; ".join(why) or None,
        on_shortest_path=paired(lambda one: one.column(one.steps.on_shortest_path), is_share=True),
        confidence=paired(lambda one: one.column(one.steps.confidence)),
        reached=_figure(float(reached_a.mean()), float(reached_b.mean()), reached, unit),
        mcnemar=McNemar(**asdict(mcnemar_exact(reached_a, reached_b))),
        parted_count=sum(one.parted_at is not None for one in flips),
        flips=Flips(
            reached_in_a=[one for one in flips if one.reached_a and not one.reached_b],
            reached_in_b=[one for one in flips if one.reached_b and not one.reached_a],
            on_path_in_a=[one for one in flips if one.on_shortest_path_a and one.on_shortest_path_b is False],
            on_path_in_b=[one for one in flips if one.on_shortest_path_b and one.on_shortest_path_a is False],
        ),
    )


def _units(a: Steps, b: Steps) -> Codes:
    """For each episode a number, the same for those that hang together in either run, directly or through others."""
    count = len(a.episodes)
    unit = np.arange(count)
    groups = [steps.unit[np.searchsorted(steps.episode, np.arange(count))] for steps in (a, b)]
    while True:
        before = unit
        for group in groups:
            lowest = np.full(count, count)
            np.minimum.at(lowest, group, unit)
            unit = lowest[group]
        if (unit == before).all():
            return unit


# -- where they part --------------------------------------------------------------------------------------------------


def _flips(a: _Played, b: _Played) -> Iterator[EpisodeFlip]:
    """Every episode with the first step at which the two act differently, as long as both met the same until there."""
    ends_of = zip(a.reached.tolist(), b.reached.tolist(), strict=True)
    for (episode, steps), (reached_a, reached_b) in zip(a.samples.items(), ends_of, strict=True):
        others = b.samples[episode]
        pairs = list(zip(steps, others, strict=False))
        at = next((i for i, (x, y) in enumerate(pairs) if x.result.action != y.result.action), None)
        x, y = pairs[-1 if at is None else at]
        alike = at is not None and _state(x.result) == _state(y.result)
        yield EpisodeFlip(
            id=f"episode {episode}",
            episode=episode,
            reached_a=bool(reached_a),
            reached_b=bool(reached_b),
            steps_a=len(steps),
            steps_b=len(others),
            parted_at=x.result.step if alike else None,
            agent_x=x.result.agent_x,
            agent_y=x.result.agent_y,
            action_a=x.result.action,
            action_b=y.result.action,
            best_actions=x.result.best_actions,
            on_shortest_path_a=x.result.on_shortest_path if alike else None,
            on_shortest_path_b=y.result.on_shortest_path if alike else None,
            sample_a=x.id,
            sample_b=y.id,
        )


# -- notes ------------------------------------------------------------------------------------------------------------


def _notes(sides: Sequence[TrustRun], played: Sequence[_Played], difference: TrustDifference) -> Iterator[str]:
    a, b = sides
    yield from notes_on_models(a, b)
    for option, words in _ASKED_BY.items():
        one, other = a.options.get(option), b.options.get(option)
        if one != other:
            also = "; entropies of two kinds of evidence are of different things" if option == "evidence" else ""
            yield f"A was {words} {one}, B {other}{also}"
    count, units = difference.episode_count, difference.unit_count
    yield (
        "episodes are paired, and steps are not: the two act differently, and after that they stand in different places"
    )
    lacking = [len(one.steps) - int(one.steps.complete.sum()) for one in played]
    if any(lacking):
        of = [f"{n} of {len(one.steps)} steps in {name}" for n, one, name in zip(lacking, played, "AB", strict=True)]
        yield f"{' and '.join(of)} lack an entropy, and are left out of the entropies and T"
    paired = difference.delta_h_s_bits
    if (there := 0 if paired is None else paired.items) < count:
        yield f"{count - there} of {count} episodes have no complete step in one of the runs, and are left out there"
    if difference.trust_missing:
        yield f"there is no difference of T: {difference.trust_missing}"
    if units < count:
        yield f"these {count} episodes are {units} independent ones: others are copies, or go on from one of them"
    if (few := too_few(units, "episodes" if units == count else "independent episodes")) is not None:
        yield few
