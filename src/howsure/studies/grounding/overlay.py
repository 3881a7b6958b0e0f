"""Overlays: a screenshot with where the click belonged, where it went, and how far off that is; for any sample."""

from __future__ import annotations

import difflib
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from howsure.errors import HowsureError, InputError, RunDamaged, UnusableImage
from howsure.models.images import MOST_BYTES, inspect_content
from howsure.runs import Run, Sample
from howsure.runs.files import storage_errors, write_atomic
from howsure.runs.pictures import name_of
from howsure.runs.reading import SAMPLES
from howsure.storage import is_address, read_regular, shown
from howsure.studies.grounding.exports import safe_name
from howsure.studies.grounding.marks import GREEN, VERMILION, marks
from howsure.studies.grounding.record import (
    DISTANCES,
    GroundingRecord,
    Place,
    Samples,
    confidence_of,
    kinds_of,
)
from howsure.studies.grounding.words import drawn_in_words, in_words, legend, named, place_in_words, thousandths

MOST_SIDE_PX = 1600
SMALLEST_SIDE_PX, LARGEST_SIDE_PX = 200, 10_000
SHOWN_CLOSE, SHOWN_ID = 3, 200
DEEPEST = 64
"""Of the folders of an image's path, so many are looked for under the image root."""
MOST_PIXELS = 40_000_000
"""Of a screen; twice those of the largest displays."""

CORNERS = {"refusal": range(1), "point": range(1, 2), "box": range(2, 3), "polygon": range(3, 1_000_000)}
"""How many pairs of numbers the place of a target has."""

Clicked = Sample[GroundingRecord]


def read_clicks(run: Run) -> list[Clicked]:
    """The samples of a run, which may come from anybody."""
    study = run.manifest.identity.study
    if study != "grounding":
        raise InputError(f"{run.path} is a run of {study!r}: overlays are drawn of grounding runs")
    samples = run.records(evidence=False, record=GroundingRecord)
    for sample in samples:
        kind, count = sample.result.target.kind, len(sample.result.target.coords)
        if count % 2 or count // 2 not in CORNERS[kind]:
            name = sample.id if len(sample.id) <= SHOWN_ID else f"{sample.id[:SHOWN_ID]}…"
            raise RunDamaged(
                f"{run.path / SAMPLES}: sample {name!r} cannot be drawn: {count} numbers are no {kind}; restore it, or "
                "delete its line"
            )
    return samples


# -- which samples ----------------------------------------------------------------------------------------------------


def worst_samples(samples: Samples, most: int) -> list[Clicked]:
    """Those whose click went farthest from the target, the farthest first; only samples that have a distance."""
    far = [(-sample.result.l2, sample.index, sample) for sample in samples if sample.result.l2 is not None]
    return [sample for *_, sample in sorted(far, key=lambda one: one[:2])[:most]]


def surely_wrong_samples(samples: Samples, most: int) -> tuple[str | None, list[Clicked]]:
    """The misses that the model was surest of, the surest first, and the kind of confidence that says so: the first
    that a sample of this run has a value of."""
    for kind in kinds_of(samples):
        known = [(value, one) for one in samples if (value := confidence_of(one.result, kind)) is not None]
        if known:
            sign = 1.0 if kind in DISTANCES else -1.0
            wrong = [(sign * value, one.index, one) for value, one in known if one.result.hit is False]
            return kind, [one for *_, one in sorted(wrong, key=lambda one: one[:2])[:most]]
    return None, []


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
    most_side_px: int = MOST_SIDE_PX,
) -> list[Path]:
    """Draw samples of a run into a folder, a PNG file each, named by their ids; the paths, in the order of the choice.

    `ids` names samples, `worst` takes so many by distance, `surely_wrong` so many of the misses that the model was
    surest of, `every` all. An image that no longer lies where the run found it is looked for under `image_root`; where
    it is not there either, the small copy that the run kept is drawn on.
    """
    inside = os.path.realpath(run.path)
    if folder.is_relative_to(run.path) and not Path(os.path.realpath(folder)).is_relative_to(inside):
        # a folder within the run is one of its own: where a link leads, there may be somebody's pictures
        raise InputError(f"{folder} is a link that leads out of {run.path}: name another folder with --to")
    samples = read_clicks(run)
    chosen = _choose(samples, ids or (), worst, surely_wrong, every, str(run.path))
    names = file_names([sample.id for sample in samples])
    delta = delta_of(run)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for sample, why in chosen:
        image = draw_overlay(
            sample,
            most_side_px=most_side_px,
            delta=delta,
            image_root=image_root,
            chosen_as=why,
            run_folder=run.path,
        )
        content = io.BytesIO()
        image.save(content, "PNG", compress_level=4)
        paths.append(folder / names[sample.id])
        write_atomic(paths[-1], content.getvalue())
    return paths


