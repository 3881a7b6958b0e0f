"""A text with every token shaded by its surprisal, on a page and in a terminal, and what a model makes of a text.

On a page, probability and alternatives show when a token is pointed at or focused. Arrow keys walk along the tokens
(assets/howsure.js), so that a text is one stop for the Tab key and not a thousand.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node
from rich.style import Style
from rich.text import Text

from howsure.evidence import TokenLogprobs
from howsure.measures import nats_to_bits
from howsure.report.document import Document, Facts, Section, Shade, Table, Tokens
from howsure.report.text import printable, quoted
from howsure.studies.reading import Reading

SCALE_BITS = (
    (1.0, None, "under 1 bit"),
    (3.0, "#d9f0d3", "1 to 3"),
    (6.0, "#fee391", "3 to 6"),
    (10.0, "#fdae6b", "6 to 10"),
    (float("inf"), "#f4766b", "over 10 bits"),
)
"""Upper end of each step in bits, its colour (dark text on it reads well), its name."""
MOST_TOKENS = 2_000
"""On one page; the rest is counted."""
MOST_ALTERNATIVES = 5
TOKEN_CHARACTERS = 200


def shades_of(found: TokenLogprobs) -> list[Shade]:
    """The tokens of an evidence record."""
    bits = nats_to_bits(0.0 - found.logprobs).tolist()
    return [Shade(text, bits[place], _alternatives(found, place)) for place, text in enumerate(found.tokens)]


def readable_shades_of(found: TokenLogprobs) -> list[Shade]:
    """The same, but tokens that are pieces of one character become one, with the surprisal of all of it."""
    if found.token_bytes is None or None in found.token_bytes:
        return shades_of(found)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    shades, text, pieces = [], "", list[Shade]()
    for shade, spelled in zip(shades_of(found), found.token_bytes, strict=True):
        text += decoder.decode(spelled or b"")
        pieces.append(shade)
        if not decoder.getstate()[0]:
            shades.append(_one_of(pieces, text))
            text, pieces = "", []
    return [*shades, _one_of(pieces, text + decoder.decode(b"", final=True))] if pieces else shades


def _one_of(pieces: Sequence[Shade], text: str) -> Shade:
    if len(pieces) == 1:
        return pieces[0]._replace(text=text)
    bits = [piece.bits for piece in pieces if piece.bits is not None]
    return Shade(text, sum(bits) if len(bits) == len(pieces) else None)


def shaded(shades: Sequence[Shade], label: str) -> Element:
    """The tokens one after the other; `label` says what text this is."""
    shown = shades[:MOST_TOKENS]
    more = len(shades) - len(shown)
    return h.div(class_="tokens")[
        h.p(class_="said", dir="auto", role="group", aria_label=f"{label}: arrow keys go from token to token")[
            [_token(shade, first=place == 0) for place, shade in enumerate(shown)]
        ],
        h.p(class_="quiet")[f"and {more:,} more tokens"] if more else None,
    ]


def legend() -> Element:
    """What the shades mean."""
    return h.p(class_="tokens legend")[
        "surprisal: ",
        [[h.span(class_=f"tok u{place}")[name], " "] for place, (_, _, name) in enumerate(SCALE_BITS)],
        h.span(class_="quiet")["a token of 1 bit had probability 1/2, one of 10 bits 1/1000"],
    ]


def _token(shade: Shade, *, first: bool) -> Element:
    text = printable(shade.text[:TOKEN_CHARACTERS])
    return h.span(class_=f"tok u{step(shade.bits)}", tabindex="0" if first else "-1")[
        text or "∅", h.span(class_="tip", role="tooltip")[_tip(shade)]
    ]


def step(bits: float | None) -> str:
    """The shade's number, `x` where nothing is known."""
    if bits is None or math.isnan(bits):
        return "x"
    return str(next(place for place, (end, _, _) in enumerate(SCALE_BITS) if bits < end or math.isinf(end)))


