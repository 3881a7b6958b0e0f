"""A CSV file of steps as columns of numbers: three entropies in bits, and what else stands beside them.

Nothing is guessed from the data but the delimiter, and that from the header alone. A file that cannot be read is an
error; a row that cannot be is a row still, under a reason. A field that is empty, or says nan, none, null or n/a, is
missing. One that is no number, and a number that cannot be what its column says, are missing too, under reasons of
their own and with the line they stand in.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.runs.files import from_text
from howsure.storage import local, open_regular, shown_path
from howsure.studies.trust.steps import CONDITIONS, ENTROPY_COLUMNS, PLAIN, Array, Codes, Steps

_NAMES = {
    "exact_bits": "entropy_exact",
    "low_bits": "entropy_low",
    "high_bits": "entropy_high",
    "unlisted": "unlisted",
}
COLUMNS = {"bits": ENTROPY_COLUMNS}
"""For each field of a step that has three values: its columns."""
COLUMNS |= {field: tuple(f"{name}_{one.column}" for one in CONDITIONS) for field, name in _NAMES.items()}

EMPTY, UNREADABLE, IMPOSSIBLE, NO_COLUMN = "empty_field", "unreadable", "impossible", "no_column"
TOO_FEW, TOO_MANY, TORN = "too_few_fields", "too_many_fields", "torn_last_line"
OPEN_QUOTE, BAD_QUOTES = "open_quote", "bad_quotes"
REASONS = ("", EMPTY, UNREADABLE, IMPOSSIBLE, NO_COLUMN, TOO_FEW, TOO_MANY, TORN, OPEN_QUOTE, BAD_QUOTES)
MISSING_WORDS = frozenset({"", "nan", "none", "null", "n/a", "na", "<na>"})

DELIMITERS = (",", ";", "\t")
LONGEST_ROW_BYTES = 16_000_000
ROWS_AT_A_TIME = 2_048
"""Few enough to stay in the processor's cache until they are numbers."""

MOST_BITS = 1e6
"""More than the entropy of any action; a number beyond it belongs to another column."""

NAMELESS = "(no episode)"
SHOWN_PLACES = 3
"""Sentences about single lines, of each kind; the others are counted."""

SHOWN_CHARACTERS, SHOWN_HEADER_CHARACTERS = 60, 300
ROWS_FOR_DECIMALS = 100
"""Of each portion of a file: how many decimals a column is printed with shows in its first rows."""

MORE = {
    UNREADABLE: "fields that are no numbers",
    IMPOSSIBLE: "numbers that cannot be",
    TOO_FEW: "rows of too few fields",
    TOO_MANY: "rows of too many fields",
    BAD_QUOTES: "rows with quotes that cannot be read",
}


class Kind(NamedTuple):
    """What the numbers of a column may be: the least, the most, what that is in words, and words for numbers."""

    low: float
    high: float
    meaning: str
    whole: bool = False
    words: Mapping[str, str] = MappingProxyType({})


_ENTROPY = Kind(-1e-9, MOST_BITS, f"an entropy (0 to {MOST_BITS:,.0f} bits)")
_SHARE = Kind(0.0, 1.0, "a probability (0 to 1)")
_YES_OR_NO = Kind(0.0, 1.0, "a yes or no (1 or 0)", True, {"true": "1", "false": "0", "yes": "1", "no": "0"})
KINDS = {
    **{column: _SHARE if field == "unlisted" else _ENTROPY for field, three in COLUMNS.items() for column in three},
    **dict.fromkeys(("action_probability", "action_confidence"), _SHARE),
    **dict.fromkeys(("on_shortest_path", "grounded", "instructed"), _YES_OR_NO),
    "trust_T": Kind(-sys.float_info.max, sys.float_info.max, "a trust (a finite number)"),
    "step": Kind(-(2.0**53), 2.0**53, "the number of a step"),
    **dict.fromkeys(("first_episode", "chain"), Kind(-(2.0**53), 2.0**53, "the number of an episode")),
}
PRINTED = (*ENTROPY_COLUMNS, "trust_T")
"""The columns whose digits are counted, to know what rounding may have done."""