def chosen_samples(
    run: Run, *, ids: Sequence[str] | None = None, worst: int = 0, surely_wrong: int = 0, every: bool = False
) -> list[Clicked]:
    """What `write_overlays` would draw."""
    chosen = _choose(read_clicks(run), ids or (), worst, surely_wrong, every, str(run.path))
    return [sample for sample, _ in chosen]


def file_names(ids: Sequence[str]) -> dict[str, str]:
    """A file name for each id of a run: the id itself where it is safe and no other differs from it in capitals only;
    else with a hash."""
    alike = Counter(one.lower() for one in ids)
    names = {}
    for one in ids:
        plain = alike[one.lower()] == 1 and safe_name(one.lower()) == one.lower()
        names[one] = f"{one if plain else safe_name(one)}.png"
    return names


def delta_of(run: Run) -> float | None:
    """What the manifest says that hits were judged by; it may come from anybody."""
    value = run.manifest.identity.options.get("delta")
    return float(value) if isinstance(value, int | float) else None


def _choose(
    samples: Samples, ids: Sequence[str], worst: int, surely_wrong: int, every: bool, run: str
) -> list[tuple[Clicked, str | None]]:
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


def _close(wanted: str, known: dict[str, Clicked]) -> str:
    lower = {one.lower(): one for one in known}
    close = [lower[one] for one in difflib.get_close_matches(wanted.lower(), lower, SHOWN_CLOSE, 0.5)]
    if not close:
        some = list(known)[:SHOWN_CLOSE]
        return f"; it has {', '.join(map(repr, some))} and others" if some else "; it has none at all yet"
    return f"; close to it are {', '.join(map(repr, close))}" if len(close) > 1 else f"; do you mean {close[0]!r}?"


# -- the image --------------------------------------------------------------------------------------------------------


class Screen(NamedTuple):
    """The pixels that a model was asked about, and what is to be said of them."""

    pixels: Any
    remark: str = ""


def load_screen(
    about: GroundingRecord, name: str, image_root: Path | None = None, run_folder: Path | None = None
) -> Screen:
    """The image of a sample, which may come from anybody: what it names is never fetched from an address, and only a
    regular file of this machine is read and drawn whose bytes are the ones that the sample has the digest of. Nobody
    learns by that what they did not know.

    It is looked for where the sample says, and under the root by as much of that path as fits, the longest first. Where
    it is nowhere, there may be a small copy in the run's own folder.
    """
    problem: HowsureError | None = None
    for place in (about.image_path, *_places_under(image_root, about.image_path)):
        try:
            return Screen(_pixels(place, about.image_sha256))
        except InputError as error:  # of several, the first says most; under the root there are others of that name
            problem = problem or error
    copy = name_of(about.image_sha256)
    if run_folder is not None and copy is not None and (run_folder / copy).exists():
        return Screen(_pixels(os.fspath(run_folder / copy), within=run_folder), ", from the run's small copy")
    rest = "" if image_root is None else f", and nothing under {image_root} is it"
    remedy = f"{rest}: name the folder where the images lie now (--image-root)"
    raise InputError(f"sample {name!r} cannot be drawn: {problem}{remedy}") from problem


def _places_under(image_root: Path | None, path: str) -> Iterator[str]:
    whole = PurePath(path)
    parts = whole.parts[1 if whole.anchor else 0 :][-DEEPEST:]
    for start in range(len(parts) if image_root is not None else 0):
        if ".." not in parts[start:]:
            yield os.path.join(os.fspath(image_root or ""), *parts[start:])