def _tip(shade: Shade) -> Node:
    name = quoted(shade.text[:TOKEN_CHARACTERS])
    if shade.bits is None:
        return [h.strong[name], " probability not known"]
    probability = shade.probability
    known = "probability 0" if math.isinf(shade.bits) else f"{percent(probability)}, {shade.bits:.1f} bits"
    return [
        h.strong[name],
        f" {known}",
        h.span(class_="others")[
            [[h.br, f"{quoted(text[:TOKEN_CHARACTERS])} {percent(value)}"] for text, value in shade.alternatives]
        ]
        if shade.alternatives
        else None,
    ]


def percent(share: float | None) -> str:
    """A probability, with enough digits that a small one is not 0, and a large one not certain."""
    if share is None:
        return "—"
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return f"{share * 100:.1f} %" if share >= 0.001 or share == 0 else f"{share * 100:.2g} %"


def _alternatives(found: TokenLogprobs, place: int) -> list[tuple[str, float]]:
    if found.top is None:
        return []
    start, end = int(found.top.starts[place]), int(found.top.starts[place + 1])
    listed = _sorted(zip(found.top.tokens[start:end], found.top.logprobs[start:end].tolist(), strict=True))
    return [(text, math.exp(value)) for text, value in listed[:MOST_ALTERNATIVES]]


def _sorted(pairs: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(pairs, key=lambda pair: -pair[1])


# -- in a terminal ----------------------------------------------------------------------------------------------------


def coloured(shades: Sequence[Shade]) -> Text:
    text = Text()
    for shade in shades:
        text.append(printable(shade.text), style=_style(0.0 if shade.bits is None else shade.bits))
    return text


def coloured_legend() -> Text:
    text = Text.assemble(("surprisal  ", "dim"))
    for end, _, name in SCALE_BITS:
        text.append(f" {name} ", style=_style(end - 0.5 if end != float("inf") else end))
        text.append(" ")
    return text


def _style(bits: float) -> Style:
    colour = next(colour for end, colour, _ in SCALE_BITS if bits < end or end == float("inf"))
    return Style() if colour is None else Style(color="#000000", bgcolor=colour)


# -- what a model makes of a text -------------------------------------------------------------------------------------


def reading(found: Reading) -> Document:
    """The shaded text, its figures, and its most surprising tokens."""
    evidence, least = found.evidence, found.least_mean_entropy_bits
    entropy = None
    if found.mean_entropy_bits is not None:
        entropy = _number(found.mean_entropy_bits, "bits per token expected")
    elif least is not None:
        entropy = f"at least {least:.2f} bits per token, by the alternatives given"
    facts = Facts(
        [
            ("model", found.model),
            ("tokens", f"{len(evidence):,}"),
            ("mean surprisal", _number(found.mean_surprisal_bits, "bits per token")),
            ("mean entropy", entropy),
            ("perplexity", _number(evidence.perplexity_per_token, "per token")),
            ("bits per byte", _number(found.bits_per_byte, "")),
        ]
    )
    rows = [_surprise(entry) for entry in found.most_surprising()]
    table = Table(["most surprising", "surprisal", "expected instead"], rows)
    return Document("reading", sections=[Section("", [Tokens(readable_shades_of(evidence), "the text"), facts, table])])


def _surprise(entry: dict[str, Any]) -> tuple[str, str, str]:
    bits, whole = entry["surprisal_bits"], entry["part_of"]
    named = quoted(entry["token"]) if whole is None else f"a piece of {quoted(whole)}"
    expected = ", ".join(f"{quoted(e['token'])} {e['probability']:.0%}" for e in entry["expected"][:3])
    return named, "probability 0" if bits is None else f"{bits:.1f} bits", expected or "—"


def _number(value: float | None, unit: str) -> str:
    """Infinity is a result: the model held what happened for impossible. Only what is missing is a dash."""
    if value is None:
        return "—"
    return "infinite" if math.isinf(value) else f"{value:.2f} {unit}".rstrip()
