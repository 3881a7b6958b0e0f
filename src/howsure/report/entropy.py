"""Entropies of numbers, of counts, of a text and its blocks; and the Shannon–McMillan–Breiman theorem."""

from __future__ import annotations

import math

from howsure.measures import nats_to_bits
from howsure.measures.entropy import OCCURRENCES_FOR_SUPPORT
from howsure.report.charts import Axis, Chart
from howsure.report.document import Block, Cell, Document, Facts, Head, Marked, Notes, Plot, Prose, Section, Table
from howsure.studies.entropy import (
    Against,
    CountsEntropy,
    DistributionEntropy,
    Estimates,
    TextCrossEntropy,
    TextEntropy,
    block_in_bits,
    perplexity_of,
)
from howsure.studies.theorem import BAND, Theorem

_ESTIMATORS = (
    ("plug-in", "plugin_bits", "of the shares seen"),
    ("Miller–Madow", "miller_madow_bits", "plug-in + (K − 1) / 2N"),
    ("Grassberger", "grassberger_bits", "made for few counts"),
)


# -- numbers and counts -----------------------------------------------------------------------------------------------


def document(found: DistributionEntropy | CountsEntropy | TextEntropy, quiet: bool = False) -> Document:
    """What was measured, whatever it was measured on; `quiet` leaves the explanations out."""
    if isinstance(found, DistributionEntropy):
        facts = Facts([("entropy H(p)", _bits(found.entropy_bits)), ("perplexity", _number(found.perplexity))])
        blocks: list[Block] = [facts, *_against(found.against)]
    elif isinstance(found, CountsEntropy):
        counted = Facts([("counted", f"{found.total_count:,}, of {found.distinct_count:,} kinds")])
        blocks = [counted, _estimates(found.estimates, quiet), *_against(found.against)]
        if found.against is not None and not quiet and not found.against.ruled_out:
            blocks.append(_too_high(found.estimates))
    else:
        blocks = _text(found, quiet)
    return Document("entropy", sections=[Section("", blocks)])


def _too_high(estimates: Estimates) -> Notes:
    surplus = _bits(estimates.miller_madow_bits - estimates.plugin_bits)
    return Notes(
        [
            "p are the shares of these very counts, which makes KL(p ‖ m) too high: by about "
            f"{surplus} on average (Miller–Madow)"
        ]
    )


def _against(against: Against | None) -> list[Block]:
    if against is None:
        return []
    facts = Facts(
        [
            ("cross-entropy H(p, m)", _bits(against.cross_entropy_bits)),
            ("perplexity under m", _number(against.perplexity)),
            ("KL(p ‖ m)", _bits(against.kl_bits)),
            ("|H(p, m) − H(p)|", _bits(against.distance_bits)),
        ]
    )
    if not against.ruled_out:
        return [facts]
    places = ", ".join(str(place) for place in against.ruled_out)
    return [facts, Notes([f"m gives probability 0 to what does happen, at position {places}"])]


def _estimates(estimates: Estimates, quiet: bool) -> Table:
    rows = []
    for name, field, remark in _ESTIMATORS:
        bits = getattr(estimates, field)
        rows.append((name, _bits(bits), _number(perplexity_of(bits)), "" if quiet else remark))
    return Table(["entropy of one, by", "", "perplexity", ""], rows)


# -- texts ------------------------------------------------------------------------------------------------------------


def _text(found: TextEntropy, quiet: bool) -> list[Block]:
    ceiling = nats_to_bits(found.blocks[0].ceiling_nats)
    facts = Facts(
        [
            ("text", ", ".join(found.sources)),
            (found.symbols, f"{found.symbol_count:,}, {found.distinct_count:,} of them distinct"),
            ("entropy rate", _rate(found)),
            ("ceiling", f"{ceiling:.3f} bits, log₂ of their number: no plug-in estimate can pass it"),
        ]
    )
    blocks: list[Block] = [facts, _estimates(found.estimates, quiet), block_plot(found), _blocks(found)]
    if not quiet and not all(row.supported for row in found.blocks):
        blocks.append(Prose(f"? fewer than {OCCURRENCES_FOR_SUPPORT:g} of each distinct block: too few to go by"))
    return [*blocks, *_model(found.against, found.symbols.removesuffix("s"))]


def _rate(found: TextEntropy) -> str:
    row, bits = found.rate_row, found.entropy_rate_bits
    if row is None or bits is None:
        return f"— ({found.entropy_rate_missing})"
    unit = found.symbols.removesuffix("s")
    return f"about {bits:.3f} bits per {unit}, perplexity {perplexity_of(bits):.2f}, by n = {row.n}"


def _blocks(found: TextEntropy) -> Table:
    names = ("n", "blocks", "distinct", "each", "plug-in", "Mil.–M.", "Grassberger", "Hₙ/n", "hₙ")
    rows: list[list[Cell]] = []
    for row in map(block_in_bits, found.blocks):
        each = f"{row['occurrences']:.1f}" if row["occurrences"] < 1000 else f"{row['occurrences']:,.0f}"
        cells = [f"{row['n']}", f"{row['blocks']:,}", f"{row['distinct']:,}", each if row["supported"] else f"{each}?"]
        fields = ("plugin", "miller_madow", "grassberger", "per_symbol", "conditional")
        cells += [f"{row[f'{name}_bits']:.3f}" for name in fields]
        rows.append([cell if row["supported"] else Marked(cell, "quiet") for cell in cells])
    return Table([Head(name, numeric=True) for name in names], rows)


