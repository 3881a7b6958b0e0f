"""A CSV file of steps, from bytes to rows: its encoding, its header, its delimiter, and what is wrong with a row.

Nothing is guessed from the data but the delimiter, and that from the header alone. A file that cannot be read is an
error; a row that cannot be is a row still, under a reason.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from howsure.errors import InputError
from howsure.storage import open_regular

ENTROPY_COLUMNS = ("entropy_H_X", "entropy_H_X_given_S", "entropy_H_X_given_LS")
EXACT_COLUMNS = ("entropy_exact_H_X", "entropy_exact_H_X_given_S", "entropy_exact_H_X_given_LS")
LOW_COLUMNS = ("entropy_low_H_X", "entropy_low_H_X_given_S", "entropy_low_H_X_given_LS")
HIGH_COLUMNS = ("entropy_high_H_X", "entropy_high_H_X_given_S", "entropy_high_H_X_given_LS")
UNLISTED_COLUMNS = ("unlisted_H_X", "unlisted_H_X_given_S", "unlisted_H_X_given_LS")
OTHER_COLUMNS = (
    "step",
    "episode",
    "trust_T",
    "action_probability",
    "action_confidence",
    "on_shortest_path",
    "grounded",
    "instructed",
    "first_episode",
    "chain",
    *EXACT_COLUMNS,
    *LOW_COLUMNS,
    *HIGH_COLUMNS,
    *UNLISTED_COLUMNS,
)
DELIMITERS = (",", ";", "\t")
LONGEST_LINE_BYTES = 16_000_000
BLOCK_BYTES = 1 << 18
BREAK = b"\n"
ROWS_AT_A_TIME = 2_048
"""Few enough to stay in the processor's cache until they are numbers."""

SHOWN_CHARACTERS = 300
"""Of the names in a file that an error repeats."""

TOO_FEW, TOO_MANY, TORN = "too_few_fields", "too_many_fields", "torn_last_line"
OPEN_QUOTE, BAD_QUOTES = "open_quote", "bad_quotes"


class Header(NamedTuple):
    """Where the columns are that are read, how many there are in all, and what stands between them."""

    places: dict[str, int]
    width: int
    delimiter: str
    lines: int
    """Lines of the file down to the end of the header."""

    @property
    def decimal_comma(self) -> bool:
        """Where commas do not stand between fields, they stand within numbers."""
        return self.delimiter == ";"


class Fault(NamedTuple):
    """A row that cannot be used, for a reason, and what is wrong with it in words; it stands for so many rows."""

    reason: str
    words: str
    rows: int = 1


class Rows(NamedTuple):
    """Some rows of a file: the line that each begins at, its fields, as many as the header has, and faults by place.

    The fields of a row at fault are all empty.
    """

    lines: list[int]
    fields: list[list[str]]
    faults: dict[int, Fault]

    def add_fault(self, line: int, fault: Fault, width: int) -> None:
        for _ in range(fault.rows):
            self.faults[len(self.lines)] = fault
            self.lines.append(line)
            self.fields.append([""] * width)


@dataclass
class Lines:
    """The lines of an open file as text, one by one, so that a file of any size takes little memory."""

    file: BinaryIO
    name: str
    count: int = 0
    offset: int = 0
    ended: bool = True
    """Whether the last line has its end; one that has not may have been cut."""
    done: bool = False

    def __iter__(self) -> Iterator[str]:
        rest = b""
        while block := self.file.read(BLOCK_BYTES):
            whole, end, rest = (rest + block).rpartition(BREAK)
            yield from self._lines(whole + end)
            if len(rest) > LONGEST_LINE_BYTES:
                line = f"{self.name}, line {self.count + 1}"
                raise InputError(f"{line} is longer than {LONGEST_LINE_BYTES:,} bytes: this is no CSV file")
        self.ended = not rest
        yield from self._lines(rest)
        self.done = True

    def _lines(self, data: bytes) -> Iterator[str]:
        if self.offset == 0 and data.startswith(codecs.BOM_UTF8):
            self.offset, data = len(codecs.BOM_UTF8), data[len(codecs.BOM_UTF8) :]
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"{self.name}, line {self.count + data.count(BREAK, 0, error.start) + 1}"
            byte = f"byte {self.offset + error.start} (0x{data[error.start]:02x})"
            raise InputError(f"{place}: {byte} is not UTF-8; save the file as UTF-8") from error
        self.offset += len(data)
        for line in io.StringIO(text, newline="\n"):
            self.count += 1
            yield line


def open_log(path: str | os.PathLike[str], name: str) -> BinaryIO:
    """The file, opened; a folder, a device and a file that is not there are told apart."""
    try:
        return open_regular(path, shell_pipes=True)
    except InputError:
        raise
    except IsADirectoryError as error:
        inside = Path(path) / "steps.csv"
        example = f"name the file in it: {Path(name) / 'steps.csv'}" if inside.is_file() else "name CSV files"
        raise InputError(f"{name} is a folder; {example}") from error
    except FileNotFoundError as error:
        raise InputError(f"{name} is not there; check the path") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from error


# -- the header ----------------------------------------------------------------------------------------------------


