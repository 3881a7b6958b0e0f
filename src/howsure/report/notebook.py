"""Results, runs and evidence as a notebook shows them: what their `_repr_html_` gives.

Figures and plots come from the summary, so that nothing but a run itself is read from the disk. Whatever is wrong with
a thing becomes a sentence in its place: a cell that shows something never fails.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import htpy as h
from htpy import Element, Node

from howsure.errors import HowsureError
from howsure.evidence import Distribution, TokenLogprobs
from howsure.measures import entropy_nats, nats_to_bits
from howsure.report.glance import plots
from howsure.report.pages.contract import guarded
from howsure.report.pages.parts import facts, notice, number, table, tiles, words
from howsure.report.pages.shell import fragment
from howsure.report.pages.tokens import Shade, legend, percent, shaded, shades_of
from howsure.report.text import counted
from howsure.runs import Run
from howsure.runs.folder import open_samples
from howsure.runs.reading import count_lines

REPORT = "report.html"
MOST_NOTES = 4


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
    return [_title(found.summary["study"], None), _figures(found.summary), only]


def _result(found: Any) -> Node:
    """A finished study; trajectories without `out` have no run."""
    run = getattr(found, "run", None)
    return [_title(found.summary["study"], run), _figures(found.summary), _where(run)]


def _run(run: Run) -> Node:
    """Read anew, since it may have gone on."""
    try:
        now = Run(run.path)
        summary = now.summary if now.status == "finished" else None
    except HowsureError as error:
        return notice(str(error))
    shown = _figures(summary) if summary is not None else notice(_unfinished(now))
    return [_title(now.manifest.identity.study, now), shown, _where(now)]


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


def _figures(summary: Mapping[str, Any]) -> Node:
    drawn = guarded(lambda: plots(summary), lambda why: [notice(f"the plots cannot be made: {why}")])
    return [tiles(summary), _notes(summary["notes"]), h.div(class_="plots")[drawn] if drawn else None]


def _notes(notes: Sequence[str]) -> Node:
    more = len(notes) - MOST_NOTES
    return [
        h.ul(class_="notes")[[h.li[words(note, 600)] for note in notes[:MOST_NOTES]]] if notes else None,
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
            h.details[h.summary[f"{name} by itself: {words(side['model'], 120)}"], _result(one)]
            for name, side, one in zip(
                "AB", (found.comparison["a"], found.comparison["b"]), (found.a, found.b), strict=True
            )
        ],
    ]


def _where_both(found: Mapping[str, Any]) -> Element:
    places = [words(found[name]["run"], 300) for name in ("a", "b")]
    return h.p(class_="quiet where")["Run folders: ", h.code[places[0]], " and ", h.code[places[1]], "."]


def _comparison(found: Mapping[str, Any]) -> Node:
    """What changed from A to B, in the terminal's rows."""
    a, b = found["a"], found["b"]
    rows = [("model", words(a["model"]), words(b["model"]), ""), *_rows(found)]
    return [
        h.p(class_="title")[h.strong[f"{words(found['study'])}: two runs compared"]],
        table(["", "A", "B", "B − A (95 % interval, paired)"], rows),
        _turned(found["difference"]),
        _notes(found["notes"]),
    ]


def _rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    from howsure.report import compare, grounding_compare, perplexity

    makers: dict[str, Any] = {"mcq": compare, "perplexity": perplexity, "grounding": grounding_compare}
    rows: list[tuple[str, str, str, str]] = makers[found["study"]].rows_of(found)
    return rows


def _turned(difference: Mapping[str, Any]) -> Node:
    """McNemar's test in words, where answers are right or wrong."""
    test = difference.get("mcnemar")
    if test is None:
        return None
    turned = f"{test['only_b_correct']:,} turned right and {test['only_a_correct']:,} turned wrong"
    return h.p[f"{turned}; McNemar's exact p = {test['p_value']:.3g}."]


# -- evidence ---------------------------------------------------------------------------------------------------------


def _reading(found: Any) -> Node:
    evidence = found.evidence
    figures = {
        "read by": words(found.model),
        "mean surprisal": _known(found.mean_surprisal_bits, 3, "bits per token"),
        "mean entropy": _if_known(found.mean_entropy_bits, "bits per token"),
        "perplexity": _known(evidence.perplexity_per_token, 3, "per token"),
        "bits per byte": _known(found.bits_per_byte, 3),
        "tokens": len(evidence),
    }
    return [facts(figures), legend(), shaded(_characters(found), "the text")]


