"""Two grounding runs: hits and distances paired over screens, whether each knows, for whom it changed, what flipped."""

from __future__ import annotations

from howsure.report.charts import Axis
from howsure.report.comparison import Flips, Row, around_zero, flips, mcnemar_in_words, what_changed
from howsure.report.document import Block, Facts, Head, Html, Quoted, Section, Table, Value
from howsure.report.grounding_screen import screen
from howsure.report.rows import key_of
from howsure.report.run_data import StoredRun
from howsure.studies.grounding.comparison import Change, Flip, GroundingComparison, GroundingDifference
from howsure.studies.grounding.judge import UNIT
from howsure.studies.grounding.words import named, thousandths

SHOWN_USERS, SHOWN_GROUPS = 30, 12
_CAPTION = "The dot is B − A; right of “no change” B"


def compared(found: GroundingComparison, a: StoredRun | None, b: StoredRun | None) -> list[Section]:
    difference, turned = found.difference, found.difference.flips
    cells, figures = difference.distances, _figures(difference, found.delta)
    hits = mcnemar_in_words(
        difference.mcnemar,
        difference.figures.hit_rate,
        "sample",
        hang_together=difference.image_count < difference.count,
        kinds=("became hits", "became misses"),
    )
    paired = f"L2 in thousandths of the screen, over the {cells.both:,} of {cells.of:,} samples that both clicked on."
    shares, distances = ([one for one in figures if (one[1] == UNIT) is far] for far in (False, True))
    plots = [
        around_zero("Hits", f"{_CAPTION} is right more often.", Axis("B − A", percent=True), _named(shares), "screens"),
        around_zero(
            "Distance",
            f"{_CAPTION} clicks farther away, which is worse.",
            Axis("B − A, thousandths of the screen"),
            _named(distances),
            "screens",
        ),
    ]
    return [
        what_changed(_rows(found, figures), [hits, paired if cells.both else "No sample has a distance in both runs."]),
        Section("How sure the difference is", [one for one in plots if one is not None]),
        *_knows(difference),
        *_splits(difference),
        flips(
            [
                Flips("hit in A, missed in B", "What B has lost, on B's screen.", False, turned.hit_to_miss),
                Flips("missed in A, hit in B", "What B has won, on A's screen.", True, turned.miss_to_hit),
            ],
            [*(Head(name, numeric=True) for name in ("moved", "L2 in A", "L2 in B")), Head("instruction", cut=True)],
            lambda flip: (_moved(flip), *_ends(flip), flip.instruction),
            lambda flip: _flip(flip, b if flip in turned.hit_to_miss else a, found.delta),
            a,
            b,
        ),
    ]


Named = tuple[str, str, Change]
"""A figure: its name, its unit, and what became of it."""


def _figures(difference: GroundingDifference, delta: float) -> list[Named]:
    """Those that the data can be judged by. The hit rate has a row only where it is not one of the others again."""
    known = difference.figures
    placed, regions, everything = (one.items for one in (known.accuracy, known.point_in_target, known.hit_rate))
    again = placed == everything and regions in (0, everything)
    return [
        *([("point in target", "share", known.point_in_target)] if regions else []),
        *([(f"accuracy within {delta:g}", "share", known.accuracy)] if placed else []),
        *([] if again else [("hit rate", "share", known.hit_rate)]),
        *([("refused rightly", "share", known.refused_rightly)] if placed < everything else []),
        ("mean L2", UNIT, known.mean_l2),
        ("median change of L2", UNIT, known.median_change_l2),
    ]


def _named(figures: list[Named]) -> list[tuple[str, Value]]:
    return [(name, _difference(change, unit)) for name, unit, change in figures]


def _difference(change: Change, unit: str) -> Value:
    return Value.at(change, "difference", unit, is_difference=True)


