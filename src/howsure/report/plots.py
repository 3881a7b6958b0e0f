"""Plots for people, as SVG or PNG: how a text's bits settle, how block entropies fall, what stepping in saves.

matplotlib comes with the extra `stats` and is loaded only here, without pyplot: nothing is shown, nothing is shared.
The same figures give the same file, byte for byte.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howsure.errors import InputError, MissingExtra
from howsure.isolated import load_matplotlib
from howsure.measures import BlockEntropy, nats_to_bits
from howsure.report.text import shortened
from howsure.runs.files import write_atomic
from howsure.studies.entropy import TextEntropy
from howsure.studies.theorem import BAND, Theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from howsure.studies.trajectories.judge import Group

SUFFIXES = (".svg", ".png")
SIZE_INCHES = (7.0, 4.3)
LABEL_CHARACTERS = 60
STYLES = (("#1b1b1b", "-"), ("#d55e00", "--"), ("#0072b2", "-."), ("#009e73", ":"), ("#cc79a7", "--"))
"""Colours that colour-blind readers can tell apart (Okabe and Ito 2008), and lines that differ in grey print too."""

_SETTINGS: Any = {
    "text.usetex": False,  # else the settings of whoever runs this start latex
    "svg.fonttype": "none",  # text stays text, so that it can be read aloud and searched
    "svg.hashsalt": "howsure",  # else the ids within the file are drawn by chance
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


def check_plot(path: Path) -> None:
    """Whether a plot can go there at all, before any work is done for it."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path} must end in {' or '.join(SUFFIXES)}: these are the kinds of plot there are")
    if not path.parent.is_dir():
        raise InputError(f"--plot {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"--plot {path} is a folder; name a file in it")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("a plot", "stats", "matplotlib")


def plot_theorem(found: Theorem, path: Path) -> None:
    """Bits per word against the length of the text: one path, the band of all of them, and each model's limit."""
    with _axes(path) as axes:
        for curve, (colour, line) in zip(found.curves, _styles(len(found.curves)), strict=True):
            axes.fill_between(found.lengths, curve.low_bits, curve.high_bits, color=colour, alpha=0.15, linewidth=0)
            label = f"{curve.name}: limit {curve.limit_bits:.3f} bits"
            axes.plot(found.lengths, curve.path_bits, color=colour, linestyle=line, linewidth=1.6, label=label)
            axes.axhline(curve.limit_bits, color=colour, linewidth=0.7)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("n, words of the text")
        axes.set_ylabel("−(1/n) log₂ m(w₁ … wₙ), bits per word")
        low, high = (f"{share:.0%}" for share in BAND)
        axes.set_title(f"One path, the band of {found.paths} paths ({low} to {high}), and the limits", fontsize=10)
        axes.legend(loc="best", fontsize=9)
        _perplexity_axis(axes)


def plot_blocks(found: TextEntropy, path: Path) -> None:
    """H_n / n and h_n against n; hollow where blocks are too rare to trust."""
    with _axes(path) as axes:
        from matplotlib.ticker import MaxNLocator

        rows = found.blocks
        _points(axes, rows, [row.per_symbol_nats for row in rows], "Hₙ / n, a block's entropy per symbol", *STYLES[1])
        _points(axes, rows, [row.conditional_nats for row in rows], "hₙ, given the n − 1 before", *STYLES[2])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("n, symbols in a block")
        axes.set_ylabel(f"bits per {found.symbols.removesuffix('s')}")
        axes.set_title(f"{found.symbol_count:,} {found.symbols}; hollow: too few of each block", fontsize=10)
        axes.legend(fontsize=9)


def plot_interventions(groups: Sequence[Group], path: Path) -> None:
    """Failures avoided less those caused, against interventions: along all thresholds, at the alarms, at random."""
    replayed = [(group.name, group.interventions) for group in groups if group.interventions is not None]
    shown = [(name, one) for name, one in replayed if any(one.curves.values())]
    curves = [(group, one, name, curve) for group, one in shown for name, curve in one.curves.items()]
    if not curves:
        raise InputError(f"--plot {path}: there are no interventions to draw, since no run could be judged")
    spoils = any(policy.spoil > 0 for _, one in shown for policy in one.policies)
    with _axes(path) as axes:
        for (group, one, name, curve), (colour, line) in zip(curves, _styles(len(curves)), strict=True):
            spent = [0, *(point.interventions for point in curve)]
            avoided = [0.0, *(point.net_avoided for point in curve)]
            by_chance = [0.0, *(point.random_net_avoided for point in curve)]
            label = _words(f"{group}: {name}" if len(shown) > 1 else name)
            axes.step(spent, avoided, where="post", color=colour, linestyle=line, linewidth=1.6, label=label)
            axes.plot(spent, by_chance, color=colour, linewidth=0.7)
            for row in (row for row in one.table if (row.policy, row.when) == (name, "alarm")):
                axes.scatter(row.interventions, row.net_avoided, s=36, color=colour, zorder=3)
        axes.set_xlabel("interventions (thin: as many at random; dot: at the fitted thresholds)")
        axes.set_ylabel("net failures avoided, expected" if spoils else "failures avoided, expected")
        if not spoils:
            axes.set_ylim(bottom=0)
        axes.legend(loc="best", fontsize=9)


def _words(label: str) -> str:
    """A name from outside, in which matplotlib finds no formula, no order to hide it, and nothing that SVG refuses."""
    text = shortened(label, LABEL_CHARACTERS).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _perplexity_axis(axes: Axes) -> None:
    """The same heights as perplexities, 2 to the power of the bits."""
    import numpy as np

    right = axes.secondary_yaxis("right", functions=(np.exp2, lambda value: np.log2(np.maximum(value, 1e-9))))
    right.set_ylabel("perplexity")


def _points(axes: Axes, rows: tuple[BlockEntropy, ...], nats: list[float], label: str, colour: str, line: str) -> None:
    bits = nats_to_bits(nats)
    lengths = [row.n for row in rows]
    axes.plot(lengths, bits, color=colour, linestyle=line, linewidth=1.2, label=label)
    faces = [colour if row.supported else "white" for row in rows]
    axes.scatter(lengths, bits, s=36, c=faces, edgecolors=colour, linewidths=1.4, zorder=3)


def _styles(count: int) -> list[tuple[str, str]]:
    return [STYLES[place % len(STYLES)] for place in range(count)]


@contextmanager
def _axes(path: Path) -> Iterator[Axes]:
    """Empty axes to draw on; what was drawn is written when the block ends."""
    check_plot(path)
    load_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.add_subplot()
        kind = path.suffix.lower().removeprefix(".")
        metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        content = io.BytesIO()
        figure.savefig(content, format=kind, dpi=150, metadata=metadata)
        write_atomic(path, content.getvalue())