def read_header(lines: Iterator[str], name: str, taken: Lines) -> Header:
    """The first line that is not blank; one with a quote left open goes on to the next."""
    text = next((line for line in lines if line.strip()), None)
    if text is None:
        raise InputError(f"{name} is empty; its first line must name the columns, such as step,{_wanted(',')}")
    _check_signs(text, name, taken.count)
    while text.count('"') % 2 and len(text) < LONGEST_LINE_BYTES and (more := next(lines, None)) is not None:
        text += more
    place = f"{name}, line {taken.count}"
    delimiter = max(DELIMITERS, key=lambda sign: len(_known(_names(text, sign, place))))
    names = _names(text, delimiter, place)
    places = _known(names)
    if not any(column in places for column in ENTROPY_COLUMNS):
        raise _no_entropies(names, name, taken.count)
    for column in places:
        _check_single(column, names, name)
    return Header(places, len(names), delimiter, taken.count)


def _check_signs(text: str, name: str, line: int) -> None:
    if "\0" in text:
        raise InputError(f"{name}, line {line} holds a NUL byte, as UTF-16 and binary files do; save it as UTF-8 text")
    if "\r" in text.rstrip("\r\n"):
        raise InputError(
            f"{name}: its lines end in a lone carriage return; save it with line ends of LF, or of CR and LF"
        )


def _names(text: str, delimiter: str, place: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))]
    except csv.Error as error:
        raise InputError(f"{place} cannot be read as the header of a CSV file: {error}") from error


def _known(names: list[str]) -> dict[str, int]:
    """The first place of each column that we read, whatever its capitals."""
    folded = [cell.casefold() for cell in names]
    columns = (*ENTROPY_COLUMNS, *OTHER_COLUMNS)
    return {column: folded.index(column.casefold()) for column in columns if column.casefold() in folded}


def _check_single(column: str, names: list[str], name: str) -> None:
    places = [place for place, cell in enumerate(names, 1) if cell.casefold() == column.casefold()]
    if len(places) > 1:
        raise InputError(
            f"{name} names the column {column} {len(places)} times, as its columns {places[0]} and {places[1]}; which "
            "one counts cannot be known, so rename the other"
        )


def _no_entropies(names: list[str], name: str, line: int) -> InputError:
    filled = [cell for cell in re.split(r"[,;\t]", ",".join(names)) if cell]
    if filled and sum(map(_is_number, filled)) * 2 >= len(filled):
        return InputError(
            f"{name}, line {line} holds numbers where the names of the columns should be; put a header above it, such "
            f"as step,{_wanted(',')}"
        )
    listed = ", ".join(names)
    shown = listed if len(listed) <= SHOWN_CHARACTERS else f"{listed[:SHOWN_CHARACTERS]}… ({len(names):,} in all)"
    return InputError(f"{name} has none of the columns {_wanted(', ')}; it has {shown or 'none at all'}")


def _wanted(between: str) -> str:
    return between.join(ENTROPY_COLUMNS)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- rows ----------------------------------------------------------------------------------------------------------


def read_rows(lines: Iterator[str], header: Header, name: str, taken: Lines) -> Iterator[Rows]:
    """Every row but blank lines, some at a time.

    A row of another length than the header is not used at all: where one field was dropped, or a comma was not put in
    quotes, every number behind it would be read as another.
    """
    reader = csv.reader(lines, delimiter=header.delimiter, strict=True)
    line = header.lines + 1
    while not taken.done:
        read, error = _read_some(reader)
        rows, line = _placed(read, line, header.lines + reader.line_num + 1, header, taken)
        if error is not None:
            last = header.lines + reader.line_num
            rows.add_fault(line, _of_bad_quotes(str(error), name, line, last, taken), header.width)
            line = last + 1
        if rows.lines:
            yield rows


def _read_some(reader: Iterator[list[str]]) -> tuple[list[list[str]], csv.Error | None]:
    """The next rows, and what ended them before their time."""
    read: list[list[str]] = []
    try:
        for fields in islice(reader, ROWS_AT_A_TIME):
            read.append(fields)  # one by one: what was read before an error is kept
    except csv.Error as error:
        return read, error
    return read, None


def _placed(read: list[list[str]], line: int, behind: int, header: Header, taken: Lines) -> tuple[Rows, int]:
    """Rows with their lines, and the line behind them; a blank line is no row."""
    if behind - line == len(read) and set(map(len, read)) <= {header.width}:
        return Rows(list(range(line, behind)), read, {}), behind
    rows = Rows([], [], {})
    for fields in read:
        if len(fields) == header.width:
            rows.lines.append(line)
            rows.fields.append(fields)
        elif fields:
            torn = not taken.ended and fields is read[-1]
            rows.add_fault(line, _of_other_length(fields, header.width, torn), header.width)
        line += 1 + sum(field.count("\n") for field in fields)
    return rows, line


def _of_other_length(fields: list[str], width: int, torn: bool) -> Fault:
    count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
    if len(fields) < width and torn:
        return Fault(TORN, f"the last line breaks off after {count} of {width}, and is not used")
    return Fault(
        TOO_FEW if len(fields) < width else TOO_MANY,
        f"{count} where the header has {width}, so that the row is not used",
    )


def _of_bad_quotes(error: str, name: str, first: int, last: int, taken: Lines) -> Fault:
    if "limit" in error:
        raise InputError(
            f"{name}, line {first}: a field is longer than {csv.field_size_limit():,} characters; a quote that is "
            "opened there is perhaps never closed"
        )
    if "end of data" not in error:
        return Fault(BAD_QUOTES, f"the row cannot be read as CSV ({error}), and is not used")
    if first == last and not taken.ended:
        return Fault(TORN, "the last line breaks off within quotes, and is not used")
    lost = last - first + 1
    rows = "the line is" if lost == 1 else f"the {lost:,} lines from there to the end are"
    return Fault(OPEN_QUOTE, f"a quote that is opened there is never closed: {rows} lost", lost)
