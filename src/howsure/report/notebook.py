"""Results, runs and evidence as a notebook shows them: what their `_repr_html_` gives.

Figures and plots come from the summary, so that nothing but a run itself is read from the disk. Whatever is wrong with
a thing becomes a sentence in its place: a cell that shows something never fails.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.errors import HowsureError
from howsure.evidence import Distribution, TokenLogprobs
from howsure.measures import entropy_nats, nats_to_bits
from howsure.report import entropy
from howsure.report.comparison import document_of
from howsure.report.document import Document, Plot
from howsure.report.html import blocks, facts, fragment, notes, notice, number, table, tiles, words
from howsure.report.run_report import rendered
from howsure.report.text import counted
from howsure.report.tokens import legend, percent, reading, shaded, shades_of
from howsure.report.views import guarded, sections_of
from howsure.runs import Run
from howsure.runs.folder import open_samples, read_summary
from howsure.runs.reading import count_lines
from howsure.studies import registry
from howsure.studies.comparing import Comparison
from howsure.studies.summary import Summary

REPORT = "report.html"
MOST_NOTES = 4
SHOWN_PLOTS = 2


def html_of(thing: Any) -> str:
    """One of the kinds below, found by its class or one that it inherits from."""
    make = next(_MAKERS[kind.__name__] for kind in type(thing).__mro__ if kind.__name__ in _MAKERS)
    return fragment(h.div(class_="cell")[_without_fail(lambda: make(thing))])


def _without_fail(make: Callable[[], Node]) -> Node:
    try:
        return guarded(make, lambda why: notice(f"this cannot be shown: {why}"))
    except OSError as error:
        return notice(f"this cannot be shown: {error}")


# -- results and runs -------------------------------------------------------------------------------------------------


def _analysis(found: Any) -> Node:
    """Logs of somebody else's steps: there is no run, and none could have been kept."""
    only = h.p(class_="quiet")["These logs were only read: there is no run folder."]
    return [_title(found.summary.study, None), _figures(found.summary.study, found.summary), only]


def _result(found: Any) -> Node:
    """A finished study; trajectories without `out` have no run."""
    run = getattr(found, "run", None)
    return [_title(found.summary.study, run), _figures(found.summary.study, found.summary), _where(run)]


def _run(run: Run) -> Node:
    """Read anew, since it may have gone on."""
    try:
        now = Run(run.path)
        study = now.manifest.identity.study
        kind = registry.study_named(study).summary if registry.is_known(study) else Summary
        summary = read_summary(now.path, kind) if now.status == "finished" else None
    except HowsureError as error:
        return notice(str(error))
    shown = _figures(study, summary) if summary is not None else notice(_unfinished(now))
    return [_title(study, now), shown, _where(now)]


def _unfinished(run: Run) -> str:
    with open_samples(run.path) as file:
        here, _ = count_lines(file)
    why = f" ({run.manifest.error})" if run.manifest.error else ""
    return f"This run is {run.status}{why}: {here:,} of {run.manifest.items:,} samples are here, and no figures yet."


def _title(study: str, run: Run | None) -> Element:
    if run is None:
        return h.p(class_="title")[h.strong[words(study)]]
    manifest = run.manifest
    model = manifest.identity.model.get("name")
    return h.p(class_="title")[
        h.strong[words(study)],
        f" of {words(model, 120)}" if model and model != "log" else None,  # logs bring their own scores
        f" over {words(manifest.source, 200)}" if manifest.source else None,
    ]


def _figures(study: str, summary: Any) -> Node:
    """The headline, the first plots, and below a fold everything else that does not take the samples."""
    sections = sections_of(study, summary, None)
    plots = [block for section in sections for block in section.blocks if isinstance(block, Plot)][:SHOWN_PLOTS]
    others = [replace(one, blocks=[block for block in one.blocks if block not in plots]) for one in sections]
    return [
        tiles(summary.headline, summary.coverage),
        _notes(summary.notes),
        blocks(plots),
        h.details(class_="numbers")[h.summary["More figures and plots"], rendered(others)] if others else None,
    ]