def _model(against: TextCrossEntropy | None, unit: str) -> list[Block]:
    if against is None:
        return []
    above = against.above_entropy_rate_bits
    facts = Facts(
        [
            ("model", against.model),
            ("cross-entropy H(p, m)", f"{_bits(against.cross_entropy_bits)} per {unit}"),
            ("perplexity under m", _number(against.perplexity)),
            ("|H(p, m) − H(p)|", _distance(against.above_entropy_bits, f"the entropy of one {unit}")),
            ("", _distance(above, "the estimate of the entropy rate")),
            ("counted", against.counted),
        ]
    )
    if above is None or above >= 0:
        return [facts]
    return [
        facts,
        Notes(
            [
                "the model needs fewer bits than the blocks of this text suggest: it sees more of what comes before. "
                "On a long text that is new to it, no model goes below the true entropy rate; one that was trained on "
                "this text, or does not know some of its words, may."
            ]
        ),
    ]


def block_plot(found: TextEntropy) -> Plot:
    """H_n / n and h_n against n."""
    rows = [
        (row.n, nats_to_bits(row.per_symbol_nats), nats_to_bits(row.conditional_nats), row.supported)
        for row in found.blocks
    ]
    counts = [float(row[0]) for row in rows]
    ticks = [(count, f"{count:g}") for count in counts]
    title = "How much is left to know after what came before?"
    chart = Chart(title, Axis(f"{found.symbols} in a block", ticks=ticks), Axis("bits per symbol", 0))
    chart.line(counts, [row[1] for row in rows], "a block's entropy per symbol", 0)
    chart.line(counts, [row[2] for row in rows], "a symbol's entropy given those before", 1)
    enough = [row[0] for row in rows if row[3]]
    support = f"up to {enough[-1]}" if enough else "at no length"
    caption = f"Blocks are seen often enough to be trusted {support}; beyond, the estimates fall too low."
    return chart.figure(caption, ["n", "block entropy per symbol", "given those before", "seen often enough"], rows)


# -- the theorem ------------------------------------------------------------------------------------------------------


def theorem(found: Theorem, quiet: bool = False) -> Document:
    low, high = (f"{share:.0%}" for share in BAND)
    true = found.curves[0]
    names = ("n", f"true model, {low} to {high}", *(curve.name for curve in found.curves))
    rows: list[list[Cell]] = []
    for place, n in enumerate(found.lengths):
        band = f"{true.low_bits[place]:.3f}–{true.high_bits[place]:.3f}"
        rows.append([f"{n:,}", band, *(_with_perplexity(curve.path_bits[place]) for curve in found.curves)])
    limits = [Marked(_with_perplexity(curve.limit_bits), "strong") for curve in found.curves]
    rows.append([Marked("limit", "strong"), "", *limits])
    explained = [
        "−(1/n) log₂ m(w₁ … wₙ), bits per word of the first n words, and the perplexity.",
        f"{low} to {high}: on {found.paths} texts; all other columns are one of them.",
        "The limits are in closed form; the true model's is the source's entropy rate.",
    ]
    table = Table([Head(name, numeric=True) for name in names], rows, most=len(rows))
    told = [] if quiet else [Prose(line) for line in explained]
    return Document("theorem", sections=[Section("", [_paths(found), table, *told])])


def _paths(found: Theorem) -> Plot:
    """Bits per word against the length of the text: one path, the band of many, and where each must end."""
    ticks = [(float(n), f"{n:,}") for n in found.lengths[::4]]
    x = Axis("words of the text", log=True, ticks=ticks)
    chart = Chart("The bits of one long text settle", x, Axis("bits per word"))
    xs = [float(n) for n in found.lengths]
    for place, curve in enumerate(found.curves):
        chart.band(xs, curve.low_bits, curve.high_bits, place)
        chart.line(xs, curve.path_bits, f"{curve.name}: nears {curve.limit_bits:.3f} bits", place)
    rows = [
        (curve.name, n, bits) for curve in found.curves for n, bits in zip(found.lengths, curve.path_bits, strict=True)
    ]
    return chart.figure(
        f"Lines are one text under each model, bands eight in ten of {found.paths:,} texts. The true model nears the "
        f"entropy rate of the language, {found.entropy_rate_bits:.3f} bits; every other one stays above.",
        ["model", "words", "bits per word"],
        rows,
    )


def _with_perplexity(bits: float) -> str:
    return f"{bits:.3f} ({perplexity_of(bits):.2f})"


# -- numbers ----------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    """Six digits, and no zeros that say nothing: 2, 1.5, 0.918296. Infinity is a result: m rules out what happens."""
    return f"{value + 0.0:.6g}" if math.isfinite(value) else "infinite"


def _bits(bits: float) -> str:
    shown = _number(bits)
    return shown if shown == "infinite" else f"{shown} bit{'' if shown == '1' else 's'}"


def _distance(bits: float | None, what: str) -> str:
    """How far a cross-entropy lies from something, and on which side."""
    if bits is None:
        return f"— (there is no {what.removeprefix('the ')})"
    return f"{abs(bits):.3f} bits {'above' if bits >= 0 else 'below'} {what}"
