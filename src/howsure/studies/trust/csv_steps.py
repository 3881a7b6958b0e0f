"""A CSV file of steps, from rows to columns of numbers: three entropies in bits, and what else stands beside them.

A field that is empty, or says nan, none, null or n/a, is missing. One that is no number, and a number that cannot be
what its column says, are missing too, under reasons of their own and with the line they stand in.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.runs.files import from_text
from howsure.storage import local, shown_path
from howsure.studies.trust.csv_lines import (
    BAD_QUOTES,
    ENTROPY_COLUMNS,
    EXACT_COLUMNS,
    HIGH_COLUMNS,
    LOW_COLUMNS,
    OPEN_QUOTE,
    TOO_FEW,
    TOO_MANY,
    TORN,
    UNLISTED_COLUMNS,
    Header,
    Lines,
    Rows,
    open_log,
    read_header,
    read_rows,
)
from howsure.studies.trust.steps import Array, Codes, Reasons, Steps, bounds, units

EMPTY, UNREADABLE, IMPOSSIBLE, NO_COLUMN = "empty_field", "unreadable", "impossible", "no_column"
REASONS = ("", EMPTY, UNREADABLE, IMPOSSIBLE, NO_COLUMN, TOO_FEW, TOO_MANY, TORN, OPEN_QUOTE, BAD_QUOTES)
MISSING_WORDS = frozenset({"", "nan", "none", "null", "n/a", "na", "<na>"})

MOST_BITS = 1e6
"""More than the entropy of any action; a number beyond it belongs to another column."""

NAMELESS = "(no episode)"
SHOWN_PLACES = 3
"""Sentences about single lines, of each kind; the others are counted."""

SHOWN_CHARACTERS = 60
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
    **dict.fromkeys((*ENTROPY_COLUMNS, *EXACT_COLUMNS, *LOW_COLUMNS, *HIGH_COLUMNS), _ENTROPY),
    **dict.fromkeys((*UNLISTED_COLUMNS, "action_probability", "action_confidence"), _SHARE),
    **dict.fromkeys(("on_shortest_path", "grounded", "instructed"), _YES_OR_NO),
    "trust_T": Kind(-sys.float_info.max, sys.float_info.max, "a trust (a finite number)"),
    "step": Kind(-(2.0**53), 2.0**53, "the number of a step"),
    **dict.fromkeys(("first_episode", "chain"), Kind(-(2.0**53), 2.0**53, "the number of an episode")),
}
PRINTED = (*ENTROPY_COLUMNS, "trust_T")
"""The columns whose digits are counted, to know what rounding may have done."""


@dataclass
class Remarks:
    """Sentences about lines of a file: the first few of each kind, and how many more there are."""

    name: str
    shown: list[tuple[int, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, line: int, words: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN_PLACES:
            self.shown.append((line, words))

    def sentences(self) -> list[str]:
        """In the order of the lines."""
        shown = [f"{self.name}, line {line}: {words}" for line, words in sorted(self.shown)]
        more = [(kind, count - SHOWN_PLACES) for kind, count in self.counts.items() if count > SHOWN_PLACES]
        return [*shown, *(f"{self.name}: {count:,} more {MORE[kind]}" for kind, count in more)]


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


class _Portion(NamedTuple):
    lines: Codes
    numbers: dict[str, Array]
    reason: Reasons
    episode: Codes


def read_steps_csv(path: str | os.PathLike[str]) -> StepLog:
    """One file of steps. What is wrong with the file as a whole is an `InputError`."""
    path = local(path)
    name = shown_name(path)
    with open_log(path, name) as file:
        taken = Lines(file, name)
        lines = iter(taken)
        header = read_header(lines, name, taken)
        table = _Table(header, Remarks(name))
        for rows in read_rows(lines, header, name, taken):
            table.add(rows)
    return table.log(name)


def shown_name(path: str | os.PathLike[str]) -> str:
    """A name as it can be written anywhere: on the disk it is made of bytes, which need not be text."""
    return shown_path(os.fsencode(path).decode("utf-8", errors="backslashreplace"))


@dataclass
class _Table:
    """The columns of a file, portion by portion."""

    header: Header
    remarks: Remarks
    portions: list[_Portion] = field(default_factory=list)
    episodes: dict[str, int] = field(default_factory=dict)
    episode: int = 0
    """That of the last row, as a place in `episodes`."""
    decimals: dict[str, int] = field(default_factory=dict)

    def add(self, rows: Rows) -> None:
        for line, fault in {rows.lines[place]: fault for place, fault in rows.faults.items()}.items():
            self.remarks.add(fault.reason, line, fault.words)
        reason = np.full((len(rows.lines), 3), REASONS.index(NO_COLUMN), dtype=np.uint16)
        numbers = {}
        for column, kind in KINDS.items():
            if column in self.header.places:
                numbers[column], codes = self._column(column, kind, rows)
                if column in ENTROPY_COLUMNS:
                    reason[:, ENTROPY_COLUMNS.index(column)] = codes
        for place, fault in rows.faults.items():
            reason[place] = REASONS.index(fault.reason)
        self.portions.append(_Portion(np.array(rows.lines, dtype=np.int64), numbers, reason, self._labels(rows)))

    def _column(self, column: str, kind: Kind, rows: Rows) -> tuple[Array, Reasons]:
        """The numbers of a column, and why they are missing where they are."""
        place = self.header.places[column]
        texts = [fields[place] for fields in rows.fields]
        values, bad = numbers_in(texts, self.header.decimal_comma, kind.words)
        codes = np.where(np.isnan(values), REASONS.index(EMPTY), 0).astype(np.uint16)
        for i in bad:
            codes[i] = REASONS.index(UNREADABLE)
            self.remarks.add(UNREADABLE, rows.lines[i], f"{column} {_short(texts[i])} is not a number")
        for i in np.flatnonzero(_outside(values, kind)).tolist():
            codes[i], values[i] = REASONS.index(IMPOSSIBLE), np.nan
            self.remarks.add(IMPOSSIBLE, rows.lines[i], f"{column} {_short(texts[i])} cannot be {kind.meaning}")
        if column in PRINTED:
            digits = _decimals(texts[:ROWS_FOR_DECIMALS], values[:ROWS_FOR_DECIMALS])
            self.decimals[column] = max(self.decimals.get(column, 0), digits)
        return values, codes

    def _labels(self, rows: Rows) -> Codes:
        """The episode of each row by its label; a row that cannot be used goes with the row before it."""
        if "episode" not in self.header.places:
            return np.empty(0, dtype=np.int64)
        place = self.header.places["episode"]
        labels = [fields[place] for fields in rows.fields]
        told = (label for row, label in enumerate(labels) if row not in rows.faults) if rows.faults else labels
        known = {label: from_text(label).strip() or NAMELESS for label in told}
        places = {label: self.episodes.setdefault(name, len(self.episodes)) for label, name in known.items()}
        codes = [places.get(label, 0) for label in labels]
        for row in sorted(rows.faults):
            codes[row] = codes[row - 1] if row else self.episode
        self.episode = codes[-1]
        return np.array(codes, dtype=np.int64)

    def log(self, name: str) -> StepLog:
        source = next((column for column in ("episode", "step") if column in self.header.places), "nothing")
        episodes, codes = self._episodes(self._numbers("step"))
        bits, *known = (
            np.column_stack([self._numbers(column) for column in columns])
            for columns in (ENTROPY_COLUMNS, EXACT_COLUMNS, LOW_COLUMNS, HIGH_COLUMNS, UNLISTED_COLUMNS)
        )
        low, high = bounds(bits, *known)
        believed = self._numbers("action_probability")
        confidence = self._numbers("action_confidence") if "action_confidence" in self.header.places else believed
        path = self._numbers("on_shortest_path")
        numbers = np.column_stack([bits, believed, confidence, path])
        steps = Steps(
            episodes=episodes,
            episode=codes,
            unit=units(episodes, codes, self._numbers("first_episode"), self._numbers("chain"), numbers),
            reasons=REASONS,
            reason=np.concatenate([np.empty((0, 3), dtype=np.uint16), *(part.reason for part in self.portions)]),
            bits=bits,
            low=low,
            high=high,
            action_probability=believed,
            confidence=confidence,
            on_shortest_path=path,
            grounded=self._numbers("grounded"),
            instructed=self._numbers("instructed"),
        )
        lines = np.concatenate([np.empty(0, dtype=np.int64), *(part.lines for part in self.portions)])
        missing = tuple(column for column in ENTROPY_COLUMNS if column not in self.header.places)
        notes = [*self._about_file(name, missing, steps, source), *self.remarks.sentences()]
        delimiter, recorded = self.header.delimiter, self._numbers("trust_T")
        return StepLog(name, steps, lines, recorded, self.decimals, missing, delimiter, source, notes)

    def _numbers(self, column: str) -> Array:
        """A whole column; all missing where the file has none."""
        if column in self.header.places:
            return np.concatenate([np.empty(0), *(part.numbers[column] for part in self.portions)])
        return np.full(sum(len(part.lines) for part in self.portions), np.nan)

    def _episodes(self, step: Array) -> tuple[tuple[str, ...], Codes]:
        if "episode" not in self.header.places:
            return _by_step(step)
        codes = np.concatenate([np.empty(0, dtype=np.int64), *(part.episode for part in self.portions)])
        return tuple(self.episodes) or ((NAMELESS,) if len(codes) else ()), codes

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
        judged = {"action_probability", "on_shortest_path"} <= self.header.places.keys()
        if judged and "action_confidence" not in self.header.places:
            yield (
                f"{name} has no column action_confidence: the confidence of an action is its own probability, which is "
                "too low where several actions are equally good"
            )
        nameless = steps.episodes.index(NAMELESS) if NAMELESS in steps.episodes else -1
        if count := int((steps.episode == nameless).sum()):
            rows = "1 row names no episode and is" if count == 1 else f"{count:,} rows name no episode and are"
            yield f"{name}: {rows} taken as one, {NAMELESS}"


# -- fields --------------------------------------------------------------------------------------------------------


def numbers_in(texts: list[str], decimal_comma: bool, words: Mapping[str, str]) -> tuple[Array, list[int]]:
    """The texts as numbers, NaN where there is none, and the places of those that say something else."""
    if decimal_comma:
        texts = [text.replace(",", ".") if "." not in text else text for text in texts]
    plain = _plain_numbers(texts)
    if plain is not None:
        return plain, []
    numbers = [_number(text, words) for text in texts]
    bad = [place for place, value in enumerate(numbers) if value is None]
    return np.array(numbers, dtype=np.float64), bad


def _plain_numbers(texts: list[str]) -> Array | None:
    """The quick way, for numbers and empty fields; None where there is anything else."""
    if "_" in "".join(texts):  # 1_000 is a number to Python, and to no one else
        return None
    full = texts if all(texts) else [text or "nan" for text in texts]
    try:
        return np.fromiter(map(float, full), dtype=np.float64, count=len(full))
    except ValueError:
        return None


def _outside(values: Array, kind: Kind) -> NDArray[np.bool_]:
    outside = (values < kind.low) | (values > kind.high)
    return outside | (np.floor(values) < values) if kind.whole else outside


def _number(text: str, words: Mapping[str, str]) -> float | None:
    """NaN for a missing number, None for what is none."""
    bare = text.strip().casefold()
    if bare in MISSING_WORDS:
        return np.nan
    try:
        return None if "_" in bare else float(words.get(bare, bare))
    except ValueError:
        return None


def _decimals(texts: Sequence[str], values: Array) -> int:
    """The most digits behind the point; a number with an exponent is not rounded to any."""
    printed = [text.strip().lower() for text, value in zip(texts, values, strict=True) if value == value]
    return max((17 if "e" in text else len(text.replace(",", ".").partition(".")[2]) for text in printed), default=0)


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")


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
