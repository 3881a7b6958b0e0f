"""Tokens laid along a text: every way that servers spell them, and never a place that is not the true one."""

from __future__ import annotations

import time
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.models.text import _BYTE_OF_CHARACTER
from howsure.models.token_places import MAX_PLACES, align

BROKEN = "\ufffd"
CHARACTER_OF_BYTE = {byte: character for character, byte in _BYTE_OF_CHARACTER.items()}


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A text, and the pieces that some tokenizer may have cut it into, through characters too."""
    text = draw(st.text(st.sampled_from("aab  é中🤖🤕"), min_size=1, max_size=12)).encode()
    cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=12))})
    return text, [text[a:b] for a, b in pairwise(cuts)]


def decoded(pieces: list[bytes]) -> list[str]:
    return [piece.decode(errors="replace") for piece in pieces]


def dropped(pieces: list[bytes]) -> list[str]:
    return [piece.decode(errors="ignore") for piece in pieces]


def stripped(pieces: list[bytes]) -> list[str]:
    return [text[1:] if text[:1] == " " else text for text in decoded(pieces)]


def corrected(pieces: list[bytes]) -> list[str]:
    """As vLLM mends broken characters, with what it loses by that."""
    out = []
    for i in range(len(pieces)):
        for begin in range(i, max(i - 5, -1), -1):
            whole = b"".join(pieces[begin : i + 1]).decode(errors="replace")
            if not whole.endswith(BROKEN):
                stable = b"".join(pieces[begin:i]).decode(errors="replace").rstrip(BROKEN)
                out.append(whole[len(stable) :])
                break
        else:
            out.append("")
    return out


def vocabulary(pieces: list[bytes]) -> list[str]:
    return ["".join(CHARACTER_OF_BYTE[byte] for byte in piece) for piece in pieces]


def as_bytes(pieces: list[bytes]) -> list[str]:
    return [
        "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece) if BROKEN in text else text
        for piece, text in zip(pieces, decoded(pieces), strict=True)
    ]


@pytest.mark.parametrize("spelling", [decoded, corrected, vocabulary, as_bytes, dropped, stripped])
@pytest.mark.parametrize("begin", [None, "<s>"])
@pytest.mark.parametrize("hidden", [False, True], ids=["first token told", "first token not told"])
@given(cut=cut_texts())
def test_the_true_end_of_a_token_is_always_among_those_that_are_found(spelling, begin, hidden, cut) -> None:
    text, pieces = cut
    tokens: list[str | None] = [*([] if begin is None else [begin]), *spelling(pieces)]
    ends = [*([] if begin is None else [0]), *accumulate(map(len, pieces))]
    if hidden and spelling is not dropped:  # which is a habit of servers that tell the first token
        tokens[0] = None
    found = align(text, tokens, leading=0 if begin is None else 1)
    if found is None:
        assert spelling not in (decoded, vocabulary, as_bytes)
        return
    assert all(a <= end <= b for end, (a, b) in zip(ends, found.ends, strict=True))
    if spelling is vocabulary:
        certain = 2 if hidden and begin is None else found.leading
        assert found.token_bytes(text)[certain:] == tuple(pieces)[certain - found.leading :]


@pytest.mark.parametrize(
    ("text", "tokens", "ends", "leading"),
    [
        ("the sky", ["the", " sky"], [3, 7], 0),
        ("the sky", [None, " sky"], [3, 7], 0),
        ("the sky", ["<s>", "the", " sky"], [0, 3, 7], 1),
        ("the sky", [None, "the", " sky"], [0, 3, 7], 1),
        ("the sky", ["[gMASK]", "<sop>", "the", " sky"], [0, 0, 3, 7], 2),
        ("the sky", ["", "the", " sky"], [0, 3, 7], 1),
        ("the sky", ["the", "Ġsky"], [3, 7], 0),
        ("the sky", ["<s>", "▁the", "▁sky"], [0, 3, 7], 1),
        ("1", ["<s>", "▁", "1"], [0, 0, 1], 1),
        ("the sky", ["<s>", "the", "sky"], [0, 3, 7], 1),
        ("<s>x", ["<s>", "x"], [3, 4], 0),
        ("<s>x", ["<s>", "<s>", "x"], [0, 3, 4], 1),
        ("x " + BROKEN, ["x", " " + BROKEN], [1, 5], 0),
    ],
)
def test_ways_to_spell(text: str, tokens: list[str | None], ends: list[int], leading: int) -> None:
    found = align(text.encode(), tokens, leading)
    certain = tokens[0] is not None or leading > 0
    assert found.ends == ((ends[0] if certain else 1, ends[0]), *((end, end) for end in ends[1:]))
    if certain and "▁" not in tokens:  # which ends where the text begins, and does not stand before it
        assert align(text.encode(), tokens) == found


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        ["the"],
        ["the", " sky", "!"],
        ["the", "sky", " "],
        [" sky", "the"],
        ["a", "the", " sky"],
        ["the", "", " sky"],
    ],
)
def test_tokens_that_do_not_spell_the_text_are_not_laid_along_it(tokens: list[str]) -> None:
    assert align(b"the sky", tokens) is None


def test_where_nothing_tells_them_apart_all_places_are_kept() -> None:
    """Two characters of three bytes in five tokens: either may be the one that is cut twice."""
    found = align("中文".encode(), [BROKEN] * 5)
    assert found.ends[1] == (2, 3)
    assert (found.within(2), found.within(3), found.within(6)) == (None, None, 5)
    assert found.token_bytes("中文".encode())[1] is None


def test_hostile_tokens_are_given_up_soon() -> None:
    started = time.monotonic()
    text = ("中" * 3000).encode()
    assert align(text, [BROKEN] * 5000) is None
    assert align(text, [BROKEN * 9000]) is None
    assert align(text, [""] * 9000) is None
    assert align(b"x" * 10_000, ["x"] * 9_999) is None
    assert MAX_PLACES < 100
    assert time.monotonic() - started < 20
