"""Reading what a click study is about, in any of its forms, with every entry and image checked before a model loads.

An entry that cannot be used (fields, boxes, images, right answers that cannot be read) stops the reading with the list
of all such, or is counted where the user said so. With a limit on samples, only the entries that it takes are judged,
and only their images opened, as long as how boxes are written can be told without the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from howsure.errors import InputError
from howsure.models.images import Picture, inspect_pictures
from howsure.runs.files import to_json, write_atomic
from howsure.runs.run import PathLike
from howsure.studies.grounding.options import ConvertOptions, Order, ReadingOptions, Units, parse_users
from howsure.studies.grounding.reading.boxes import (
    Convention,
    Evidence,
    check_thousandths,
    decide,
    guess_units,
    not_xywh,
    not_xyxy,
)
from howsure.studies.grounding.reading.boxes import to_target as shape_to_target
from howsure.studies.grounding.reading.forms import (
    Bad,
    Draft,
    Origin,
    draft_chat,
    draft_flat,
    draft_osworld,
    draft_screenspot,
    flat_record,
    is_pro,
)
from howsure.studies.grounding.reading.sources import (
    CHAT_JSONL,
    CHAT_PICKLE,
    FLAT,
    OSWORLD,
    REMEDY,
    SCREENSPOT,
    LostImage,
    Source,
    check_users,
    choose_root,
    common_root,
    data_here,
    find_files,
    find_image,
    possible_roots,
    read_source,
    relative,
)
from howsure.studies.grounding.record import LABELS, Item, Screens

LISTED = 10
"""Bad entries that an error tells one by one."""


def read_items(data: PathLike, **how: Any) -> Screens:
    """All samples of a file or folder; `how` are `ReadingOptions`."""
    return read_screens(ReadingOptions(data, **how))


def read_screens(options: ReadingOptions) -> Screens:
    users = parse_users(options.users)
    place = data_here(options.data)
    reader = _Reader(place, users, options)
    for path in find_files(place, users):
        reader.read(path)
        if reader.is_full:
            break
    return reader.finish()


class _Reader:
    """What was found so far, file after file."""

    def __init__(self, data: Path, users: list[int] | None, how: ReadingOptions) -> None:
        self.data, self.wanted, self.how = data, users, how
        self.order, self.units = cast("Order | None", how.boxes), cast("Units | None", how.box_units)
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
        every = (_draft(source, number, entry, self.how.parser) for number, entry in source.entries)
        drafts = [one for one in every if self._is_wanted(one)]
        sound = [one for one in drafts if isinstance(one, Draft)]
        root = choose_root((one.image for one in sound), possible_roots(path, self.how.image_root))
        self.roots.append(root)
        by_path = {path: _file_of(path, root) for path in dict.fromkeys(one.image for one in sound)}
        files = {one.number: by_path[one.image] for one in sound}
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
        if source.form not in (SCREENSPOT, OSWORLD) and (self.order or self.units):
            raise InputError(
                f"--boxes and --box-units are for ScreenSpot and OSWorld-G; {source.name} is {source.form}"
            )

    def _is_wanted(self, one: Draft | Bad) -> bool:
        if isinstance(one, Bad):
            return True
        users = one.labels.user
        self.users.update(users)
        return self.wanted is None or any(str(user) in users for user in self.wanted)

    # -- images and boxes -----------------------------------------------------------------------------------------

    def _look_at(self, files: Iterable[str | InputError]) -> None:
        """Every image that was not looked at before, once."""
        new = [file for file in files if isinstance(file, str) and file not in self.pictures]
        self.pictures.update(inspect_pictures(new))

    def _convention(self, source: Source, drafts: list[Draft], files: dict[int, str | InputError]) -> Convention | None:
        """How this file writes its boxes; None where all places are thousandths."""
        try:
            if source.form == OSWORLD:
                rule = "given" if self.order or self.units else "form"
                convention = Convention(self.order or "xywh", self.units or "pixels", rule)
            elif source.form == SCREENSPOT:
                pro = any(is_pro(entry) for _, entry in source.entries)
                convention = decide(self._boxes(drafts, files), order=self.order, units=self.units, pro=pro)
            else:
                check_thousandths(one.shape for one in drafts)
                return None
        except InputError as error:
            raise InputError(f"{source.path}: {error}") from error
        self.conventions[source.name] = convention.to_dict()
        return convention

    def _boxes(self, drafts: list[Draft], files: dict[int, str | InputError]) -> list[Evidence]:
        """With the sizes of their images, where the numbers and the sizes that the data gives leave both ways open."""
        boxes = [Evidence(one.number, one.shape.numbers, one.size) for one in drafts]
        if self.order is not None:
            return boxes
        if self.how.max_samples is not None:
            units = self.units or guess_units(boxes)
            if not_xyxy(boxes, units) is not None or not_xywh(boxes, units) is not None:
                return boxes
        self._look_at(files.values())
        return [box._replace(size=self._size(files[box.number]) or box.size) for box in boxes]

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

    def finish(self) -> Screens:
        if self.wanted is not None and not self.is_full:
            check_users(self.wanted, self.users, self.data)
        if self.bad and not self.how.skip_bad:
            raise InputError(self._list())
        if not self.items or self.first is None:
            raise InputError(
                f"{self.data} holds no usable sample; the first trouble was {self.bad[0] if self.bad else 'none'}"
            )
        decided: dict[str, Any] = {"boxes": self.conventions} if self.conventions else {}
        if self.first.form in (CHAT_PICKLE, CHAT_JSONL):
            decided["parser"] = self.how.parser
        return Screens(
            self.items, fingerprint(self.items), len(self.bad), self.first.form, decided, common_root(self.roots)
        )

    def _list(self) -> str:
        more = f"; and {len(self.bad) - LISTED} more" if len(self.bad) > LISTED else ""
        entries = "1 entry" if len(self.bad) == 1 else f"{len(self.bad)} entries"
        remedy = f"mend the data, {REMEDY}, or" if self.lost_images else "mend the data, or"
        return (
            f"{entries} of {self.data} cannot be used: {'; '.join(self.bad[:LISTED])}{more}; {remedy} pass --skip-bad "
            "to go on without such entries"
        )


def _draft(source: Source, number: int, entry: Any, parser: str) -> Draft | Bad:
    """A draft of one entry of a file, or why there is none."""
    try:
        if isinstance(entry, InputError):
            return Bad(number, str(entry))
        origin = Origin(source.stem, number, source.user)
        if source.form in (CHAT_PICKLE, CHAT_JSONL):
            return draft_chat(entry, origin, parser)
        return {FLAT: draft_flat, OSWORLD: draft_osworld, SCREENSPOT: draft_screenspot}[source.form](entry, origin)
    except InputError as error:
        return Bad(number, str(error))


def _file_of(written: str, root: str) -> str | InputError:
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
            sorted((kind, item.labels[kind]) for kind in LABELS if item.labels[kind]),
        ]
        for item in items
    ]
    return f"sha256:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"


# -- as JSON lines ------------------------------------------------------------------------------------------------


class Converted(NamedTuple):
    """How many samples were written, how many bad entries left out, and the folder that the image paths begin at."""

    written: int
    skipped: int
    image_root: str


def convert(options: ConvertOptions) -> Converted:
    """Write the samples of any data as JSON lines; reading those with the image root that comes back gives the same."""
    target = Path(options.to)
    check_new(target)
    screens = read_screens(options)
    lines = [to_json(flat_record(item, relative(str(item.image.path), screens.image_root))) for item in screens.items]
    write_atomic(target, b"\n".join(lines) + b"\n")
    return Converted(len(lines), screens.skipped, screens.image_root)


def check_new(target: Path) -> None:
    """Raises unless a file can be written there that was not there before."""
    if target.exists():
        raise InputError(f"{target} is there already; name another file, or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first")
