"""What is printed: safe, readable, and saying what it should."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from howsure.evidence import Outcome, TokenLogprobs, TopAlternatives
from howsure.report import tokens as texts
from howsure.report.progress import BarProgress, LineProgress, progress_for
from howsure.report.text import figure, printable, quoted
from howsure.runs import NoProgress, Sample
from howsure.studies.reading import Reading
from report import rendered


def reading(tokens: list[bytes], logprobs: list[float]) -> Reading:
    names = tuple(t.decode(errors="replace") for t in tokens)
    top = TopAlternatives.from_rows([[(name, lp), (" other", -9.0)] for name, lp in zip(names, logprobs, strict=True)])
    evidence = TokenLogprobs(names, np.array(logprobs), token_bytes=tuple(tokens), top=top)
    return Reading(b"".join(tokens).decode(errors="replace"), "toy", evidence)


def printed(found: Reading, *, terminal: bool) -> str:
    return rendered.printed(texts.reading(found), is_terminal=terminal)


@given(st.text())
def test_nothing_printed_can_steer_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 0x20 and c not in "\n\t" for c in shown)
    assert not any(0x7F <= ord(c) < 0xA0 for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
    assert "\n" not in printable(text, one_line=True)


def test_a_hostile_text_is_shown_not_obeyed() -> None:
    found = reading([b"\x1b[2J", b"[bold red]x[/]", b"\x07"], [-1.0, -2.0, -3.0])
    for terminal in (False, True):
        shown = printed(found, terminal=terminal)
        assert "\x1b[2J" not in shown
        assert "\x07" not in shown
        assert "[bold red]x[/]" in shown


def test_tokens_are_coloured_by_surprisal_on_a_terminal_only() -> None:
    found = reading([b"sure", b" odd"], [-0.1, -20.0])
    assert "\x1b[" not in printed(found, terminal=False)
    coloured = printed(found, terminal=True)
    assert "48;2;244;118;107m odd" in coloured, "red behind the surprising one"
    assert coloured.startswith("sure"), "no colour behind the sure one"


def test_figures_of_a_text_by_hand() -> None:
    found = reading([b"ab", b"cd"], [-math.log(2), -3 * math.log(2)])
    shown = printed(found, terminal=False)
    assert "mean surprisal  2.00 bits per token" in shown
    assert "perplexity      4.00 per token" in shown
    assert "bits per byte   1.00" in shown
    # Nothing unseen is likelier than " other" (e^-9), so what is left lies in many tokens of 9 nats each.
    left = [1 - p - math.exp(-9) for p in (1 / 2, 1 / 8)]
    nats = sum(r * 9 + math.exp(-9) * 9 - p * math.log(p) for r, p in zip(left, (1 / 2, 1 / 8), strict=True)) / 2
    assert f"mean entropy    at least {nats / math.log(2):.2f} bits" in shown
    assert found.to_dict()["most_surprising"][0]["expected"] == [
        {"token": " other", "probability": pytest.approx(math.exp(-9))}
    ]


def test_a_character_over_three_tokens_is_one_group() -> None:
    robot = "🤖".encode()
    found = reading([b"a", robot[:1], robot[1:3], robot[3:], b"b"], [-math.log(2)] * 5)
    assert found.characters() == [("a", slice(0, 1)), ("🤖", slice(1, 4)), ("b", slice(4, 5))]
    assert [found.token(i)["part_of"] for i in range(5)] == [None, "🤖", "🤖", "🤖", None]
    assert "a piece of «🤖»" in printed(found, terminal=False)
    broken = reading([b"a", b"\xff", b"b", robot[:1], b"c"], [-math.log(2)] * 5)
    shown = [("a", slice(0, 1)), ("\ufffd", slice(1, 2)), ("b", slice(2, 3)), ("\ufffdc", slice(3, 5))]
    assert broken.characters() == shown, "bytes that are no text end with their token, not with the answer"
    torn = reading([robot[:2]], [-math.log(2)])
    assert [piece for piece, _ in torn.characters()] == ["\ufffd"]


def test_probability_zero_is_said_not_hidden() -> None:
    found = reading([b"a"], [-math.inf])
    assert "probability 0" in printed(found, terminal=False)
    assert found.to_dict()["mean_surprisal_bits"] is None


def test_numbers_carry_unit_and_interval() -> None:
    share = {"name": "accuracy", "value": 0.5, "unit": "share", "low": 0.25, "high": 0.75}
    assert figure(share) == "accuracy 50.0 % (25.0 to 75.0)"
    about = share | {"approximate": True, "note": "of 6 episodes"}
    assert figure(about) == "accuracy 50.0 % (about 25.0 to 75.0; of 6 episodes)"
    none = {"name": "T", "value": None, "unit": "", "note": "not identified: 3 episodes"}
    assert figure(none) == "T — (not identified: 3 episodes)"
    assert figure({"name": "mean margin", "value": 1.5, "unit": "nats"}) == "mean margin 1.500 nats"
    assert figure({"name": "x", "value": None, "unit": "nats"}) == "x —", "what is missing is no number"


def test_a_figure_has_as_many_digits_as_its_interval_supports() -> None:
    def shown(value: float, low: float, high: float, unit: str = "") -> str:
        return figure({"name": "x", "value": value, "unit": unit, "low": low, "high": high})

    assert shown(807.201, 529.056, 1341.407) == "x 807 (529 to 1,341)"
    assert shown(18.19, 17.31, 19.52) == "x 18.2 (17.3 to 19.5)"
    assert shown(0.118, 0.1004, 0.1373, "nats") == "x 0.118 nats (0.100 to 0.137)"
    assert shown(0.5, 0.49999, 0.50001) == "x 0.50000 (0.49999 to 0.50001)", "its ends are never one number"
    assert shown(0.5, 0.25, 0.75, "share") == "x 50.0 % (25.0 to 75.0)", "shares keep the digit everybody gives"
    assert shown(1e300, -1e308, 1.5e308).startswith("x 1e+300")


def test_a_token_of_space_is_visible() -> None:
    assert quoted("  ") == "«␣␣»"
    assert quoted(" a\n") == "« a⏎»"


SAMPLES = [
    Sample("a", 0, outcome=Outcome(correct=True)),
    Sample("b", 1, outcome=Outcome(correct=False)),
    Sample("c", 2, reason="too_long", detail=""),
]


@pytest.mark.parametrize("kind", [LineProgress, BarProgress])
def test_progress_tells_count_figure_and_failures(kind: type) -> None:
    stream = io.StringIO()
    progress = kind(Console(file=stream, force_terminal=kind is BarProgress, width=150))
    progress.start("mcq", 3, SAMPLES[:1])
    progress.advance(SAMPLES[1:])
    progress.stop()
    shown = stream.getvalue()
    assert "50.0% right, 1 failed" in shown
    assert "3 of 3" in shown or "3/3" in shown


def test_progress_by_place() -> None:
    assert isinstance(progress_for(Console(file=io.StringIO()), quiet=True), NoProgress)
    assert isinstance(progress_for(Console(file=io.StringIO()), quiet=False), LineProgress)
    assert isinstance(progress_for(Console(file=io.StringIO(), force_terminal=True), quiet=False), BarProgress)
