"""Two runs of trust over the same episodes: how sure each was, T, the actions, and where they part."""

from __future__ import annotations

import htpy as h

from howsure.report.comparison import Flips, Row, differences, figure_rows, flips, mcnemar_in_words, what_changed
from howsure.report.document import Block, Cell, Facts, Head, Html, Section, Value
from howsure.report.html import blocks
from howsure.report.rows import key_of
from howsure.report.run_data import StoredRun
from howsure.report.text import counted
from howsure.report.trust_steps import GIVEN, frame, spread
from howsure.studies.trust.comparison import EpisodeFlip, TrustComparison
from howsure.studies.trust.judge import Reached
from howsure.studies.trust.ratio import TrustFigure

PAIRED = (
    "B − A is taken episode by episode, over the steps that each run took in it. An interval that holds 0 says that "
    "there may be no difference at all."
)
PARTED = (
    "Both take the same way until their actions differ for the first time; what is said of the step is of that one. "
    "Later steps are not compared one by one, since the two stand in different places."
)


def compared(comparison: TrustComparison, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
    difference = comparison.difference
    turned, hang_together = difference.flips, difference.unit_count < difference.episode_count
    kinds = ("reached the goal in B alone", "in A alone")
    test = difference.mcnemar
    reached = mcnemar_in_words(test, difference.reached, "episode", hang_together=hang_together, kinds=kinds)
    if not test.only_a_correct + test.only_b_correct:
        reached = "No episode reached the goal in one run alone."
    parted = f"The two act differently in {difference.parted_count:,} of {difference.episode_count:,} episodes."
    return [
        what_changed(_rows(comparison), [reached, parted], PAIRED),
        differences(
            [
                ("T", "more told by knowledge alone", "", difference.trust),
                ("ΔH_S", "helped more by what is known", "bits", difference.delta_h_s_bits),
                ("ΔH_L,S", "helped more by everything that it is told", "bits", difference.delta_h_ls_bits),
                ("Actions on a shortest path", "right more often", "share", difference.on_shortest_path),
            ]
        ),
        flips(
            [
                Flips("reached the goal in A alone", "", False, turned.reached_in_a),
                Flips("reached the goal in B alone", "", True, turned.reached_in_b),
                Flips("they part: A on a shortest path, B off it", "", False, turned.on_path_in_a),
                Flips("they part: B on a shortest path, A off it", "", True, turned.on_path_in_b),
            ],
            [Head("part at step"), Head("A did"), Head("B did"), Head("best"), Head("steps in A, B")],
            _cells,
            lambda flip: _flip(flip, a, b),
            a,
            b,
            lambda flip: (flip.sample_a, flip.sample_b),
            PARTED,
        ),
    ]


def _rows(comparison: TrustComparison) -> list[Row]:
    a, b, difference = comparison.a, comparison.b, comparison.difference
    rows: list[Row] = []
    for given in GIVEN:
        first, second = (one.mean_entropy_bits[given.column] for one in (a, b))
        rows += figure_rows(given.entropy, "bits", first, second, difference.mean_entropy_bits[given.column])
    rows += figure_rows("ΔH_S", "bits", a.delta_h_s_bits, b.delta_h_s_bits, difference.delta_h_s_bits)
    rows += figure_rows("ΔH_L,S", "bits", a.delta_h_ls_bits, b.delta_h_ls_bits, difference.delta_h_ls_bits)
    if difference.trust is None:
        rows.append(("T", _trust(a.trust), _trust(b.trust), None))
    else:
        rows += figure_rows("T", "", a.trust.value, b.trust.value, difference.trust)
    right, sure, reached = difference.on_shortest_path, difference.confidence, difference.reached
    rows += figure_rows("on a shortest path", "share", a.on_shortest_path, b.on_shortest_path, right)
    rows += figure_rows("mean confidence", "share", a.confidence, b.confidence, sure)
    more = None if reached is None else Value.at(reached, "mean_difference", "share", is_difference=True)
    rows.append(("reached the goal", _of(a.episodes_reached), _of(b.episodes_reached), more))
    steps = [f"{one.coverage.scored:,} of {one.coverage.items:,}" for one in (a, b)]
    return [*rows, ("complete steps", steps[0], steps[1], None)]


def _of(reached: Reached) -> str:
    return f"{reached.count:,} of {counted(reached.of, 'episode')}"


def _trust(trust: TrustFigure) -> Cell:
    return Value.at(trust) if trust.identified else "not identified"


def _cells(flip: EpisodeFlip) -> list[Cell]:
    best = None if flip.best_actions is None else ", ".join(flip.best_actions)
    return [flip.parted_at, flip.action_a, flip.action_b, best, f"{flip.steps_a:,}, {flip.steps_b:,}"]


def _flip(flip: EpisodeFlip, a: StoredRun | None, b: StoredRun | None) -> list[Block]:
    """What both saw where they part, and how likely each found its actions there."""
    at, did, did_b, best, steps = _cells(flip)
    told = Facts([("part at step", at), ("A did", did), ("B did", did_b), ("best", best), ("steps in A, B", steps)])
    shown: list[Block] = [told]
    seen = None
    for name, run, sample in (("A", a, flip.sample_a), ("B", b, flip.sample_b)):
        place = None if run is None else run.table.row_of(key_of(sample))
        if run is None or place is None or flip.parted_at is None:
            continue
        step = run.sample(place).result
        seen = frame(sample, "The world where the two part.", run) if seen is None else seen
        shown += [spread(step, only=GIVEN[-1:], head=f"in {name}")]
    return [Html(h.div(class_="beside small")[seen, h.div[blocks(shown)]])] if seen is not None else shown
