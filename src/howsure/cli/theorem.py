"""`howsure theorem`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.options import Opt
from howsure.studies.options import TheoremOptions


@dataclass(frozen=True, kw_only=True)
class TheoremView(View):
    plot: Annotated[Path | None, Opt("Draw the curves into this .svg or .png file.", path="local")] = None


@command(TheoremOptions, TheoremView)
def theorem(options: TheoremOptions, view: TheoremView) -> int:
    """See why the perplexity of one long text tells of a whole language (Shannon, McMillan, Breiman).

    Texts of a small language with a known entropy rate are read by its true model and by models learned from little
    text: bits per word settle as the text grows, each at a limit that is known beforehand. No model is loaded.

    Example: howsure theorem --plot theorem.svg
    """
    from howsure.report.entropy import theorem as document
    from howsure.report.terminal import output, print_document
    from howsure.studies import theorem as study

    if view.plot is not None:
        from howsure.report.plots import check_plot, plot_theorem

        check_plot(view.plot)
    if view.dry_run:
        words = options.paths * options.longest
        return common.print_plan({"texts": options.paths, "words": words, "model_calls": 0, "tokens": 0}, view.as_json)
    computed = study.theorem(**vars(options))
    if view.plot is not None:
        plot_theorem(computed, view.plot)
    if view.as_json:
        common.print_json(computed.to_dict())
    else:
        print_document(output(), document(computed, view.quiet))
    if view.plot is not None and not view.quiet:
        common.say(f"the plot is in {view.plot}")
    return common.DONE