def _notes(lines: Sequence[str]) -> Node:
    more = len(lines) - MOST_NOTES
    return [
        notes(lines[:MOST_NOTES]),
        h.p(class_="quiet")[f"and {counted(more, 'more note')} in the summary"] if more > 0 else None,
    ]


def _where(run: Run | None) -> Element:
    """Where all of it lies."""
    if run is None:
        return h.p(class_="quiet")["Nothing was written: out=… keeps a study in a run folder, with a report."]
    folder = words(run.path, 300)
    if not run.path.is_dir():
        return h.p(class_="quiet where")["Run folder: ", h.code[folder], ", which is no longer there."]
    return h.p(class_="quiet where")[
        "Run folder: ", h.code[folder], ". ", _report(run.path), " Every sample: ", _command("view", run.path), "."
    ]


def _report(folder: Path) -> Node:
    if (folder / REPORT).is_file():
        return ["Report: ", h.code[words(folder / REPORT, 300)], "."]
    return ["No report is there yet: ", _command("report", folder), " writes one."]


def _command(name: str, folder: Path) -> Element:
    return h.code[f"howsure {name} {words(shlex.quote(str(folder)), 300)}"]


# -- comparisons ------------------------------------------------------------------------------------------------------


def _pair(found: Any) -> Node:
    return [
        _comparison(found.comparison),
        _where_both(found.comparison),
        [
            h.details[h.summary[f"{name} by itself: {words(found.comparison[name.lower()].model, 120)}"], _result(one)]
            for name, one in (("A", found.a), ("B", found.b))
        ],
    ]


def _where_both(found: Any) -> Element:
    places = [words(found[name].run, 300) for name in ("a", "b")]
    return h.p(class_="quiet where")["Run folders: ", h.code[places[0]], " and ", h.code[places[1]], "."]


def _comparison(found: Comparison) -> Node:
    document = document_of(found)
    return [
        h.p(class_="title")[h.strong[document.title]],
        rendered(document.sections),
        _notes(document.notes),
    ]


# -- evidence ---------------------------------------------------------------------------------------------------------


def _document(document: Document) -> Node:
    return rendered(document.sections)


def _token_logprobs(found: TokenLogprobs) -> Node:
    mean = None if found.mean_nll_nats is None else nats_to_bits(found.mean_nll_nats)
    figures = {
        "tokens": len(found),
        "log-probability": _known(-found.nll_nats + 0.0, 3, "nats"),
        "mean surprisal": _known(mean, 3, "bits per token"),
        "perplexity": _known(found.perplexity_per_token, 3, "per token"),
    }
    return [facts(figures.items()), legend(), shaded(shades_of(found), "the text")]


def _distribution(found: Distribution) -> Node:
    listed = sorted(zip(found.labels, found.probabilities.tolist(), strict=True), key=lambda pair: -pair[1])
    rows = [(words(label), percent(share)) for label, share in listed]
    rows += [("(anything else)", percent(found.other))] if found.other else []
    bits = float(nats_to_bits(entropy_nats([*found.probabilities.tolist(), found.other])))
    return [table(["outcome", "probability"], rows, numeric=(1,)), facts([("entropy", number(bits, 3, "bits"))])]


def _known(value: float | None, digits: int, unit: str = "") -> str:
    """Infinity is a result: the model held what happened for impossible. Only what is missing is a dash."""
    if value is not None and math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    return number(value, digits, unit)


_MAKERS: dict[str, Callable[[Any], Node]] = {
    "Result": _result,
    "Analysis": _analysis,
    "Run": _run,
    "Pair": _pair,
    "Comparison": _comparison,
    "Reading": lambda found: _document(reading(found)),
    "TokenLogprobs": _token_logprobs,
    "Distribution": _distribution,
    "DistributionEntropy": lambda found: _document(entropy.document(found)),
    "CountsEntropy": lambda found: _document(entropy.document(found)),
    "TextEntropy": lambda found: _document(entropy.document(found)),
    "Theorem": lambda found: _document(entropy.theorem(found)),
}