@dataclass(frozen=True, eq=False)
class StepLog:
    """What a file holds: its steps, what it says of their trust itself, and sentences about what is wrong in it."""

    name: str
    steps: Steps
    lines: Codes
    """The line that each row begins at."""
    trust_recorded: Array
    decimals: dict[str, int]
    """Digits behind the point, in the columns of entropies and of trust."""
    columns_missing: tuple[str, ...]
    delimiter: str
    episodes_from: str
    """`episode` or `step`, the column that tells episodes apart, or `nothing`."""
    notes: list[str]


def read_steps_csv(path: str | os.PathLike[str]) -> StepLog:
    """One file of steps. What is wrong with the file as a whole is an `InputError`."""
    path = local(path)
    name = shown_name(path)
    try:
        with open_regular(path, shell_pipes=True) as file:
            lines = _Lines(file, name)
            table = _Table(lines)
            table.read()
    except IsADirectoryError as error:
        inside = Path(path) / "steps.csv"
        example = f"name the file in it: {Path(name) / 'steps.csv'}" if inside.is_file() else "name CSV files"
        raise InputError(f"{name} is a folder; {example}") from error
    except FileNotFoundError as error:
        raise InputError(f"{name} is not there; check the path") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from error
    return table.log()


def shown_name(path: str | os.PathLike[str]) -> str:
    """A name as it can be written anywhere: on the disk it is made of bytes, which need not be text."""
    return shown_path(os.fsencode(path).decode("utf-8", errors="backslashreplace"))


# -- lines and the header ------------------------------------------------------------------------------------------


