"""Overlays: a screenshot with where the click belonged, where it went, and how far off that is; for any sample."""

from __future__ import annotations

import difflib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from howsure.errors import InputError
from howsure.models.images import Picture
from howsure.runs import Run, Sample
from howsure.runs.files import storage_errors, write_atomic
from howsure.studies.grounding.judging.columns import kinds_of
from howsure.studies.grounding.judging.knows import DISTANCES
from howsure.studies.grounding.output.exports import safe_name

if TYPE_CHECKING:
    from howsure.studies.grounding.output.drawing import Sheet

MOST_SIDE_PX = 1600
SMALLEST_SIDE_PX, LARGEST_SIDE_PX = 200, 10_000
SHOWN_CLOSE = 3

# -- which samples ----------------------------------------------------------------------------------------------------


def worst_samples(samples: Sequence[Sample], most: int) -> list[Sample]:
    """Those whose click went farthest from the target, the farthest first; only samples that have a distance."""
    known = [sample for sample in samples if sample.result.get("l2") is not None]
    return sorted(known, key=lambda sample: (-sample.result["l2"], sample.index))[:most]


def first_confidence(samples: Sequence[Sample]) -> str | None:
    """The first kind of confidence that a sample of this run has a value of."""
    return next(
        (kind for kind in kinds_of(samples) if any(_confidence(sample, kind) is not None for sample in samples)), None
    )


def surely_wrong_samples(samples: Sequence[Sample], most: int) -> tuple[str | None, list[Sample]]:
    """The misses that the model was surest of, the surest first, and the kind of confidence that says so."""
    kind = first_confidence(samples)
    if kind is None:
        return None, []
    wrong = [(sample, _confidence(sample, kind)) for sample in samples if sample.result.get("hit") is False]
    sign = 1.0 if kind in DISTANCES else -1.0
    ranked = sorted((sign * value, sample.index, sample) for sample, value in wrong if value is not None)
    return kind, [sample for _, _, sample in ranked[:most]]


def _confidence(sample: Sample, kind: str) -> float | None:
    value: float | None = (sample.result.get("confidence") or {}).get(kind)
    return value


# -- writing ----------------------------------------------------------------------------------------------------------


def write_overlays(
    run: Run,
    folder: Path,
    *,
    ids: Sequence[str] | None = None,
    worst: int = 0,
    surely_wrong: int = 0,
    every: bool = False,
    image_root: Path | None = None,
    font: Path | None = None,
    most_side_px: int = MOST_SIDE_PX,
) -> list[Path]:
    """Draw samples of a run into a folder, a PNG file each, named by their ids; the paths, in the order of the choice.

    `ids` names samples, `worst` takes so many by distance, `surely_wrong` so many of the misses that the model was
    surest of, `every` all. An image that no longer lies where the run found it is looked for under `image_root`.
    """
    samples = _records(run)
    chosen = _choose(samples, ids or (), worst, surely_wrong, every, str(run.path))
    names = file_names([sample.id for sample in samples])
    delta = _delta(run)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for sample, why in chosen:
        image = draw_overlay(
            sample, most_side_px=most_side_px, delta=delta, image_root=image_root, font=font, chosen_as=why
        )
        paths.append(folder / names[sample.id])
        write_atomic(paths[-1], _png(image))
    return paths


def chosen_samples(
    run: Run, *, ids: Sequence[str] | None = None, worst: int = 0, surely_wrong: int = 0, every: bool = False
) -> list[Sample]:
    """What `write_overlays` would draw."""
    chosen = _choose(_records(run), ids or (), worst, surely_wrong, every, str(run.path))
    return [sample for sample, _ in chosen]


def _records(run: Run) -> list[Sample]:
    study = run.manifest.identity.study
    if study != "grounding":
        raise InputError(f"{run.path} is a run of {study!r}: overlays are drawn of grounding runs")
    return run.records(evidence=False)


