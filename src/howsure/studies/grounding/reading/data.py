"""Reading what a click study is about, in any of its forms, with every entry and image checked before a model loads.

An entry that cannot be used (fields, boxes, images, right answers that cannot be read) stops the reading with the list
of all such, or is counted where the user said so. With a limit on samples, only the entries that it takes are judged,
and only their images opened, as long as how boxes are written can be told without the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howsure.errors import InputError
from howsure.models.images import Picture, inspect_pictures
from howsure.studies.grounding.items import Item, Items
from howsure.studies.grounding.reading.boxes import (
    ORDERS,
    UNITS,
    Convention,
    Evidence,
    check_thousandths,
    decide,
    guess_units,
    not_xywh,
    not_xyxy,
)
from howsure.studies.grounding.reading.boxes import to_target as shape_to_target
from howsure.studies.grounding.reading.chat_records import PARSERS, draft_chat
from howsure.studies.grounding.reading.drafts import Bad, Draft, Order, Origin, Units
from howsure.studies.grounding.reading.flat_records import draft_flat
from howsure.studies.grounding.reading.osworld import draft_osworld
from howsure.studies.grounding.reading.places import (
    REMEDY,
    LostImage,
    choose_root,
    common_root,
    find_image,
    possible_roots,
)
from howsure.studies.grounding.reading.screenspot import draft_screenspot, is_pro
from howsure.studies.grounding.reading.sources import (
    CHAT_JSONL,
    CHAT_PICKLE,
    FLAT,
    OSWORLD,
    SCREENSPOT,
    Source,
    check_users,
    data_here,
    find_files,
    read_source,
)
from howsure.studies.pairs import check_choice

PathLike = str | os.PathLike[str]
LISTED = 10
"""Bad entries that an error tells one by one."""


class How(NamedTuple):
    """The options of a reading, checked."""

    users: list[int] | None
    image_root: PathLike | None
    order: Order | None
    units: Units | None
    parser: str
    skip_bad: bool
    max_samples: int | None


class Found(NamedTuple):
    """The items, and the folder that all their images lie in."""

    items: Items
    image_root: str


def read_items(
    data: PathLike,
    *,
    users: list[int] | None = None,
    image_root: PathLike | None = None,
    boxes: str | None = None,
    box_units: str | None = None,
    parser: str = "strict",
    skip_bad: bool = False,
    max_samples: int | None = None,
) -> Items:
    """All samples of a file or folder. `boxes` (xywh or xyxy) and `box_units` (pixels, fractions, thousandths) say how
    boxes are written where the data would not tell, or tell wrongly."""
    how = options(users, image_root, boxes, box_units, parser, skip_bad, max_samples)
    return find_items(data, how).items


def options(
    users: list[int] | None,
    image_root: PathLike | None,
    boxes: str | None,
    box_units: str | None,
    parser: str,
    skip_bad: bool,
    max_samples: int | None,
) -> How:
    order = _one_of("--boxes", boxes, ORDERS)
    units = _one_of("--box-units", box_units, UNITS)
    check_choice("--parser", parser, tuple(PARSERS))
    if max_samples is not None and max_samples < 1:
        raise InputError(f"--max-samples must be at least 1, not {max_samples}")
    return How(users, image_root, order, units, parser, skip_bad, max_samples)


def _one_of(option: str, given: str | None, known: tuple[Any, ...]) -> Any:
    if given is not None:
        check_choice(option, given, known)
    return given


def find_items(data: PathLike, how: How) -> Found:
    place = data_here(data)
    reader = _Reader(place, how)
    files = find_files(place, how.users)
    for path in files:
        reader.read(path)
        if reader.is_full:
            break
    return reader.finish()


class _Reader:
    """What was found so far, file after file."""

    def __init__(self, data: Path, how: How) -> None:
        self.data, self.how = data, how
        self.items: list[Item] = []
        self.bad: list[str] = []
        self.places: dict[str, str] = {}
        """Where each id stands."""
        self.pictures: dict[str, Picture | InputError] = {}
        self.roots: list[str] = []
        self.first: Source | None = None
        self.conventions: dict[str, dict[str, Any]] = {}
        self.users: set[str] = set()
        self.lost_images = False

    @property
    def is_full(self) -> bool:
        return self.how.max_samples is not None and len(self.items) >= self.how.max_samples

    def read(self, path: Path) -> None:
        source = read_source(path)
        self._check_form(source)
        drafts = [one for one in map(_drafter(source, self.how), source.entries) if self._is_wanted(one)]
        sound = [one for one in drafts if isinstance(one, Draft)]
        root = choose_root((one.image for one in sound), possible_roots(path, self.how.image_root))
        self.roots.append(root)
        files = self._image_files(sound, root)
        convention = self._convention(source, sound, files)
        while drafts and not self.is_full:
            room = len(drafts) if self.how.max_samples is None else self.how.max_samples - len(self.items)
            portion, drafts = drafts[:room], drafts[room:]
            self._look_at(files[one.number] for one in portion if isinstance(one, Draft))
            for one in portion:
                self._take(source, one, files, convention)

    def _check_form(self, source: Source) -> None:
        first = self.first = self.first or source
        if source.form != first.form:
            raise InputError(
                f"{self.data} holds data of two forms, {first.name} ({first.form}) and {source.name} ({source.form}); "
                "name one of the files"
            )
        if source.form not in (SCREENSPOT, OSWORLD) and (self.how.order or self.how.units):
            raise InputError(
                f"--boxes and --box-units are for ScreenSpot and OSWorld-G; {source.name} is {source.form}"
            )

    def _is_wanted(self, one: Draft | Bad) -> bool:
        if isinstance(one, Bad):
            return True
        users = one.labels.get("user", ())
        self.users.update(users)
        return self.how.users is None or any(str(user) in users for user in self.how.users)

    # -- images and boxes -----------------------------------------------------------------------------------------

    def _image_files(self, drafts: list[Draft], root: str) -> dict[int, str | InputError]:
        """By entry: its image's file, or why there is none."""
        by_path: dict[str, str | InputError] = {}
        for one in drafts:
            if one.image not in by_path:
                by_path[one.image] = _found(one.image, root)
        return {one.number: by_path[one.image] for one in drafts}

    def _look_at(self, files: Iterable[str | InputError]) -> None:
        """Every image that was not looked at before, once."""
        new = [file for file in files if isinstance(file, str) and file not in self.pictures]
        self.pictures.update(inspect_pictures(new))

    def _convention(self, source: Source, drafts: list[Draft], files: dict[int, str | InputError]) -> Convention | None:
        if source.form not in (SCREENSPOT, OSWORLD):
            self._check_thousandths(source, drafts)
            return None
        if source.form == OSWORLD:
            given = self.how.order or self.how.units
            rule = "given" if given else "form"
            found = Convention(self.how.order or "xywh", self.how.units or "pixels", rule)
        else:
            found = self._told_by_file(source, drafts, files)
        self.conventions[source.name] = found.to_dict()
        return found

    def _check_thousandths(self, source: Source, drafts: list[Draft]) -> None:
        try:
            check_thousandths(one.shape for one in drafts)
        except InputError as error:
            raise InputError(f"{source.path}: {error}") from error

    def _told_by_file(self, source: Source, drafts: list[Draft], files: dict[int, str | InputError]) -> Convention:
        boxes = [Evidence(one.number, one.shape.numbers, one.size) for one in drafts]
        if self.how.order is None and (self.how.max_samples is None or self._needs_sizes(boxes)):
            self._look_at(files.values())
            boxes = [box._replace(size=self._size(files[box.number]) or box.size) for box in boxes]
        pro = any(is_pro(entry) for _, entry in source.entries)
        try:
            return decide(boxes, order=self.how.order, units=self.how.units, pro=pro)
        except InputError as error:
            raise InputError(f"{source.path}: {error}") from error

    def _needs_sizes(self, boxes: list[Evidence]) -> bool:
        """Whether the numbers, with the sizes that the data tells, leave both ways open."""
        units = self.how.units or guess_units(boxes)
        return not_xyxy(boxes, units) is None and not_xywh(boxes, units) is None

    def _size(self, file: str | InputError) -> tuple[int, int] | None:
        picture = self.pictures.get(file) if isinstance(file, str) else None
        return (picture.width, picture.height) if isinstance(picture, Picture) else None

    # -- one entry ------------------------------------------------------------------------------------------------

    def _take(
        self, source: Source, one: Draft | Bad, files: dict[int, str | InputError], convention: Convention | None
    ) -> None:
        place = f"{source.name}, {source.place} {one.number}"
        if isinstance(one, Bad):
            self.bad.append(f"{place}: {one.why}")
            return
        try:
            item = self._item(one, files[one.number], convention)
            other = self.places.setdefault(item.id, place)
            if other is not place:
                raise InputError(f"its id is that of {other} already")
        except InputError as error:
            self.bad.append(f"{place} ({one.id[:80]}): {error}")
        else:
            self.items.append(item)

    def _item(self, one: Draft, file: str | InputError, convention: Convention | None) -> Item:
        picture = self.pictures[file] if isinstance(file, str) else file
        if isinstance(picture, InputError):
            self.lost_images |= isinstance(picture, LostImage)
            raise InputError(str(picture))  # anew: one that is raised again and again drags its whole past along
        size = (picture.width, picture.height)
        if one.size is not None and one.size != size:
            raise InputError(f"its image is said to have {_by(one.size)} pixels, but has {_by(size)}")
        order, units = (one.shape.order, one.shape.units) if convention is None else convention[:2]
        target = shape_to_target(one.shape, order or "xyxy", units or "thousandths", size)
        return Item(one.id, picture, one.instruction, target, one.content, one.prompt, one.labels)

    # -- all of it ------------------------------------------------------------------------------------------------

    def finish(self) -> Found:
        if self.how.users is not None and not self.is_full:
            check_users(self.how.users, self.users, self.data)
        if self.bad and not self.how.skip_bad:
            raise InputError(self._list())
        if not self.items or self.first is None:
            raise InputError(
                f"{self.data} holds no usable sample; the first trouble was {self.bad[0] if self.bad else 'none'}"
            )
        decided: dict[str, Any] = {"boxes": self.conventions} if self.conventions else {}
        if self.first.form in (CHAT_PICKLE, CHAT_JSONL):
            decided["parser"] = self.how.parser
        items = Items(self.items, len(self.bad), fingerprint(self.items), self.first.form, decided)
        return Found(items, common_root(self.roots))

    def _list(self) -> str:
        more = f"; and {len(self.bad) - LISTED} more" if len(self.bad) > LISTED else ""
        entries = "1 entry" if len(self.bad) == 1 else f"{len(self.bad)} entries"
        remedy = f"mend the data, {REMEDY}, or" if self.lost_images else "mend the data, or"
        return (
            f"{entries} of {self.data} cannot be used: {'; '.join(self.bad[:LISTED])}{more}; {remedy} pass --skip-bad "
            "to go on without such entries"
        )


def _drafter(source: Source, how: How) -> Any:
    """What makes a draft of one numbered entry of this file, or says why it cannot."""
    stem = source.stem

    def draft(numbered: tuple[int, Any]) -> Draft | Bad:
        number, entry = numbered
        try:
            if isinstance(entry, InputError):
                return Bad(number, str(entry))
            origin = Origin(stem, number, source.user)
            if source.form in (CHAT_PICKLE, CHAT_JSONL):
                return draft_chat(entry, origin, how.parser)
            return {FLAT: draft_flat, OSWORLD: draft_osworld, SCREENSPOT: draft_screenspot}[source.form](entry, origin)
        except InputError as error:
            return Bad(number, str(error))

    return draft


def _found(written: str, root: str) -> str | InputError:
    try:
        return find_image(written, root)
    except InputError as error:
        return error


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"


def fingerprint(items: list[Item]) -> str:
    """Of all that matters about the samples; an image counts by its bytes, so that data elsewhere is the same data."""
    parts = [
        [
            item.id,
            item.image.sha256,
            item.instruction,
            item.prompt,
            item.content,
            item.target,
            sorted(item.labels.items()),
        ]
        for item in items
    ]
    return f"sha256:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"