def _if_known(value: float | None, unit: str) -> str | None:
    return None if value is None else number(value, 3, unit)


def _characters(found: Any) -> list[Shade]:
    """Tokens; those that together spell one character are one, which costs what they cost together."""
    tokens = shades_of(found.evidence)
    return [
        tokens[place.start] if place.stop - place.start == 1 else Shade(text, _together(tokens[place]))
        for text, place in found.characters()
    ]


def _together(shades: Sequence[Shade]) -> float | None:
    known = [shade.bits for shade in shades if shade.bits is not None]
    return sum(known) if len(known) == len(shades) else None


def _token_logprobs(found: TokenLogprobs) -> Node:
    mean = None if found.mean_nll_nats is None else nats_to_bits(found.mean_nll_nats)
    figures = {
        "tokens": len(found),
        "log-probability": _known(-found.nll_nats + 0.0, 3, "nats"),
        "mean surprisal": _known(mean, 3, "bits per token"),
        "perplexity": _known(found.perplexity_per_token, 3, "per token"),
    }
    return [facts(figures), legend(), shaded(shades_of(found), "the text")]


def _distribution(found: Distribution) -> Node:
    listed = sorted(zip(found.labels, found.probabilities.tolist(), strict=True), key=lambda pair: -pair[1])
    rows = [(words(label), percent(share)) for label, share in listed]
    rows += [("(anything else)", percent(found.other))] if found.other else []
    bits = float(nats_to_bits(entropy_nats([*found.probabilities.tolist(), found.other])))
    return [table(["outcome", "probability"], rows, numeric=(1,)), facts({"entropy": number(bits, 3, "bits")})]


# -- entropy and the theorem ------------------------------------------------------------------------------------------


def _distribution_entropy(found: Any) -> Node:
    return facts({"entropy": number(found.entropy_bits, 4, "bits"), **_perplexity_and(found, found.perplexity)})


def _counts_entropy(found: Any) -> Node:
    return facts({"counted": found.total_count, "different": found.distinct_count, **_estimates(found)})


def _perplexity_and(found: Any, perplexity: float) -> dict[str, str | None]:
    against = found.against
    return {
        "perplexity": number(perplexity, 4),
        "cross-entropy under the model": None if against is None else _bits(against.cross_entropy_bits),
        "its perplexity": None if against is None else _known(against.perplexity, 4),
    }


def _estimates(found: Any) -> dict[str, str | None]:
    known = found.estimates
    return {
        "entropy, plug-in": _bits(known.plugin_bits),
        "Miller–Madow": _bits(known.miller_madow_bits),
        "Grassberger": _bits(known.grassberger_bits),
        **_perplexity_and(found, 2.0**known.plugin_bits),
    }


def _bits(value: float) -> str:
    return _known(value, 4, "bits")


def _known(value: float | None, digits: int, unit: str = "") -> str:
    """Infinity is a result: the model held what happened for impossible. Only what is missing is a dash."""
    if value is not None and math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    return number(value, digits, unit)


def _text_entropy(found: Any) -> Node:
    from howsure.report.notebook_plots import block_plot

    rate = found.entropy_rate_bits
    figures = {
        found.symbols: found.symbol_count,
        "different": found.distinct_count,
        **_estimates(found),
        "entropy rate": words(f"not known: {found.entropy_rate_missing}", 300) if rate is None else _bits(rate),
    }
    return [facts(figures), block_plot(found)]


def _theorem(found: Any) -> Node:
    from howsure.report.notebook_plots import theorem_plot

    return theorem_plot(found)


_MAKERS: dict[str, Callable[[Any], Node]] = {
    "Result": _result,
    "Analysis": _analysis,
    "Run": _run,
    "Pair": _pair,
    "Comparison": _comparison,
    "Reading": _reading,
    "TokenLogprobs": _token_logprobs,
    "Distribution": _distribution,
    "DistributionEntropy": _distribution_entropy,
    "CountsEntropy": _counts_entropy,
    "TextEntropy": _text_entropy,
    "Theorem": _theorem,
}
