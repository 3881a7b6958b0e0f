"""Reading multiple-choice questions: JSON lines with `question`, `choices`, `answer_index`, perhaps `image_path`."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from howsure.errors import InputError
from howsure.models.images import Picture, inspect_pictures
from howsure.runs.run import Items
from howsure.storage import address_of, checked, find_below, is_address, local, open_regular
from howsure.storage.opening import read_lines

MOST_CHOICES = 1000
MOST_LINE_BYTES = 64 << 20
PORTION_LINES = 10_000
"""Looked at together, for the sake of their images."""
T = TypeVar("T")
Place = Path | str
"""A folder on this machine, or the address of one."""

LONGEST_SHOWN = 300
"""Characters of a path that an error repeats."""

LONGEST_LABEL = 100
"""Characters of a cluster's label; a longer one, such as a whole passage, is cut and ends in a hash."""


class Question(msgspec.Struct, frozen=True):
    """One question as it stands in the file; fields that howsure does not know are ignored."""

    question: str
    choices: list[str]
    answer_index: int
    id: str | int | None = None
    group: str | None = None
    image_path: str | None = None


class Item(NamedTuple):
    """A question that passed every check, under an id that stays the same wherever it stands in the file.

    Questions with one `cluster` hang together: they are about one passage, one document, one template.
    """

    id: str
    question: str
    choices: tuple[str, ...]
    answer_index: int
    group: str | None
    image: Picture | None = None
    cluster: str | None = None


@dataclass(frozen=True)
class Questions(Items[Item]):
    clusters: str | None = None
    """A fingerprint of the labels of `--cluster`, where it was given: they are no part of the questions."""

    def identity(self) -> dict[str, Any]:
        return super().identity() | ({} if self.clusters is None else {"clusters": self.clusters})

    @property
    def image_count(self) -> int:
        return sum(item.image is not None for item in self.items)


class Row(NamedTuple):
    """A line whose JSON is good: its number, its question, where its image lies, and what it hangs together with."""

    number: int
    question: Question
    image_file: str | None
    cluster: str | None


@dataclass
class _Seen:
    """What the lines before have shown, of which a file of strangers may have very many."""

    names: dict[str, int] = field(default_factory=dict)
    copies: Counter[str] = field(default_factory=Counter)
    pictures: dict[str, Picture | InputError] = field(default_factory=dict)
    bad_lines: int = 0
    first_bad: tuple[int, str] | None = None

    def refuse(self, number: int, why: InputError | str) -> None:
        self.bad_lines += 1
        if self.first_bad is None or number < self.first_bad[0]:
            self.first_bad = number, str(why)


def read_questions(
    path: str | os.PathLike[str],
    *,
    max_samples: int | None = None,
    skip_bad: bool = False,
    image_root: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
) -> Questions:
    """Every line and image checked before any model is loaded; a bad line stops the reading, or is counted.

    `cluster` names a field of the data: questions with equal values in it hang together. A question without the field
    stands for itself; where no question has it, the name is taken for a mistake.
    """
    items: list[Item] = []
    seen = _Seen()
    path = local(path)
    lines = _numbered_lines(path)
    places = _image_places(path, image_root)
    while max_samples is None or len(items) < max_samples:
        most = PORTION_LINES if max_samples is None else min(PORTION_LINES, max_samples - len(items))
        portion = list(islice(lines, most))
        if not portion:
            break
        items += _items(_rows(portion, places, cluster, seen), seen)
    _report(path, seen, items, skip_bad)
    if cluster is None:
        return Questions(items, _fingerprint(items), seen.bad_lines)
    if all(item.cluster is None for item in items):
        raise InputError(f"--cluster {cluster[:LONGEST_SHOWN]}: no question of {path} has anything in that field")
    return Questions(items, _fingerprint(items), seen.bad_lines, _hashed([item.cluster for item in items]))


def _report(path: str | os.PathLike[str], seen: _Seen, items: list[Item], skip_bad: bool) -> None:
    if seen.first_bad is not None and not skip_bad:
        number, why = seen.first_bad
        more = f" ({seen.bad_lines - 1} more bad lines follow)" if seen.bad_lines > 1 else ""
        raise InputError(
            f"{path}, line {number}: {why}{more}; mend the file, or pass --skip-bad to go on without such lines"
        )
    if not items:
        raise InputError(f"{path} holds no usable question; each line must be a JSON object with question, choices, "
                         "answer_index")  # fmt: skip


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_regular(path, shell_pipes=True) as file:
            for number, line in enumerate(read_lines(file, str(path), MOST_LINE_BYTES), 1):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


# -- one line ---------------------------------------------------------------------------------------------------


def _rows(portion: list[tuple[int, bytes]], places: list[Place], cluster: str | None, seen: _Seen) -> list[Row]:
    rows = []
    for number, line in portion:
        try:
            question = _question(line)
            image = None if question.image_path is None else _find_image(question.image_path, places)
            rows.append(Row(number, question, image, None if cluster is None else _cluster(line, cluster)))
        except InputError as error:
            seen.refuse(number, error)
    return rows


