"""Two runs on one page: what changed from A to B, paired where the study can pair them, beside each other where not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import htpy as h

from howsure.errors import HowsureError
from howsure.report.pages.compare_parts import side_by_side, who
from howsure.report.pages.contract import Section, guarded
from howsure.report.pages.material import Material
from howsure.report.pages.parts import notice
from howsure.report.text import value_with_interval
from howsure.studies.comparing import NOT_COMPARED, compare

HOMES = {study: f"howsure.report.pages.compare_{study}" for study in ("mcq", "perplexity", "grounding")}


def comparison(a: Material, b: Material) -> list[Section]:
    """Everything that is said about two runs together; runs that cannot be paired say why, and stand side by side."""
    return laid_out(compared(a, b), a, b)


def compared(a: Material, b: Material, by: Callable[..., Any] = compare) -> Any:
    """The comparison, which takes a while of large runs, or the sentence that says why there is none."""
    if a.study == b.study and a.study in NOT_COMPARED:
        return f"Runs of {a.study} are not paired yet: what follows are two figures beside each other."
    found = guarded(lambda: _asked(by, a, b), lambda why: f"their files do not hold what is needed ({why})")
    return f"These runs cannot be paired: {_short(found, a, b)}." if isinstance(found, str) else found


def laid_out(found: dict[str, Any] | str, a: Material, b: Material) -> list[Section]:
    """What was found, as parts of a page."""
    return [who(a, b), *(_unpaired(found, a, b) if isinstance(found, str) else _paired(found, a, b))]


def _asked(by: Callable[..., Any], a: Material, b: Material) -> Any:
    try:
        return by(a.run, b.run)
    except HowsureError as error:
        return str(error)


def _short(why: str, a: Material, b: Material) -> str:
    """The same with A and B for their folders, whose places are nobody's business in a report that is passed on."""
    named = sorted({str(a.run.path): "A", str(b.run.path): "B"}.items(), key=lambda pair: -len(pair[0]))
    for path, name in named:
        why = why.replace(path, name)
    return why


def _paired(found: dict[str, Any], a: Material, b: Material) -> list[Section]:
    home = HOMES.get(found["study"])
    if home is None:
        return [guarded(lambda: _plain(found, a, b), lambda why: Section("Side by side", "", notice(why)))]
    maker = import_module(home)
    return guarded(
        lambda: list(maker.sections(found, a, b)),
        lambda why: _unpaired(f"The files of these runs do not hold what is needed: {_short(why, a, b)}", a, b),
    )


def _plain(found: dict[str, Any], a: Material, b: Material) -> Section:
    """Of a study that says nothing of its own: the figures, and how often each run is right."""
    beside, difference = side_by_side(a, b), found["difference"]
    if difference["mean_difference"] is None:
        return beside
    words = value_with_interval({"value": difference["mean_difference"], "unit": "share", **difference})
    paired = f"B is right more often than A by {words}, over the {difference['paired_count']} items of both."
    return beside._replace(body=[h.p[paired], beside.body])


def _unpaired(why: str, a: Material, b: Material) -> list[Section]:
    def beside() -> Section:
        found = side_by_side(a, b)
        return found._replace(body=[notice(why), found.body])

    return [guarded(beside, lambda problem: Section("Side by side", "", [notice(why), notice(problem)]))]