def file_names(ids: Sequence[str]) -> dict[str, str]:
    """A file name for each id of a run: the id itself where it is safe and no other differs from it in capitals only;
    else with a hash."""
    alike = Counter(one.lower() for one in ids)
    names = {}
    for one in ids:
        plain = alike[one.lower()] == 1 and safe_name(one.lower()) == one.lower()
        names[one] = f"{one if plain else safe_name(one)}.png"
    return names


def _png(image: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG", compress_level=4)
    return content.getvalue()


def _delta(run: Run) -> float | None:
    value = run.manifest.identity.options.get("delta")
    return float(value) if isinstance(value, int | float) else None


def _choose(
    samples: Sequence[Sample], ids: Sequence[str], worst: int, surely_wrong: int, every: bool, run: str
) -> list[tuple[Sample, str | None]]:
    """The samples to draw, each once, and as what they were chosen."""
    if min(worst, surely_wrong) < 0:
        raise InputError(f"how many samples to draw must be 0 or more, not {min(worst, surely_wrong)}")
    if not (ids or worst or surely_wrong or every):
        raise InputError("there is nothing to draw: name samples, or ask for the worst, the surely wrong or every one")
    why: dict[str, list[str]] = {one: [] for one in ids}
    known = {sample.id: sample for sample in samples}
    for one in why:
        if one not in known:
            raise InputError(f"{run} has no sample {one!r}{_close(one, known)}")
    for place, sample in enumerate(worst_samples(samples, worst), 1):
        why.setdefault(sample.id, []).append(f"number {place} of the farthest off")
    kind, wrong = surely_wrong_samples(samples, surely_wrong)
    if surely_wrong and kind is None and not (ids or worst or every):
        raise InputError(f"{run} has no confidence of any kind, so nobody can say which misses the model was surest of")
    for place, sample in enumerate(wrong, 1):
        why.setdefault(sample.id, []).append(f"number {place} of the misses that the model was surest of, by {kind}")
    if every:
        why |= {sample.id: why.get(sample.id, []) for sample in samples}
    return [(known[one], "; ".join(reasons) or None) for one, reasons in why.items()]


def _close(wanted: str, known: dict[str, Sample]) -> str:
    lower = {one.lower(): one for one in known}
    close = [lower[one] for one in difflib.get_close_matches(wanted.lower(), lower, SHOWN_CLOSE, 0.5)]
    if not close:
        some = list(known)[:SHOWN_CLOSE]
        return f"; it has {', '.join(map(repr, some))} and others" if some else "; it has none at all yet"
    return f"; close to it are {', '.join(map(repr, close))}" if len(close) > 1 else f"; do you mean {close[0]!r}?"


# -- the image --------------------------------------------------------------------------------------------------------


def load_screen(sample: Sample, image_root: Path | None = None) -> Any:
    """The pixels that the model was asked about: those of the file that the sample names, if its bytes are the same."""
    result = sample.result
    width, height = result["image_size"]
    named = Picture(result["image_path"], width, height, result["image_sha256"])
    found = next(_moved(named, image_root), named) if image_root is not None else named
    try:
        return found.load()
    except InputError as error:
        rest = "" if image_root is None else f", and nothing under {image_root} is it"
        remedy = f"{rest}: name the folder where the images lie now (--image-root)"
        raise InputError(f"sample {sample.id!r} cannot be drawn: {error}{remedy}") from error


def _moved(named: Picture, image_root: Path) -> Iterator[Picture]:
    """The same bytes where they were, or under the root by as much of the old path as fits, the longest first."""
    parts = PurePath(named.path).parts[1:]
    tails = [Path(*parts[start:]) for start in range(len(parts)) if ".." not in parts[start:]]
    for path in (named.path, *(os.fspath(image_root / tail) for tail in tails)):
        candidate = named._replace(path=path)
        if not os.path.isfile(path):
            continue
        try:
            candidate.read()
        except InputError:  # another image of the same name; the sentence about the first stands
            continue
        yield candidate


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_overlay(
    sample: Sample,
    *,
    most_side_px: int = MOST_SIDE_PX,
    delta: float | None = None,
    image_root: Path | None = None,
    font: Path | None = None,
    chosen_as: str | None = None,
) -> Any:
    """A sample as a picture of Pillow: the screen with target, click and distance, and what there is to say below it.

    With `delta` the reach of a hit is drawn around a point; it is a circle in the 0–1000 frame and so an ellipse on a
    screen that is not square. Words are in Pillow's own font, the same everywhere, unless a font file is named.
    """
    if not SMALLEST_SIDE_PX <= most_side_px <= LARGEST_SIDE_PX:
        raise InputError(f"an overlay is {SMALLEST_SIDE_PX} to {LARGEST_SIDE_PX} pixels long, not {most_side_px}")
    screen = load_screen(sample, image_root)
    from howsure.studies.grounding.output.drawing import Sheet

    sheet = Sheet(screen, most_side_px, font)
    _mark(sheet, sample.result, delta)
    rows = [row for row in _rows(sample, delta, chosen_as) if row[1]]
    return sheet.finished(_verdict(sample, delta), rows)


def _mark(sheet: Sheet, result: dict[str, Any], delta: float | None) -> None:
    from howsure.studies.grounding.output.drawing import BLUE, VERMILION

    _mark_target(sheet, result["target"], delta)
    for place in (result.get("samples") or {}).get("points", ()):
        sheet.small_dot(sheet.held(sheet.at(place)))
    click, target = result.get("pred_coord"), result["gt_coord"]
    if click is None:
        return
    shown = sheet.held(sheet.at(click))
    if target is not None:
        sheet.link(_edge(sheet, result["target"], shown), shown, _thousandths(result["l2"]))
    if is_outside(click):
        sheet.arrow(shown, sheet.at(click), VERMILION)
    if result["target"]["kind"] == "point":
        sheet.cross(sheet.at(target), BLUE)  # over the line
    sheet.ring(shown, VERMILION)


def _mark_target(sheet: Sheet, target: dict[str, Any], delta: float | None) -> None:
    from howsure.studies.grounding.output.drawing import BLUE

    kind, coords = target["kind"], target["coords"]
    places = [sheet.at(pair) for pair in zip(coords[0::2], coords[1::2], strict=True)]
    if kind == "box":
        sheet.box(places[0], places[1], BLUE)
    elif kind == "polygon":
        sheet.outline(places, BLUE)
    elif kind == "point":
        if delta:
            sheet.dashes(places[0], delta / 1000 * sheet.width, delta / 1000 * sheet.height, BLUE)
        sheet.cross(places[0], BLUE)


def _edge(sheet: Sheet, target: dict[str, Any], click: tuple[float, float]) -> tuple[float, float]:
    """Where the line to the click leaves the target, so that it does not cover what was to be clicked: the border of
    the smallest box around it. The click itself where that lies inside."""
    coords = target["coords"]
    corners = [sheet.at(pair) for pair in zip(coords[0::2], coords[1::2], strict=True)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    centre = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2)
    half = ((max(xs) - min(xs)) / 2, (max(ys) - min(ys)) / 2)
    away = (click[0] - centre[0], click[1] - centre[1])
    share = min([1.0, *(side / abs(by) for side, by in zip(half, away, strict=True) if by)])
    return centre[0] + away[0] * share, centre[1] + away[1] * share


def is_outside(place: Sequence[float]) -> bool:
    return not all(0.0 <= value <= 1000.0 for value in place)


# -- words ------------------------------------------------------------------------------------------------------------


def _verdict(sample: Sample, delta: float | None) -> tuple[str, tuple[int, int, int], bool]:
    """The badge and the words beside it; a hit's badge is filled, so that more than its colour tells it."""
    from howsure.studies.grounding.output.drawing import GREEN, GREY, VERMILION

    if sample.failed:
        return f"NO ANSWER | {(sample.reason or '').replace('_', ' ')}", GREY, False
    words = " · ".join(_found(sample.result, delta))
    return (f"HIT | {words}", GREEN, True) if sample.result["hit"] else (f"MISS | {words}", VERMILION, False)


def _found(result: dict[str, Any], delta: float | None) -> Iterator[str]:
    kind = result["target"]["kind"]
    if result["says"] == "wrong_format":
        yield f"no place can be read in the answer ({(result.get('why_not') or 'wrong format').replace('_', ' ')})"
    elif result["says"] == "refusal":
        yield "it says that there is nothing to click" + (", and there is not" if kind == "refusal" else "")
    elif kind == "refusal":
        yield "it clicks, and there is nothing to click"
    if result["l2"] is not None:
        reach = "" if delta is None else f" ({'within' if result['within_delta'] else 'beyond'} delta {delta:g})"
        yield f"{_thousandths(result['l2'])} thousandths off{reach}"
    if result["inside"] is not None and result["pred_coord"] is not None:
        yield f"{'inside' if result['inside'] else 'outside of'} the {kind}"


def _rows(sample: Sample, delta: float | None, chosen_as: str | None) -> Iterator[tuple[str, str]]:
    result = sample.result
    yield "instruction", result["instruction"]
    yield "target", _place(result["gt_coord"], result["gt_content"])
    if sample.failed:
        yield "no answer", sample.detail or ""
    else:
        yield (
            "click" if result["pred_coord"] is not None else "names",
            _place(result["pred_coord"], result["pred_content"]),
        )
        yield "answer", result.get("pred_raw") or ""
        yield "sureness", ", ".join(_sureness(result))
        yield "drawn", _drawn(result.get("samples"))
    yield "marks", "; ".join(legend(result, delta))
    yield "chosen as", chosen_as or ""
    name = PurePath(result["image_path"]).name
    yield "sample", f"{sample.id} on {name}, {result['image_size'][0]} x {result['image_size'][1]} pixels"


def _place(place: Sequence[float] | None, content: str | None) -> str:
    """`“left arrow” at (100.0, 200.0)`, as much of it as there is."""
    words = [f"“{content}”"] if content else []
    if place is not None:
        outside = ", outside of the screen" if is_outside(place) else ""
        words.append(f"{'at ' if words else ''}({', '.join(map(_thousandths, place))}){outside}")
    return " ".join(words)


def _thousandths(value: float) -> str:
    """One decimal; a model can write numbers that no screen has room for."""
    return f"{value:.1f}" if abs(value) < 1e6 else f"{value:.3g}"


def _sureness(result: dict[str, Any]) -> Iterator[str]:
    missing = result.get("confidence_missing") or {}
    for kind, value in (result.get("confidence") or {}).items():
        name = kind.replace("_", " ")
        if value is None:
            yield f"{name} missing ({str(missing.get(kind, 'not known')).replace('_', ' ')})"
        else:
            yield f"{name} {_thousandths(value)} thousandths" if kind in DISTANCES else f"{name} {value:.3f}"


def _drawn(samples: dict[str, Any] | None) -> str:
    if samples is None:
        return ""
    parts = {"in wrong format": samples["wrong_format"], "refusals": samples["refusals"], "failed": samples["failed"]}
    rest = "".join(f", {count} {words}" for words, count in parts.items() if count)
    return f"{len(samples['points'])} clicks of {samples['asked']} more answers{rest}"


def legend(result: dict[str, Any], delta: float | None) -> Iterator[str]:
    """What the marks on a screen mean, of those that are on it."""
    shapes = {"point": "blue cross", "box": "blue box", "polygon": "blue outline"}
    kind = result["target"]["kind"]
    yield f"{shapes[kind]}: where the click belongs" if kind in shapes else "nothing on this screen is to be clicked"
    if kind == "point" and delta:
        yield f"blue dashes: {delta:g} thousandths around it"
    click = result.get("pred_coord")
    if click is not None:
        yield "orange ring: where the model clicks" + (", farther that way" if is_outside(click) else "")
    if (result.get("samples") or {}).get("points"):
        yield "yellow dots: where its other answers click"
