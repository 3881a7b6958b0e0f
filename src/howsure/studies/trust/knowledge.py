"""Grounding: what is known about a place, sentence by sentence, and how it grows.

It comes from a file, from what a user says, from what the model itself noted, and from what happened before. It must
never hold the instruction: a sentence that repeats it would carry it into the condition without language, and trust
would be measured against a leak.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TypeVar

import msgspec

from howsure.errors import InputError
from howsure.models.contract import Capability, Message, Model
from howsure.storage import local, open_regular
from howsure.types import Fields

MOST_BYTES = 1 << 20
MOST_SENTENCE_CHARACTERS = 300
SHARED_WORDS = 6
"""So many words of the instruction in a row, in one sentence, are a repetition of it; fewer may be chance."""
FEW_WORDS = 3
"""From so many words on, they are looked for without the spaces between them too: `go_to_the_red_ball`."""

Read = TypeVar("Read")
_BULLET = re.compile(r"^(?:[-*•#]\s+|\d+[.)]\s+|#)+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"'”»]?\s+")


def read_knowledge(path: str | Path, *, within: Path | None = None) -> list[str]:
    """The sentences of a file: one a line (`#` begins a comment, a bullet is taken off), or a JSON list of texts.

    `within` is the run folder that the file belongs to, if any: it may then not lie elsewhere.
    """
    path = local(path)
    text = _read(path, within)
    if text.lstrip().startswith("["):
        return [clean for one in _from_json(text, path, list[str], "list of texts") if (clean := one_line(one))]
    lines = (line.strip() for line in text.splitlines())
    return [clean for line in lines if not line.startswith("#") and (clean := one_line(line))]


def read_sets(path: str | Path) -> list[list[str]]:
    """Several sets of sentences: blocks of lines with an empty line between them, or a JSON list of lists.

    A line that holds only `-` stands for a set without any sentence.
    """
    path = local(path)
    text = _read(path)
    if text.lstrip().startswith("["):
        sets = _from_json(text, path, list[list[str]], "list of lists of texts")
        return [[clean for line in one if (clean := one_line(line))] for one in sets]
    blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text) if block.strip()]
    sets = [[one_line(line) for line in block if not line.strip().startswith("#")] for block in blocks]
    return [[line for line in block if line and line != "-"] for block in sets if block]


def _read(path: Path, within: Path | None = None) -> str:
    try:
        with open_regular(path, within=within, shell_pipes=within is None) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise InputError(f"{path} is larger than {MOST_BYTES >> 20} MiB, which no prompt would hold")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, byte {error.start}: this is no UTF-8; save it as UTF-8") from error


def _from_json(text: str, path: Path, form: type[Read], what: str) -> Read:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} begins like JSON and is no {what}: {error}") from error


def shipped_knowledge(world: str) -> list[str]:
    """What comes with a shipped map; nothing for any other world."""
    shipped = files("howsure.data") / "maps" / f"{world}.grounding.txt"
    if not re.fullmatch(r"[\w-]+", world) or not shipped.is_file():
        return []
    with as_file(shipped) as path:
        return read_knowledge(path)


# -- no leaks -----------------------------------------------------------------------------------------------------


def repeats(sentence: str, told: Iterable[str | None]) -> bool:
    """Whether a sentence holds one of these texts (instruction, notes), or a long run of its words.

    >>> repeats("The task is to GO to the red ball.", ["go to the red ball"])
    True
    >>> repeats("The ball is red.", ["go to the red ball"])
    False
    """
    words, line = _words(sentence), _line(sentence)
    for text in filter(None, told):
        whole = _line(text)  # for languages that put no spaces between words, or hang endings on them
        if _holds(words, _words(text)) or (not whole.isascii() and whole in line):
            return True
    return False


def _line(text: str) -> str:
    return " ".join(_folded(text).split()).strip(".。!！ ")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", _folded(text))


def _folded(text: str) -> str:
    """Without what the eye does not tell apart: case, wide and composed letters, characters of no width."""
    usual = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in usual if unicodedata.category(char) != "Cf")


def _holds(words: list[str], told: list[str]) -> bool:
    run = min(len(told), SHARED_WORDS)
    if not run:
        return False
    runs = {tuple(told[i : i + run]) for i in range(len(told) - run + 1)}
    if run < FEW_WORDS:
        return any(tuple(words[i : i + run]) in runs for i in range(len(words) - run + 1))
    joined = "".join(words)
    return any("".join(one) in joined for one in runs)


# -- growing ------------------------------------------------------------------------------------------------------


class Learned(Fields, omit_defaults=True):
    """A sentence that was taken up, or refused with the reason; `source` tells where it is from."""

    sentence: str
    source: str
    refused: str | None = None


def take_up(
    sentence: str, source: str, known: Sequence[str], told: Sequence[str | None], whole: str = ""
) -> Learned | None:
    """A new sentence, checked with the `whole` text that it is from; None where it says nothing, or nothing new."""
    clean = one_sentence(sentence)
    if not clean or _words(clean) in [_words(one) for one in known]:
        return None
    held = any(repeats(text, told) for text in (clean, whole))
    return Learned(clean, source, "repeats_instruction" if held else None)


def one_line(text: str) -> str:
    """A text as a line of a file of sentences, which is read again as it was written: no bullet, no comment's sign."""
    return _BULLET.sub("", " ".join(text.split())).strip()


def one_sentence(text: str) -> str:
    """The first sentence of a text, on one line and of bounded length."""
    first = one_line(_SENTENCE_END.split(one_line(text), maxsplit=1)[0].strip("\"'«»“”` "))
    return first if len(first) <= MOST_SENTENCE_CHARACTERS else first[: MOST_SENTENCE_CHARACTERS - 1] + "…"


def sentence_from_feedback(model: Model, feedback: str) -> tuple[str, str]:
    """What a user said as one sentence of knowledge, and who worded it: the model, or the user where it cannot.

    The model is shown the user's words alone, so that nothing else can get into the knowledge.
    """
    if Capability.GENERATE in model.capabilities:
        request = (
            "A person who watches a robot in a grid world said this to it. Say what it tells about the place, as one "
            f"short sentence of general knowledge. Answer with the sentence only.\n\nThe person said: {feedback}"
        )
        (answer,) = model.generate([[Message("user", request)]], max_tokens=80, top_logprobs=None)
        worded = one_sentence(answer.text or "")
        if worded:
            return worded, "feedback, worded by the model"
    return one_sentence(feedback), "feedback, in the user's words"


def summary_of(model: Model, facts: Sequence[str]) -> list[str]:
    """The facts of an episode as at most five sentences, worded by the model; none where it gives none."""
    request = (
        "These are observations of a robot in a grid world. Write at most five short sentences of general knowledge "
        "about the place that would help the next time, one a line, and nothing else.\n\n"
        + "\n".join(f"- {fact}" for fact in facts)
    )
    (answer,) = model.generate([[Message("user", request)]], max_tokens=200, top_logprobs=None)
    lines = (_BULLET.sub("", line.strip()) for line in (answer.text or "").splitlines())
    return [one_sentence(line) for line in lines if line][:5]