def _pixels(path: str, sha256: str | None = None, within: Path | None = None) -> Any:
    """Of an image with this digest, which is decoded elsewhere first, where it can do no harm."""
    if is_address(path) or os.path.splitdrive(path)[0].startswith(("\\\\", "//")):
        raise InputError(f"{shown(path)} lies elsewhere, and nothing is fetched for a run; copy the images here")
    try:
        content = read_regular(path, MOST_BYTES, within=within, remedy="scale it down")
    except OSError as error:
        raise InputError(f"image {path} cannot be read: {error.strerror or error}") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise UnusableImage(f"{path} has changed since it was checked")
    picture = inspect_content(content, path)
    if picture.width * picture.height > MOST_PIXELS:
        raise UnusableImage(f"{path} has more than {MOST_PIXELS // 10**6} million pixels; scale it down")
    return picture.load()


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_overlay(
    sample: Clicked,
    *,
    most_side_px: int = MOST_SIDE_PX,
    delta: float | None = None,
    image_root: Path | None = None,
    chosen_as: str | None = None,
    run_folder: Path | None = None,
) -> Any:
    """A sample as a picture of Pillow: the screen with target, click and distance, and what there is to say below it.

    With `delta` the reach of a hit is drawn around a point; it is a circle in the 0–1000 frame and so an ellipse on a
    screen that is not square. Words are in Pillow's own font, the same everywhere.
    """
    if not SMALLEST_SIDE_PX <= most_side_px <= LARGEST_SIDE_PX:
        raise InputError(f"an overlay is {SMALLEST_SIDE_PX} to {LARGEST_SIDE_PX} pixels long, not {most_side_px}")
    screen = load_screen(sample.result, sample.id, image_root, run_folder)
    from howsure.studies.grounding.drawing import GREY, Sheet, Verdict

    sheet = Sheet(screen.pixels, most_side_px)
    sheet.paint(marks(sample.result, delta, *sheet.room_px))
    badge, colour = ("HIT", GREEN) if sample.result.hit else ("MISS", VERMILION)
    if sample.failed:
        badge, colour = "NO ANSWER", GREY
    told = in_words(sample, delta).replace("δ", "delta")  # which the font lacks
    rows = [row for row in _rows(sample, delta, chosen_as, screen.remark) if row[1]]
    return sheet.finished(Verdict(badge, colour, badge == "HIT", told), rows)


def _rows(sample: Clicked, delta: float | None, chosen_as: str | None, remark: str) -> Iterator[tuple[str, str]]:
    about = sample.result
    yield "instruction", about.instruction
    yield "target", _place(about.gt_coord, about.gt_content)
    if sample.failed:
        yield "no answer", sample.detail or ""
    else:
        yield "click" if about.pred_coord is not None else "names", _place(about.pred_coord, about.pred_content)
        yield "answer", about.pred_raw or ""
        yield "sureness", ", ".join(_sureness(about))
        yield "drawn", "" if about.samples is None else drawn_in_words(about.samples)
    yield "marks", "; ".join(legend(about, delta))
    yield "chosen as", chosen_as or ""
    name, (width, height) = PurePath(about.image_path).name, about.image_size
    yield "sample", f"{sample.id} on {name}, {width} x {height} pixels{remark}"


def _place(place: Place | None, content: str | None) -> str:
    """`“left arrow” at (100, 200)`, as much of it as there is."""
    words = [f"“{content}”"] if content else []
    if place is not None:
        words.append(f"{'at ' if words else ''}{place_in_words(place)}")
    return " ".join(words)


def _sureness(about: GroundingRecord) -> Iterator[str]:
    known, missing = about.confidence, about.confidence_missing
    for kind, value in () if known is None else known.known.items():
        if value is None:
            yield f"{named(kind)} missing ({named(None if missing is None else missing[kind])})"
        else:
            yield f"{named(kind)} {f'{thousandths(value)} thousandths' if kind in DISTANCES else f'{value:.3g}'}"
