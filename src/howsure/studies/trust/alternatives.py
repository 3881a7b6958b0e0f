"""From the alternatives of an action's tokens to probabilities of actions.

The answer is one path through the model's tokens, and at each token of the action the alternatives say which other
paths there were. An alternative counts for the action that it can only become; nobody knows how the others would have
gone on. All probabilities are given the answer up to the first token of its action.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from json.decoder import JSONDecodeError
from typing import NamedTuple

import numpy as np

from howsure.evidence import Distribution, TokenLogprobs, TopAlternatives, chosen_place
from howsure.models.token_places import TokenPlaces, utf8
from howsure.studies.trust.json_places import Member, read_text
from howsure.studies.trust.spellings import Spellings, could_become

Parse = Callable[[str], str | None]

_LONGEST_ESCAPE = len(r"\u0075")
_GAP = r"[ \t\n\r]*"


class Written(NamedTuple):
    """An answer with the member of its object that holds the action."""

    text: bytes
    key: str
    key_start: int
    """In bytes."""
    allowed: tuple[str, ...]
    spellings: Spellings
    parse: Parse

    @classmethod
    def of(cls, text: str, member: Member, allowed: Sequence[str], spellings: Spellings, parse: Parse) -> Written:
        before, key = text[: member.key_start], text[member.key_start : member.key_end]
        return cls(utf8(text), key, len(utf8(before)), tuple(allowed), spellings, parse)

    def possible(self, end: int, then: bytes = b"") -> frozenset[str]:
        """The allowed actions that the answer can still give, if it is `then` that stands from byte `end` on."""
        lead = self.text[end : self.key_start]  # of a token that holds the key as well
        head = self.text[self.key_start : end] + then.removeprefix(lead)
        if not then.startswith(lead):
            head = b"" if lead.startswith(then) else b"{"  # not there yet, or elsewhere
        decode = getincrementaldecoder("utf-8")("replace").decode  # the beginning of a character says nothing yet
        inside = self._inside(decode(head))
        if inside is None:
            return frozenset()
        said, closed = _unescaped(inside)
        if not closed:
            return could_become(said, self.spellings) & frozenset(self.allowed)
        label = self.parse(said)
        return frozenset({label}) & frozenset(self.allowed) if label is not None else frozenset()

    def _inside(self, head: str) -> str | None:
        """What stands behind the quote that opens the action; nothing yet where there is room for one, else None."""
        opened = re.match(rf'{re.escape(self.key)}{_GAP}:{_GAP}\[?{_GAP}"', head)
        if opened:
            return head[opened.end() :]
        unopened = re.fullmatch(rf"{re.escape(self.key)}{_GAP}(?::{_GAP}(?:\[{_GAP})?)?", head)
        return "" if unopened or self.key.startswith(head) else None


class ActionMass(NamedTuple):
    """The probabilities of the allowed actions; `unsettled` is the part of `other` that may still become several."""

    distribution: Distribution
    unsettled: float


def decision_token(written: Written, places: TokenPlaces, tokens: Sequence[int], action: str) -> int | None:
    """The first token before which several actions are possible, and behind which only the answer's own is.

    Behind the last token the action is taken as said. None where the answer spells its action in an unknown way, or
    where nothing else was allowed.
    """
    for i in tokens:
        start, end = places.spans[i] or (0, 0)
        behind = frozenset({action}) if i == tokens[-1] else written.possible(end)
        if len(written.possible(start)) > 1 and behind == {action}:
            return i
    return None


def action_mass(
    written: Written, evidence: TokenLogprobs, places: TokenPlaces, tokens: Sequence[int], action: str | None
) -> ActionMass | None:
    """Probabilities of the allowed actions along the path of the answer; None without alternatives.

    With M = Π p over the tokens chosen so far, M · p of each alternative goes to the action that it can only become,
    and to `other` where there is none or more than one; what the top-k leaves of M goes to `other`. M of the whole
    action goes to the answer's own action, or to `other` where that is not allowed.
    """
    if evidence.top is None:
        return None
    mass = dict.fromkeys(written.allowed, 0.0)
    path, other, unsettled = 1.0, 0.0, 0.0
    for i in tokens:
        start = (places.spans[i] or (0, 0))[0]
        chosen, rows, remainder = _position(evidence, evidence.top, i)
        for j, probability in rows:
            became = written.possible(start, _spelled(evidence.top, j, places))
            if len(became) == 1:
                mass[next(iter(became))] += path * probability
            else:
                other += path * probability
                unsettled += path * probability * (len(became) > 1)
        other += path * remainder
        path *= chosen
    if action is None:
        other += path
    else:
        mass[action] += path
    return ActionMass(Distribution(written.allowed, np.array(list(mass.values())), other), unsettled)


def _position(evidence: TokenLogprobs, top: TopAlternatives, i: int) -> tuple[float, list[tuple[int, float]], float]:
    """The chosen token's probability, the other rows with theirs, and what is left; all divided by a sum above 1."""
    listed = range(int(top.starts[i]), int(top.starts[i + 1]))
    own = chosen_place(evidence, top, i)
    chosen = float(np.exp(evidence.logprobs[i] if own is None else top.logprobs[own]))
    rows = [(j, float(np.exp(top.logprobs[j]))) for j in listed if j != own]
    total = chosen + sum(probability for _, probability in rows)
    scale = max(total, 1.0)
    return chosen / scale, [(j, probability / scale) for j, probability in rows], max(0.0, 1.0 - total)


def _spelled(top: TopAlternatives, j: int, places: TokenPlaces) -> bytes:
    known = top.token_bytes[j] if top.token_bytes is not None else None
    if known is None and places.spell is not None:
        known = places.spell(top.tokens[j])
    return utf8(top.tokens[j]) if known is None else known


def _unescaped(raw: str) -> tuple[str, bool]:
    r"""The text that a JSON text spells so far, and whether its closing quote is among it.

    >>> _unescaped(r"\u0075p, or \u00"), _unescaped('up"]')
    (('up, or ', False), ('up', True))
    """
    for cut in range(min(_LONGEST_ESCAPE, len(raw)) + 1):  # an escape that has only begun says nothing yet
        whole = raw[: len(raw) - cut]
        try:
            said, end = read_text(f'{whole}"', 0)
        except JSONDecodeError:
            continue
        return said, end <= len(whole)
    return "\ufffd", False