def _question(line: bytes) -> Question:
    question = _decoded(line, Question)
    _check(question)
    return question


def _decoded(line: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(error)) from error


def _check(question: Question) -> None:
    choices = question.choices
    if not question.question.strip():
        raise InputError("question is empty")
    if not 2 <= len(choices) <= MOST_CHOICES:
        raise InputError(f"choices must be 2 to {MOST_CHOICES} texts, not {len(choices)}")
    for i, choice in enumerate(choices):
        if not choice.strip():
            raise InputError(f"choices[{i}] is empty")
        if choice in choices[:i]:
            raise InputError(f"choices[{i}] {choice!r} is the same as choices[{choices.index(choice)}]")
    if not 0 <= question.answer_index < len(choices):
        raise InputError(f"answer_index {question.answer_index} is outside 0 to {len(choices) - 1}")


# -- what hangs together ----------------------------------------------------------------------------------------


def _cluster(line: bytes, field: str) -> str | None:
    """The value of the field as a label: 7 and "7" are the same; None where it is missing, null or blank."""
    raw = _decoded(line, dict[str, msgspec.Raw]).get(field)
    value = None if raw is None else _decoded(raw, object)
    if isinstance(value, (list, dict)):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InputError(f"{field}, the field of --cluster, must be a text or a number, not {kind}")
    label = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if value is None or not label.strip():
        return None
    if len(label) <= LONGEST_LABEL:
        return label
    return f"{label[:LONGEST_LABEL]}… {hashlib.sha256(label.encode()).hexdigest()[:12]}"


# -- images -----------------------------------------------------------------------------------------------------


def _image_places(path: Path, image_root: str | os.PathLike[str] | None) -> list[Place]:
    """Where a relative image path may begin: the root that was named, else the file's folder, then the working one.

    Data that lies in a store has its images there: it names none of this machine.
    """
    if image_root is None:
        home = address_of(path.parent)
        return [path.parent, Path()] if home is None else [home]
    root = checked(image_root)
    if is_address(root):
        return [str(root)]
    if not Path(root).is_dir():
        raise InputError(f"--image-root {image_root} is not a folder")
    return [Path(root)]


def _find_image(image_path: str, places: list[Place]) -> str:
    if not image_path.strip():
        raise InputError("image_path is empty; leave the field out where there is no image")
    if isinstance(places[0], str):
        return find_below(image_path, places[0])
    tried = list(dict.fromkeys(os.path.join(place, image_path) for place in places))
    for candidate in tried:
        if os.path.isfile(candidate):
            return candidate
    remedy = "" if os.path.isabs(image_path) else " (--image-root names the folder that paths begin at)"
    shown = " and ".join(os.path.abspath(candidate)[:LONGEST_SHOWN] for candidate in tried)
    raise InputError(f"image_path {image_path[:LONGEST_SHOWN]!r} is no file, tried {shown}{remedy}")


def _items(rows: list[Row], seen: _Seen) -> list[Item]:
    """The rows whose image is good as well, each under its id; each distinct image file is read once."""
    files = [row.image_file for row in rows if row.image_file is not None]
    seen.pictures |= inspect_pictures([file for file in files if file not in seen.pictures])
    items = []
    for row in rows:
        picture = None if row.image_file is None else seen.pictures[row.image_file]
        if isinstance(picture, InputError):
            seen.refuse(row.number, f"image_path: {picture}")
            continue
        try:
            items.append(_item(row, picture, seen))
        except InputError as error:
            seen.refuse(row.number, error)
    return items


# -- what a question is called ----------------------------------------------------------------------------------


def _item(row: Row, picture: Picture | None, seen: _Seen) -> Item:
    question, names = row.question, seen.names
    name = str(question.id) if question.id is not None else _content_id(question, picture, seen)
    if name in names and question.id is not None:
        raise InputError(f"id {name!r} is that of line {names[name]} already")
    names[name] = row.number
    choices = tuple(question.choices)
    return Item(name, question.question, choices, question.answer_index, question.group, picture, row.cluster)


def _content_id(question: Question, picture: Picture | None, seen: _Seen) -> str:
    parts = [question.question, question.choices, question.answer_index, *_image_content(picture)]
    base = name = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:12]
    while name in seen.names:  # the copies before it, or the id of another question
        seen.copies[base] += 1
        name = f"{base}-{seen.copies[base] + 1}"
    return name


def _fingerprint(items: list[Item]) -> str:
    return _hashed([[*item[:5], *_image_content(item.image)] for item in items])


def _hashed(parts: object) -> str:
    return f"sha256:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"


def _image_content(picture: Picture | None) -> list[str]:
    """An image counts by its bytes, so that data in another folder is the same data."""
    return [] if picture is None else [picture.sha256]