class _Lines:
    """The lines of an open file as text, one by one, so that a file of any size takes little memory."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.count = self.offset = 0
        """Lines and bytes that were given so far."""
        self.row_line, self.row_offset = 1, 0
        """Where the row begins that is under way, set by whoever knows: a quoted field may hold many lines."""
        self.last = b""
        self.texts = self._read(file)

    def _read(self, file: BinaryIO) -> Iterator[str]:
        while line := file.readline(LONGEST_ROW_BYTES + 1):
            self.count += 1
            if self.offset + len(line) - self.row_offset > LONGEST_ROW_BYTES:
                place = f"{self.name}, line {self.row_line}"
                raise InputError(f"{place}: the row is longer than {LONGEST_ROW_BYTES:,} bytes; this is no CSV file")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                byte = f"byte {self.offset + error.start} (0x{line[error.start]:02x})"
                raise InputError(
                    f"{self.name}, line {self.count}: {byte} is not UTF-8; save the file as UTF-8"
                ) from error
            self.last = line
            self.offset += len(line)
            yield text.removeprefix("\ufeff") if self.count == 1 else text

    @property
    def torn(self) -> bool:
        """Whether the last line was given, and has no end: it may have been cut."""
        return not self.last.endswith(b"\n")


def _header(lines: _Lines) -> tuple[dict[str, int], int, str]:
    """Where the columns are that are read, how many there are in all, and the delimiter that finds most of them.

    The header is the first line that is not blank; one with a quote left open goes on to the next.
    """
    name, wanted = lines.name, ",".join(ENTROPY_COLUMNS)
    first = next((line for line in lines.texts if line.strip()), None)
    if first is None:
        raise InputError(f"{name} is empty; its first line must name the columns, such as step,{wanted}")
    place = f"{name}, line {lines.count}"
    if "\0" in first:
        raise InputError(f"{place} holds a NUL byte, as UTF-16 and binary files do; save it as UTF-8 text")
    if "\r" in first.rstrip("\r\n"):
        raise InputError(
            f"{name}: its lines end in a lone carriage return; save it with line ends of LF, or of CR and LF"
        )
    taken = [first]

    def from_header() -> Iterator[str]:
        yield from taken
        for line in lines.texts:
            taken.append(line)
            yield line

    readers = {sign: csv.reader(from_header(), delimiter=sign) for sign in DELIMITERS}
    try:
        headers = {sign: [cell.strip() for cell in next(reader)] for sign, reader in readers.items()}
    except csv.Error as error:
        raise InputError(f"{place} cannot be read as the header of a CSV file: {error}") from error
    delimiter = max(DELIMITERS, key=lambda sign: len(_places(headers[sign])))
    names, places = headers[delimiter], _places(headers[delimiter])
    if not any(column in places for column in ENTROPY_COLUMNS):
        filled = [cell for cell in re.split(r"[,;\t]", ",".join(names)) if cell]
        if filled and len(_numbers_in(filled, False, {})[1]) * 2 <= len(filled):
            raise InputError(
                f"{place} holds numbers where the names of the columns should be; put a header above it, such as "
                f"step,{wanted}"
            )
        shown = ", ".join(names)
        if len(shown) > SHOWN_HEADER_CHARACTERS:
            shown = f"{shown[:SHOWN_HEADER_CHARACTERS]}… ({len(names):,} in all)"
        raise InputError(
            f"{name} has none of the columns {', '.join(ENTROPY_COLUMNS)}; it has {shown or 'none at all'}"
        )
    for column, at in places.items():
        if len(at) > 1:
            raise InputError(
                f"{name} names the column {column} {len(at)} times, as its columns {at[0] + 1} and "
                f"{at[1] + 1}; which one counts cannot be known, so rename the other"
            )
    if readers[delimiter].line_num < len(taken):
        raise InputError(f"{place}: a quote that is opened there is never closed; take it out, or close it")
    return {column: at[0] for column, at in places.items()}, len(names), delimiter


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    """Where each column stands that is read, whatever its capitals."""
    known = {column.casefold(): column for column in (*KINDS, "episode")}
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if (column := known.get(name.casefold())) is not None:
            places.setdefault(column, []).append(place)
    return places


# -- rows ----------------------------------------------------------------------------------------------------------


class _Table:
    """The columns of a file, portion by portion."""

    def __init__(self, lines: _Lines) -> None:
        self.lines = lines
        self.places, self.width, self.delimiter = _header(lines)
        self.blank = [""] * self.width
        self.rows: list[list[str]] = []
        """Those that are not numbers yet; one that cannot be used is blank."""
        self.begins: list[int] = []
        """The line that each begins at."""
        self.faults: list[tuple[int, int, str]] = []
        """From and up to which of these rows, and why they cannot be used."""
        self.portions: list[dict[str, NDArray[Any]]] = []
        self.episodes: dict[str, int] = {}
        self.decimals: dict[str, int] = {}
        self.remarks: dict[str, list[tuple[int, str]]] = {}
        """Of each kind the first few, with their lines."""
        self.counts: Counter[str] = Counter()

    def read(self) -> None:
        """Every row but blank lines.

        A row of another length than the header is not used at all: where one field was dropped, or a comma was not put
        in quotes, every number behind it would be read as another.
        """
        lines, rows, begins, width = self.lines, self.rows, self.begins, self.width
        reader = csv.reader(lines.texts, delimiter=self.delimiter, strict=True)
        taken = lines.offset
        while True:
            begin = lines.row_line = lines.count + 1
            lines.row_offset = lines.offset
            try:
                fields = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._add_bad_quotes(str(error), begin)
                continue
            if len(fields) == width:
                rows.append(fields)
                begins.append(begin)
            elif fields:
                self._add_other_length(fields, begin)
            if len(rows) >= ROWS_AT_A_TIME or lines.offset - taken > LONGEST_ROW_BYTES:
                self._take()
                taken = lines.offset
        self._take()

    def _add_fault(self, reason: str, line: int, words: str, rows: int = 1) -> None:
        self._remark(reason, line, words)
        self.faults.append((len(self.rows), len(self.rows) + rows, reason))
        self.rows += [self.blank] * rows
        self.begins += [line] * rows

    def _add_other_length(self, fields: list[str], line: int) -> None:
        count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
        if len(fields) < self.width and self.lines.torn:
            self._add_fault(TORN, line, f"the last line breaks off after {count} of {self.width}, and is not used")
        else:
            reason = TOO_FEW if len(fields) < self.width else TOO_MANY
            self._add_fault(reason, line, f"{count} where the header has {self.width}, so that the row is not used")

    def _add_bad_quotes(self, error: str, line: int) -> None:
        lost = self.lines.count - line + 1
        if "limit" in error:
            raise InputError(
                f"{self.lines.name}, line {line}: a field is longer than {csv.field_size_limit():,} characters; a "
                "quote that is opened there is perhaps never closed"
            )
        if "end of data" not in error:
            self._add_fault(BAD_QUOTES, line, f"the row cannot be read as CSV ({error}), and is not used")
        elif lost == 1 and self.lines.torn:
            self._add_fault(TORN, line, "the last line breaks off within quotes, and is not used")
        else:
            which = "the line is" if lost == 1 else f"the {lost:,} lines from there to the end are"
            words = f"a quote that is opened there is never closed: {which} lost"
            self._add_fault(OPEN_QUOTE, line, words, lost)

    def _remark(self, kind: str, line: int, words: str) -> None:
        self.counts[kind] += 1
        self.remarks.setdefault(kind, []).append((line, words))

    # -- columns ---------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        """The rows read so far as a portion of numbers."""
        rows = self.rows
        portion: dict[str, NDArray[Any]] = {"line": np.array(self.begins, dtype=np.int64)}
        reason = portion["reason"] = np.full((len(rows), 3), REASONS.index(NO_COLUMN), dtype=np.uint16)
        for column, kind in KINDS.items():
            if (place := self.places.get(column)) is not None:
                portion[column], codes = self._column(column, kind, [fields[place] for fields in rows])
                if column in ENTROPY_COLUMNS:
                    reason[:, ENTROPY_COLUMNS.index(column)] = codes
        usable = np.ones(len(rows), dtype=np.bool_)
        for start, end, why in self.faults:
            reason[start:end], usable[start:end] = REASONS.index(why), False
        if (place := self.places.get("episode")) is not None:
            labels = [fields[place] for fields in rows]
            names = {label: from_text(label).strip() or NAMELESS for label in compress(labels, usable.tolist())}
            codes_of = {label: self.episodes.setdefault(name, len(self.episodes)) for label, name in names.items()}
            portion["episode"] = np.array([codes_of.get(label, -1) for label in labels], dtype=np.int64)
            portion["episode"][~usable] = -1
        self.portions.append(portion)
        for remarks in self.remarks.values():
            remarks[:] = sorted(remarks)[:SHOWN_PLACES]
        for taken in (rows, self.begins, self.faults):
            taken.clear()

    def _column(self, column: str, kind: Kind, texts: list[str]) -> tuple[Array, NDArray[np.uint16]]:
        """The numbers of a column, and why they are missing where they are."""
        values, unreadable = _numbers_in(texts, self.delimiter == ";", kind.words)
        outside = (values < kind.low) | (values > kind.high)
        if kind.whole:
            outside |= np.floor(values) < values
        codes = np.where(np.isnan(values), REASONS.index(EMPTY), 0).astype(np.uint16)
        for reason, places, words in (
            (UNREADABLE, unreadable, "is not a number"),
            (IMPOSSIBLE, np.flatnonzero(outside).tolist(), f"cannot be {kind.meaning}"),
        ):
            for i in places:
                codes[i], values[i] = REASONS.index(reason), np.nan
                text = texts[i] if len(texts[i]) <= SHOWN_CHARACTERS else f"{texts[i][:SHOWN_CHARACTERS]}…"
                self._remark(reason, self.begins[i], f"{column} {text!r} {words}")
        if column in PRINTED:
            first = zip(texts[:ROWS_FOR_DECIMALS], values[:ROWS_FOR_DECIMALS], strict=True)
            printed = [text.strip().lower().replace(",", ".") for text, value in first if value == value]
            # a number with an exponent is not rounded to any
            digits = [17 if "e" in text else len(text.partition(".")[2]) for text in printed]
            self.decimals[column] = max(self.decimals.get(column, 0), *digits, 0)
        return values, codes

    def log(self) -> StepLog:
        """What all portions hold together."""
        joined = {name: np.concatenate([part.pop(name) for part in self.portions]) for name in list(self.portions[0])}
        nothing = np.broadcast_to(np.nan, len(joined["line"]))
        columns = {name: joined.get(name, nothing) for name in (*PLAIN, "first_episode", "chain")}
        columns["confidence"] = joined.get("action_confidence", columns["action_probability"])
        for name, three in COLUMNS.items():
            if joined.keys().isdisjoint(three):
                columns[name] = np.broadcast_to(np.nan, (len(nothing), 3))
            else:
                columns[name] = np.column_stack([joined.pop(column, nothing) for column in three])
        source = next((column for column in ("episode", "step") if column in self.places), "nothing")
        if source == "episode":  # a row that cannot be used, -1, goes with the row before it
            codes = joined["episode"]
            known = np.maximum.accumulate(np.where(codes < 0, 0, np.arange(len(codes))))
            codes = np.maximum(codes[known], 0)
            episodes = tuple(self.episodes) or (NAMELESS,) * bool(len(codes))
        else:
            episodes, codes = _by_step(joined.get("step", nothing))
        steps = Steps.from_columns(episodes, codes, REASONS, joined["reason"], columns)
        missing = tuple(column for column in ENTROPY_COLUMNS if column not in self.places)
        name = self.lines.name
        notes = [
            *self._about_file(name, missing, steps, source),
            *(f"{name}, line {line}: {words}" for line, words in sorted(chain(*self.remarks.values()))),
            *(f"{name}: {n - SHOWN_PLACES:,} more {MORE[kind]}" for kind, n in self.counts.items() if n > SHOWN_PLACES),
        ]
        trust = joined.get("trust_T", nothing)
        return StepLog(name, steps, joined["line"], trust, self.decimals, missing, self.delimiter, source, notes)

    def _about_file(self, name: str, missing: tuple[str, ...], steps: Steps, source: str) -> Iterator[str]:
        if not len(steps):
            yield f"{name} holds a header and no row"
            return
        if missing:
            columns = f"columns {', '.join(missing)}" if len(missing) > 1 else f"column {missing[0]}"
            yield f"{name} has no {columns}, so that none of its rows is complete"
        if source == "step" and (count := len(steps.episodes)) > 1:
            yield f"{name} has no column episode: its rows are taken as {count:,} episodes, each from where step falls"
        if source == "nothing":
            yield f"{name} has no column episode or step: its rows are taken as one episode"
        judged = {"action_probability", "on_shortest_path"} <= self.places.keys()
        if judged and "action_confidence" not in self.places:
            yield (
                f"{name} has no column action_confidence: the confidence of an action is its own probability, which is "
                "too low where several actions are equally good"
            )
        nameless = steps.episodes.index(NAMELESS) if NAMELESS in steps.episodes else -1
        if count := int((steps.episode == nameless).sum()):
            rows = "1 row names no episode and is" if count == 1 else f"{count:,} rows name no episode and are"
            yield f"{name}: {rows} taken as one, {NAMELESS}"


# -- fields --------------------------------------------------------------------------------------------------------


def _numbers_in(texts: list[str], decimal_comma: bool, words: Mapping[str, str]) -> tuple[Array, list[int]]:
    """The texts as numbers, NaN where there is none, and the places of those that say something else."""
    if decimal_comma:
        texts = [text.replace(",", ".") if "." not in text else text for text in texts]
    if "_" not in "".join(texts):  # 1_000 is a number to Python, and to no one else
        full = texts if all(texts) else [text or "nan" for text in texts]
        try:  # the quick way, for numbers and empty fields
            return np.fromiter(map(float, full), dtype=np.float64, count=len(full)), []
        except ValueError:
            pass
    numbers = [_number(text, words) for text in texts]
    return np.array(numbers, dtype=np.float64), [place for place, value in enumerate(numbers) if value is None]


def _number(text: str, words: Mapping[str, str]) -> float | None:
    """NaN for a missing number, None for what is none."""
    bare = text.strip().casefold()
    if bare in MISSING_WORDS:
        return np.nan
    try:
        return None if "_" in bare else float(words.get(bare, bare))
    except ValueError:
        return None


# -- episodes ------------------------------------------------------------------------------------------------------


def _by_step(step: Array) -> tuple[tuple[str, ...], Codes]:
    """A new episode begins where the step falls, or rises in a log that is written newest first.

    A step that is there twice is no new episode.
    """
    known = np.flatnonzero(~np.isnan(step))
    change = np.diff(step[known])
    newest_first = np.count_nonzero(change < 0) > np.count_nonzero(change > 0)
    begins = np.zeros(len(step), dtype=np.int64)
    begins[known[1:]] = change > 0 if newest_first else change < 0
    codes = np.cumsum(begins)
    count = int(codes.max(initial=-1)) + 1
    return tuple(str(number) for number in range(1, count + 1)), codes
