"""Shaded tokens: the shade, the probability and the alternatives of each."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.report.tokens import MOST_TOKENS, Shade, percent, shaded, shades_of, step


def evidence() -> TokenLogprobs:
    rows = [[("Par", math.log(0.5)), ("Ber", math.log(0.25))], [("is", math.log(0.001)), ("ty", math.log(0.9))]]
    return TokenLogprobs(("Par", "is"), np.log([0.5, 0.001]), top=TopAlternatives.from_rows(rows))


def test_shades_carry_bits_and_alternatives_the_likeliest_first() -> None:
    first, second = shades_of(evidence())
    assert first.bits == pytest.approx(1.0)
    assert second.bits == pytest.approx(9.9658, abs=1e-4)
    assert [text for text, _ in second.alternatives] == ["ty", "is"]
    assert second.alternatives[0][1] == pytest.approx(0.9)


def test_each_token_tells_its_probability_and_only_the_first_is_a_stop_for_tab() -> None:
    html = str(shaded(shades_of(evidence()), "the answer"))
    assert re.findall(r'class="tok (u\w)" tabindex="(-?\d)"', html) == [("u1", "0"), ("u3", "-1")]
    assert "«Par»</strong> 50.0 %, 1.0 bits" in html
    assert "«ty» 90.0 %" in html


@pytest.mark.parametrize(
    ("bits", "shade"), [(0.5, "0"), (1.0, "1"), (4.0, "2"), (9.9, "3"), (50.0, "4"), (math.inf, "4"), (None, "x")]
)
def test_the_scale_is_that_of_the_terminal(bits: float | None, shade: str) -> None:
    assert step(bits) == shade


def test_what_is_not_known_or_impossible_says_so() -> None:
    html = str(shaded([Shade("a", None), Shade("b", math.inf), Shade("", 1.0)], "x"))
    assert "probability not known" in html
    assert "probability 0" in html
    assert "∅" in html


def test_hostile_and_endless_tokens() -> None:
    html = str(
        shaded([Shade("<script>x</script>\u202e", 1.0, [("<b>", 0.5)])] + [Shade("a", 1.0)] * (MOST_TOKENS + 4), "x")
    )
    assert "<script" not in html
    assert "<b>" not in html
    assert "\u202e" not in html
    assert "and 5 more tokens" in html


@pytest.mark.parametrize(("share", "text"), [(0.5, "50.0 %"), (0.00001, "0.001 %"), (0.0, "0.0 %"), (None, "—"),
    (0.9994, "99.9 %"), (0.9999, "over 99.9 %"), (1.0, "100.0 %"),
])  # fmt: skip
def test_small_probabilities_are_not_zero_and_large_ones_not_certain(share: float | None, text: str) -> None:
    assert percent(share) == text
