"""Text from outside, made safe to print, and numbers, made quick to read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from howsure.types import Fields

Entry = Mapping[str, Any] | Fields
"""A figure as a struct or as JSON: `value`, `unit`, `low`, `high`, `approximate`, `note`."""

_STEERING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, the C1 ones too: U+009B does what ESC [ does
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction, which show text in another order
    r"\u2028\u2029\ufff9-\ufffb\ud800-\udfff"  # line breaks, annotations, halves of characters
)
_IN_TEXT, _IN_A_LINE = re.compile(f"[{_STEERING}]"), re.compile(rf"[{_STEERING}\t\n]")


def printable(text: str, *, one_line: bool = False) -> str:
    """Control characters become visible signs, so that no text can move the cursor or recolour the screen."""
    return (_IN_A_LINE if one_line else _IN_TEXT).sub(_visible, text)


def printable_json(text: str) -> str:
    """JSON that means the same, with those characters in it written as \\uXXXX; JSON itself spares some of them."""
    return _IN_TEXT.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def quoted(token: str) -> str:
    """A token as one visible word: «⏎», «␣» only where the token is nothing but space."""
    shown = printable(token, one_line=True)
    return f"«{shown}»" if shown.strip() else f"«{shown.replace(' ', '␣')}»"


def figure(entry: Entry) -> str:
    """`accuracy 55.0 % (40.0 to 69.3 %)`, from a summary's headline entry, with the note that qualifies it."""
    return f"{entry['name']} {value_with_interval(entry)}"


_MOST_DIGITS = 9
_UNITS = {"share": (100.0, "%", 1), "of 1000": (1.0, "of 1000", 1)}
"""By what a value is multiplied, the unit that is shown, and so many decimals."""


def value_with_interval(entry: Entry) -> str:
    """`55.0 % (40.0 to 69.3 %)`, or `0.34 (about 0.28 to 0.41; 6 episodes)` where the interval holds only roughly."""
    value, note = entry["value"], entry.get("note")
    if value is None:
        return f"— ({note})" if note else "—"
    told = [part for part in (interval_of(entry), note) if part]
    return f"{value_of(entry)} ({'; '.join(told)})" if told else value_of(entry)


def value_of(entry: Entry) -> str:
    """`55.0 %`: the value alone."""
    scale, unit, digits = _form(entry)
    if entry["value"] is None:
        return "—"
    return f"{_decimals(entry['value'] * scale, _digits_of(entry, scale, digits))} {unit}".rstrip()


def _form(entry: Entry) -> tuple[float, str, int]:
    scale, unit, digits = _UNITS.get(entry["unit"], (1.0, entry["unit"], 3))
    return scale, unit, digits if entry.get("decimals") is None else entry["decimals"]


def interval_of(entry: Entry) -> str:
    """`40.0 to 69.3`, in the unit that the value is shown in; nothing where there is no interval."""
    scale, _, digits = _form(entry)
    return interval_text(entry, scale, digits)


def interval_text(entry: Entry, scale: float = 1.0, digits: int = 3, prefix: str = "") -> str:
    """`0.280 to 0.360`, `about 0.280 to 0.360`, or nothing where there is no interval; names may have a prefix."""
    low, high = entry.get(f"{prefix}low"), entry.get(f"{prefix}high")
    if low is None or high is None:
        return ""
    about = "about " if entry.get(f"{prefix}approximate") else ""
    digits = _digits_of(entry, scale, digits, prefix)
    return f"{about}{_decimals(low * scale, digits)} to {_decimals(high * scale, digits)}"


def _digits_of(entry: Entry, scale: float, digits: int, prefix: str = "") -> int:
    """As many decimals as the interval supports, two of its width and at most so many; more where its ends would look
    like a single number. Shares keep the one that everybody gives them."""
    low, high = entry.get(f"{prefix}low"), entry.get(f"{prefix}high")
    if low is None or high is None or not low < high:
        return digits
    width = (high - low) * scale
    if digits > 1 and math.isfinite(width):
        digits = min(digits, max(0, 1 - math.floor(math.log10(width))))
    while digits < _MOST_DIGITS and _decimals(low * scale, digits) == _decimals(high * scale, digits):
        digits += 1
    return digits


def _decimals(value: float, digits: int) -> str:
    """So many decimals, and no minus before nothing; four digits in all where a perplexity grew beyond all reading."""
    return f"{round(value, digits) + 0.0:,.{digits}f}" if abs(value) < 1e7 else f"{value:.4g}"


def counted(count: int, noun: str) -> str:
    """`1 run`, `2,000 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(text: str, characters: int) -> str:
    """A text from outside on one line, safe to print, and no longer than this."""
    shown = printable(text[: characters + 1], one_line=True)
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def percent(share: float | None) -> str:
    """`55.0 %`."""
    return "—" if share is None else f"{share * 100:.1f} %"


def signed_points(difference: float | None, found: Entry | None = None) -> str:
    """`+10.0 points (+2.0 to +18.0)`: a difference of two shares."""
    return signed(difference, "points", 100.0, 1, found)


def signed_nats(difference: float | None, found: Entry | None = None) -> str:
    """`+0.522 nats (+0.101 to +0.943)`."""
    return signed(difference, "nats", 1.0, 3, found)


def signed_bits(difference: float | None, found: Entry | None = None) -> str:
    """`-0.1234 bits (about -0.1500 to -0.1000)`."""
    return signed(difference, "bits", 1.0, 4, found)


def signed(difference: float | None, unit: str, scale: float, digits: int, found: Entry | None = None) -> str:
    """A difference with its interval; "about" where that holds only roughly, "all changed alike" where nothing varies.

    Where there are too few units for an interval, the notes say so.
    """
    if difference is None:
        return "—"
    shown = f"{_signed(difference * scale, digits)} {unit}".rstrip()
    if found is None or found.get("low") is None or found.get("high") is None:
        alike = found is not None and (found.get("note") or "").endswith("alike")
        return f"{shown} (all changed alike)" if alike else shown
    about, digits = "about " if found.get("approximate") else "", _digits_of(found, scale, digits)
    shown = f"{_signed(difference * scale, digits)} {unit}".rstrip()
    return f"{shown} ({about}{_signed(found['low'] * scale, digits)} to {_signed(found['high'] * scale, digits)})"


def mcnemar_verdict(p_value: float, paired: Entry | None, *, noun: str, hang_together: bool) -> str:
    """`McNemar's exact p = 0.031: more than chance explains, …`, and what it means beside the difference's interval."""
    shown = f"McNemar's exact p = {p_value:.1e}" if p_value < 0.001 else f"McNemar's exact p = {p_value:.3f}"
    if p_value < 0.05:
        verdict = "more than chance explains, at the 5 % level"
        return f"{shown}: {verdict}{f', were all {noun} independent' if hang_together else ''}"
    low, high = (None, None) if paired is None else (paired.get("low"), paired.get("high"))
    if low is None or high is None or low <= 0 <= high:
        return f"{shown}: chance alone could do this"
    return f"{shown}: at the edge, since the interval leaves out 0 and this test, cautious where few turned, does not"


def _signed(value: float, digits: int) -> str:
    shown = _decimals(value, digits)
    return shown if shown.startswith("-") else f"+{shown}"


def _visible(sign: re.Match[str]) -> str:
    code = ord(sign[0])
    if sign[0] == "\n":
        return "⏎"
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"
