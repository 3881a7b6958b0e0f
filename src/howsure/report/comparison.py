"""Two runs as one document: what changed from A to B, paired where the study can pair them, side by side where not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from howsure.errors import HowsureError
from howsure.report.charts import Axis, Named, dots
from howsure.report.document import Block, Card, Cards, Cell, Document, Head, Plot, Prose, Section, Side, Table, Value
from howsure.report.rows import key_of
from howsure.report.run_data import StoredRun
from howsure.report.text import counted, interval_text
from howsure.report.views import guarded, view_of
from howsure.studies.comparing import Comparison, McNemar, OutcomeComparison, PairedFigure, compare
from howsure.studies.summary import Figure
from howsure.types import Fields

Row: TypeAlias = tuple[str, Cell, Cell, Cell]
"""What is compared: its name, A, B, and B − A."""
FlipT = TypeVar("FlipT")

PAIRED = (
    "B − A is taken sample by sample, over what both runs have, which sees far smaller differences than two figures "
    "beside each other. An interval that holds 0 says that there may be no difference at all."
)


def document_of(found: Comparison, a: StoredRun | None = None, b: StoredRun | None = None) -> Document:
    """What changed. With the runs at hand their samples are shown as well."""
    title = f"{found.study}: two runs compared"
    sections = [_who(found, a, b), *view_of(found.study).compared(found, a, b)]
    return Document(title, notes=found.get("notes") or [], sections=sections)


def _who(found: Comparison, a: StoredRun | None, b: StoredRun | None) -> Section:
    """Which run is A, and which is B. A page may be passed on, and the places of folders are nobody's business."""
    if a is None or b is None:
        rows = [(name, found["a"].get(name), found["b"].get(name)) for name in ("model", "run")]
        known = [row for row in rows if any(row[1:])]  # logs are read without a model
        return Section("A and B", [Table(["", "A", "B"], known)])
    return Section("A and B", [Table(["", "A", "B"], _about(a, b))])


def _about(a: StoredRun, b: StoredRun) -> list[tuple[Cell, ...]]:
    def about(one: StoredRun) -> list[Cell]:
        manifest = one.run.manifest
        return [manifest.identity.model.get("name"), manifest.source, one.folder.absolute().name, one.run.status]

    return list(zip(("model", "data", "run", "status"), about(a), about(b), strict=True))


# -- two run folders on a page ----------------------------------------------------------------------------------------


def compared(a: StoredRun, b: StoredRun, by: Callable[..., Any] = compare) -> Comparison | str:
    """The comparison, which takes a while of large runs, or the sentence that says why there is none."""

    def asked() -> Comparison | str:
        try:
            found: Comparison = by(a.run, b.run)
            return found
        except HowsureError as error:
            return str(error)

    found = guarded(asked, lambda why: f"their files do not hold what is needed ({why})")
    return f"These runs cannot be paired: {_without_paths(found, a, b)}." if isinstance(found, str) else found


def laid_out(found: Comparison | str, a: StoredRun, b: StoredRun) -> Document:
    """What was found; runs that cannot be paired say why, and stand side by side."""
    if isinstance(found, str):
        return _unpaired(found, a, b)
    why = "The files of these runs do not hold what is needed"
    return guarded(
        lambda: document_of(found, a, b),
        lambda problem: _unpaired(f"{why}: {_without_paths(problem, a, b)}", a, b),
    )


def _without_paths(why: str, a: StoredRun, b: StoredRun) -> str:
    named = sorted({str(a.run.path): "A", str(b.run.path): "B"}.items(), key=lambda pair: -len(pair[0]))
    for path, name in named:
        why = why.replace(path, name)
    return why


def _unpaired(why: str, a: StoredRun, b: StoredRun) -> Document:
    figures = [{one.name: one for one in (run.summary.headline if run.summary else [])} for run in (a, b)]
    names = list(dict.fromkeys([*figures[0], *figures[1]]))
    rows = [(name, *(_value(side.get(name)) for side in figures)) for name in names]
    both = [(name, figures[0][name], figures[1][name]) for name in names if name in figures[0] and name in figures[1]]
    plots = [_two(*one) for one in both if one[1].value is not None and one[2].value is not None]
    alone: list[Block] = [Table(["", "A", "B"], rows)] if rows else [Prose("Neither run has figures yet.", "quiet")]
    beside = Section(
        "Side by side",
        [Prose(why, "warning"), *alone, *plots],
        "Each figure with its own 95 % interval. The samples of the two runs were not paired, so that intervals which "
        "overlap say little about whether the runs differ.",
    )
    about = Section("A and B", [Table(["", "A", "B"], [("study", a.study, b.study), *_about(a, b)])])
    return Document("Two runs side by side", sections=[about, beside])


def _value(figure: Figure | None) -> Value | None:
    return None if figure is None else Value.at(figure)


def _two(name: str, a: Figure, b: Figure) -> Plot:
    label = name if a.unit in ("share", "") else f"{name}, {a.unit}"
    rows = [Named(side, Value.at(one)) for side, one in (("A", a), ("B", b))]
    return dots(name, "The dot is the figure.", Axis(label, percent=a.unit == "share"), rows)


# -- what studies put together ----------------------------------------------------------------------------------------


def what_changed(rows: Sequence[Row], sentences: Sequence[str], lead: str = PAIRED) -> Section:
    heads = ["", "A", "B", "B − A (95 % interval, paired)"]
    return Section("What changed", [Table(heads, rows), *(Prose(one) for one in sentences if one)], lead)


