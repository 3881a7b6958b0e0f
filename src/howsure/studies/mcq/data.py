"""Reading multiple-choice questions: JSON lines with `question`, `choices`, `answer_index`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from howsure.errors import InputError

MOST_CHOICES = 1000


class Question(msgspec.Struct, frozen=True):
    """One question as it stands in the file; fields that howsure does not know are ignored."""

    question: str
    choices: list[str]
    answer_index: int
    id: str | int | None = None
    group: str | None = None
    image_path: str | None = None


class Item(NamedTuple):
    """A question that passed every check, under an id that stays the same wherever it stands in the file."""

    id: str
    question: str
    choices: tuple[str, ...]
    answer_index: int
    group: str | None


class Questions(NamedTuple):
    items: list[Item]
    skipped: int
    fingerprint: str


def read_questions(
    path: str | os.PathLike[str], *, max_samples: int | None = None, skip_bad: bool = False
) -> Questions:
    """Every line checked before any model is loaded; a bad line stops the reading, or is counted."""
    if max_samples is not None and max_samples < 1:
        raise InputError(f"--max-samples must be at least 1, not {max_samples}")
    items: list[Item] = []
    problems: list[str] = []
    names: dict[str, int] = {}
    for number, line in enumerate(_lines(Path(path)), 1):
        if not line.strip():
            continue
        if max_samples is not None and len(items) == max_samples:
            break
        try:
            items.append(_item(line, names, number))
        except InputError as error:
            problems.append(f"{path}, line {number}: {error}")
    if problems and not skip_bad:
        more = f" ({len(problems) - 1} more bad lines follow)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; mend the file, or pass --skip-bad to go on without such lines")
    if not items:
        raise InputError(f"{path} holds no usable question; each line must be a JSON object with question, choices, "
                         "answer_index")  # fmt: skip
    return Questions(items, len(problems), _fingerprint(items))


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _item(line: bytes, names: dict[str, int], number: int) -> Item:
    try:
        question = msgspec.json.decode(line, type=Question)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(error)) from error
    _check(question)
    name = str(question.id) if question.id is not None else _content_id(question, names)
    if name in names and question.id is not None:
        raise InputError(f"id {name!r} is that of line {names[name]} already")
    names[name] = number
    return Item(name, question.question, tuple(question.choices), question.answer_index, question.group)


def _check(question: Question) -> None:
    choices = question.choices
    if not question.question.strip():
        raise InputError("question is empty")
    if question.image_path is not None:
        raise InputError("image_path is given, but only text questions can be asked so far")
    if not 2 <= len(choices) <= MOST_CHOICES:
        raise InputError(f"choices must be 2 to {MOST_CHOICES} texts, not {len(choices)}")
    for i, choice in enumerate(choices):
        if not choice.strip():
            raise InputError(f"choices[{i}] is empty")
        if choice in choices[:i]:
            raise InputError(f"choices[{i}] {choice!r} is the same as choices[{choices.index(choice)}]")
    if not 0 <= question.answer_index < len(choices):
        raise InputError(f"answer_index {question.answer_index} is outside 0 to {len(choices) - 1}")


def _content_id(question: Question, names: dict[str, int]) -> str:
    content = msgspec.json.encode([question.question, question.choices, question.answer_index])
    base = name = hashlib.sha256(content).hexdigest()[:12]
    copies = 1
    while name in names:
        copies += 1
        name = f"{base}-{copies}"
    return name


def _fingerprint(items: list[Item]) -> str:
    return f"sha256:{hashlib.sha256(msgspec.json.encode(items)).hexdigest()}"