def _rows(found: GroundingComparison, figures: list[Named]) -> list[Row]:
    a, b = found.a, found.b

    def side(value: float | None, unit: str, change: Change) -> str | Value:
        if value is None and change.difference is not None:  # a figure that only the difference has
            return ""
        return Value(value, decimals=1) if unit == UNIT else Value(value, unit)

    scored = [f"{one.coverage.scored:,} of {one.coverage.items:,}" for one in (a, b)]
    counts = [("wrong format", a.wrong_format_count, b.wrong_format_count)]
    counts.append(("refused", a.refused_count, b.refused_count))
    return [
        *(
            (name, side(change.a, unit, change), side(change.b, unit, change), _difference(change, unit))
            for name, unit, change in figures
        ),
        *((name, in_a, in_b, f"{in_b - in_a:+,}") for name, in_a, in_b in counts if in_a or in_b),
        ("scored", scored[0], scored[1], ""),
    ]


def _knows(difference: GroundingDifference) -> list[Section]:
    rows = [
        (named(kind), Value.at(one.a), Value.at(one.b), f"{one.a.answers:,}, {one.b.answers:,}")
        for kind, one in difference.knows.items()
    ]
    lead = "AUROC: the chance that a hit is surer than a miss, over each run's own answers; 0.5 tells nothing."
    heads = ["AUROC (hit vs miss) by", "A (95 % interval)", "B (95 % interval)", "answers in A, B"]
    return [Section("Does it know, in both?", [Table(heads, rows)], lead)] if rows else []


def _splits(difference: GroundingDifference) -> list[Section]:
    """The change for each user, platform and so on: users in their order, of others the most frequent first."""
    plots, tables = [], []
    for kind, groups in difference.splits.items():
        ordered = groups if kind == "user" else sorted(groups, key=lambda one: -one.count)
        rows, changes = [], []
        for one in ordered:
            name = one.value if isinstance(one.value, str) else "(none)"
            hits, unread = one.figures.hit_rate, one.wrong_format.only_b - one.wrong_format.only_a
            changes.append((name, _difference(hits, "share")))
            sides = (Value(hits.a, "share"), Value(hits.b, "share"))
            farther = Value(one.mean_l2, UNIT, is_difference=True)
            rows.append((name, one.count, *sides, changes[-1][1], farther, f"{unread:+,}"))
        heads = [
            Head(kind, cut=True),
            Head("samples", numeric=True),
            Head("hit rate in A", numeric=True, short="A"),
            Head("in B", numeric=True, short="B"),
            Head("B − A (95 % interval)", short="hit rate, B − A"),
            Head("mean L2, B − A", numeric=True, short="L2"),
            Head("wrong format, B − A", numeric=True, short="unread"),
        ]
        tables.append(Table(heads, rows, more="in --json", most=SHOWN_USERS if kind == "user" else SHOWN_GROUPS))
        if len(rows) > 1:
            caption, axis = "The dot is B − A for these samples alone.", Axis("B − A", percent=True)
            plots.append(around_zero(f"Hit rate by {kind}", caption, axis, changes, "screens"))
    drawn = [one for one in plots if one is not None]
    lead = "The same difference, part by part; an interval takes 5 screens."
    return [Section("For whom it changed", [*drawn, *tables], lead)] if tables else []


def _flip(flip: Flip, missed: StoredRun | None, delta: float) -> list[Block]:
    """On the screen of the run that missed."""
    place = None if missed is None else missed.table.row_of(key_of(flip.id))
    drawn = [] if missed is None or place is None else [Html(screen(missed.sample(place), missed, delta))]
    in_a, in_b = _ends(flip)
    moved = None if flip.moved_l2 is None else f"{_moved(flip)} thousandths of the screen"
    facts = Facts([("distance in A", in_a), ("distance in B", in_b), ("moved", moved)])
    return [Quoted(flip.instruction), *drawn, facts]


def _moved(flip: Flip) -> str:
    return "—" if flip.moved_l2 is None else f"{'' if flip.moved_l2 < 0 else '+'}{thousandths(flip.moved_l2)}"


def _ends(flip: Flip) -> tuple[str, str]:
    """The distance in each run, or what there was instead."""
    in_a, in_b = ((flip.l2_a, flip.says_a), (flip.l2_b, flip.says_b))
    return (
        named(in_a[1]) if in_a[0] is None else thousandths(in_a[0]),
        named(in_b[1]) if in_b[0] is None else thousandths(in_b[0]),
    )