def figure_rows(
    name: str, unit: str, a: float | None, b: float | None, paired: PairedFigure | None, decimals: int | None = None
) -> list[Row]:
    """A figure of both runs; where something is missing in one, a second row holds what both have, and the interval."""
    alone = Value(None if a is None or b is None else b - a, unit, is_difference=True)
    row = (name, Value(a, unit, decimals=decimals), Value(b, unit, decimals=decimals), alone)
    if paired is None:
        return [row]
    change = Value.at(paired, "mean_difference", unit, is_difference=True)
    if alone.value is not None and math.isclose(alone.value, paired.mean_difference, abs_tol=1e-9):
        return [(*row[:3], change)]
    first, second = (Value(mean, unit, decimals=decimals) for mean in (paired.mean_a, paired.mean_b))
    return [row, (f"  of {paired.items} in both", first, second, change)]


def differences(changes: Sequence[tuple[str, str, str, Fields | None]]) -> Section:
    """Differences with their intervals about an upright line at 0: title, what B is more of to the right, unit, and
    the paired figure."""
    plots = []
    for title, more, unit, paired in changes:
        if paired is None:
            continue
        value = Value.at(paired, "mean_difference", unit, is_difference=True)
        axis = Axis("B − A", percent=True) if unit == "share" else Axis(f"B − A, {unit}".removesuffix(", "))
        plots.append(around_zero(title, f"The dot is B − A; right of “no change” B is {more}.", axis, [(title, value)]))
    return Section("How sure the difference is", [one for one in plots if one is not None])


def around_zero(
    title: str, caption: str, axis: Axis, changes: Sequence[tuple[str, Value]], over: str = ""
) -> Plot | None:
    """Differences with their intervals about an upright line at 0; nothing where there are none."""
    rows = [Named(name, one, str(one).partition(" (")[0]) for name, one in changes if one.value is not None]
    return dots(title, caption, axis, rows, level=(0.0, "no change"), over=over) if rows else None


def mcnemar_in_words(
    test: McNemar,
    paired: Fields | None,
    noun: str,
    *,
    hang_together: bool,
    kinds: tuple[str, str] = ("turned right", "turned wrong"),
) -> str:
    """McNemar's exact test, and what it means beside the interval of the difference; what hangs together, such as the
    samples of one screen, is not as many items."""
    lost, won = test.only_a_correct, test.only_b_correct
    if not lost + won or test.p_value is None:
        return f"No {noun} flipped."
    p = test.p_value
    told = f"{counted(won, noun)} {kinds[0]} and {lost:,} {kinds[1]}; McNemar's exact p = "
    told += f"{p:.1e}" if p < 0.001 else f"{p:.3f}"
    if p < 0.05:
        independent = f", were all {noun}s independent" if hang_together else ""
        return f"{told}: more than chance explains, at the 5 % level{independent}."
    low, high = (None, None) if paired is None else (paired.get("low"), paired.get("high"))
    if low is None or high is None or low <= 0 <= high:
        return f"{told}: chance alone could do this."
    return f"{told}: at the edge, since the interval leaves out 0 and this test, cautious where few flipped, does not."


class Flips(NamedTuple, Generic[FlipT]):
    """The samples that flipped one way."""

    title: str
    lead: str
    right: bool
    flips: Sequence[FlipT]


def flips(
    sides: Sequence[Flips[Any]],
    headers: Sequence[str | Head],
    cells: Callable[[Any], Sequence[Cell]],
    body: Callable[[Any], Sequence[Block]],
    a: StoredRun | None,
    b: StoredRun | None,
    samples: Callable[[Any], tuple[str, str]] = lambda flip: (flip.id, flip.id),
    lead: str = "Samples that one run got right and the other wrong, those first that moved farthest.",
) -> Section:
    """What flipped, one way on the left and the other on the right; those that moved farthest come first. `samples` are
    the ids of those in A and in B that show it."""

    def card(flip: Any, right: bool) -> Card:
        named = zip("AB", (a, b), map(key_of, samples(flip)), strict=True)
        links = {f"in {name}": run.links.sample(key) for name, run, key in named if run is not None}
        known = {name: link for name, link in links.items() if link}
        return Card(flip.id, "won" if right else "lost", right, lambda: body(flip), cells(flip), known)

    shown = [
        Side(
            f"{one.title}: {len(one.flips):,}",
            one.lead,
            [card(flip, one.right) for flip in one.flips],
            headers,
            f"`howsure compare --flips {len(one.flips)}` lists all",
        )
        for one in sides
    ]
    return Section("What flipped", [Cards(shown, "Nothing flipped.")], lead, "flips")


def outcomes(found: OutcomeComparison) -> list[Section]:
    """Of a study that says nothing of its own: the figures, and how often each run is right."""
    rows: list[Row] = [
        (one.name, Value.at(one), Value.at(other), None)
        for one, other in zip(found.a.headline, found.b.headline, strict=False)
    ]
    difference = found.difference
    right = Value.at(difference, "mean_difference", "share", is_difference=True)
    paired = [Value(mean, "share") for mean in (difference.mean_a, difference.mean_b)]
    rows.append((f"right, of {difference.paired_count:,} in both", paired[0], paired[1], right))
    rows.append(("coverage", found.a.coverage.text, found.b.coverage.text, None))
    told = difference.note if difference.note and not interval_text(difference) else ""
    return [what_changed(rows, [told]), differences([("Right", "right more often", "share", difference)])]
