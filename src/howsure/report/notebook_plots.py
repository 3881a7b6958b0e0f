"""The theorem and the block entropies of a text, as a notebook shows them."""

from __future__ import annotations

from htpy import Element

from howsure.measures import nats_to_bits
from howsure.report.charts import Axis, Chart
from howsure.studies.entropy import TextEntropy
from howsure.studies.theorem import Theorem


def theorem_plot(found: Theorem) -> Element:
    """Bits per word against the length of the text: one path, the band of many, and where each must end."""
    ticks = [(float(n), f"{n:,}") for n in found.lengths[::4]]
    chart = Chart(
        "The bits of one long text settle", Axis("words of the text", log=True, ticks=ticks), Axis("bits per word")
    )
    xs = [float(n) for n in found.lengths]
    for place, curve in enumerate(found.curves):
        chart.band(xs, curve.low_bits, curve.high_bits, place)
        chart.line(xs, curve.path_bits, f"{curve.name}: nears {curve.limit_bits:.3f} bits", place)
    caption = (
        f"Lines are one text under each model, bands eight in ten of {found.paths:,} texts. The true model nears the "
        f"entropy rate of the language, {found.entropy_rate_bits:.3f} bits; every other one stays above."
    )
    rows = [
        (curve.name, n, bits) for curve in found.curves for n, bits in zip(found.lengths, curve.path_bits, strict=True)
    ]
    return chart.figure(caption, ["model", "words", "bits per word"], rows)


def block_plot(found: TextEntropy) -> Element:
    """H_n / n and h_n against n."""
    rows = [
        (row.n, nats_to_bits(row.per_symbol_nats), nats_to_bits(row.conditional_nats), row.supported)
        for row in found.blocks
    ]
    counts = [float(row[0]) for row in rows]
    chart = Chart(
        "How much is left to know after what came before?",
        Axis(f"{found.symbols} in a block", ticks=[(count, f"{count:g}") for count in counts]),
        Axis("bits per symbol", 0),
    )
    chart.line(counts, [row[1] for row in rows], "a block's entropy per symbol", 0)
    chart.line(counts, [row[2] for row in rows], "a symbol's entropy given those before", 1)
    enough = [row[0] for row in rows if row[3]]
    support = f"up to {enough[-1]}" if enough else "at no length"
    caption = f"Blocks are seen often enough to be trusted {support}; beyond, the estimates fall too low."
    return chart.figure(caption, ["n", "block entropy per symbol", "given those before", "seen often enough"], rows)
