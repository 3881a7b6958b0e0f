"""`howsure theorem`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def theorem(
    seed: common.Seed = 0,
    longest: Annotated[int, typer.Option(help="Words of the longest text.", min=16, max=1 << 24)] = 1 << 18,
    paths: Annotated[int, typer.Option(help="How many texts make the band.", min=2)] = 32,
    plot: Annotated[
        Path | None, typer.Option(**common.LOCAL, help="Draw the curves into this .svg or .png file.")
    ] = None,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """See why the perplexity of one long text tells of a whole language (Shannon, McMillan, Breiman).

    Texts of a small language with a known entropy rate are read by its true model and by models learned from little
    text: bits per word settle as the text grows, each at a limit that is known beforehand. No model is loaded.

    Example: howsure theorem --plot theorem.svg
    """
    from howsure.report.console import output
    from howsure.report.entropy import print_theorem
    from howsure.studies import theorem as study

    if plot is not None:
        from howsure.report.plots import check_plot, plot_theorem

        check_plot(plot)
    if dry_run:
        return common.print_plan({"texts": paths, "words": paths * longest, "model_calls": 0, "tokens": 0}, as_json)
    computed = study.theorem(longest=longest, paths=paths, seed=seed)
    if plot is not None:
        plot_theorem(computed, plot)
    if as_json:
        common.print_json(computed.to_dict())
    else:
        print_theorem(output(), computed, quiet)
    if plot is not None and not quiet:
        common.say(f"the plot is in {plot}")
    return common.DONE
