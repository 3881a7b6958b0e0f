"""The action inside a model's JSON answer, and how sure the model was of it.

The answer is `{"action": ["up"], …}` or `{"action": "up", …}`; of several actions the first counts. Its characters are
found in the text, its tokens by their bytes, and at these tokens the log-probabilities of the alternatives tell how
open the choice was. What cannot be had is None: `action_missing` says why there is no action, `evidence_missing` why
there are no figures about it, and neither stands for the other.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from json.decoder import JSONDecodeError
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import EvidenceError
from howsure.evidence import Distribution, TokenLogprobs, TopAlternatives, chosen_place, entropies_from_top
from howsure.measures import entropy_nats
from howsure.models.contract import Answer
from howsure.models.token_places import TokenPlaces, lay_tokens, utf8
from howsure.studies.trust.json_places import (
    INCOMPLETE,
    JsonObject,
    Member,
    Place,
    first_object,
    note_schemas,
    printable,
    read_notes,
    read_text,
)
from howsure.studies.trust.world.words import usual_spellings
from howsure.types import Fields

MOST_ACTIONS = 4
"""How many actions an answer may name where a server holds it to the schema; only the first is taken."""


class Spread(Fields):
    """Probabilities of the allowed actions; `other` is what lies outside of them."""

    labels: list[str]
    probabilities: list[float]
    other: float = 0.0


class ActionReading(Fields):
    """What one answer says, and how sure it was; part of the evidence of a step.

    said                  the first action as it was written
    action                the allowed action that it means
    action_missing        no_answer, no_json, bad_json, too_deep, json_incomplete, no_action, unknown_action
    evidence_missing      why no figure: as above; no_logprobs, not_aligned, not_located, bad_logprobs, no_alternatives
    detail                the particulars of a reason, in words
    remark                json_incomplete where the action is whole and the answer around it breaks off
    first, count, tokens  the action's first token, how many there are, and their texts
    first_nats            entropy at the first token: top-k and what is left, as one more outcome
    low_nats              its bounds; high is None where the size of the vocabulary is unknown
    high_nats
    unlisted              the probability there that the top-k leave to tokens which are not listed
    exact_nats            the entropy over the whole vocabulary, which only a model on this machine tells
    mean_nats             mean of the bucket entropies H_j over the action's tokens
    weighted_nats         Σ p_j H_j / Σ p_j with p_j the probability of the token that was chosen
    path_probability      Π p_j
    decision              the token that settles which action it is, and its bucket and exact entropy
    decision_nats
    decision_exact_nats
    distribution          over the allowed actions, given the answer up to the first token; the rest is `other`
    unsettled             how much of `other` could still have become several of the allowed
    action_entropy_nats   entropy of the distribution, `other` being one outcome
    given_allowed_nats    the same without `other`: which action, given that it is an allowed one
    probability           of the action
    """

    said: str | None = None
    action: str | None = None
    action_missing: str | None = None
    evidence_missing: str | None = None
    detail: str | None = None
    remark: str | None = None
    first: int | None = None
    count: int | None = None
    tokens: tuple[str, ...] | None = None
    first_nats: float | None = None
    low_nats: float | None = None
    high_nats: float | None = None
    unlisted: float | None = None
    exact_nats: float | None = None
    mean_nats: float | None = None
    weighted_nats: float | None = None
    path_probability: float | None = None
    decision: int | None = None
    decision_nats: float | None = None
    decision_exact_nats: float | None = None
    distribution: Spread | None = None
    unsettled: float | None = None
    action_entropy_nats: float | None = None
    given_allowed_nats: float | None = None
    probability: float | None = None
    reasoning: str | None = None
    grounding: str | None = None
    memory: str | None = None


def read_action(
    answer: Answer,
    allowed: Sequence[str],
    parse: Parse,
    *,
    vocab_size: int | None = None,
    spellings: Spellings | None = None,
) -> ActionReading:
    """The action of an answer, and the evidence for it.

    `parse` gives the label of an action as it was written, or None. `spellings` are the ways to write each allowed
    action, by which an alternative that was only begun is known; `usual_spellings` if not given.
    """
    if answer.text is None:
        return ActionReading(action_missing="no_answer", evidence_missing="no_answer", detail=answer.failure)
    obj = first_object(answer.text)
    notes = read_notes(obj, answer.text)._asdict()
    member, place, reason = _action_place(obj)
    if member is None or place is None:
        return ActionReading(action_missing=reason, evidence_missing=reason, **notes)
    said = printable(place.value)
    label = parse(said)
    reading = {
        "said": said,
        "action": label if label in allowed else None,
        "action_missing": None if label in allowed else "unknown_action",
        "remark": obj.reason,
        **notes,
    }
    spellings = usual_spellings(allowed) if spellings is None else spellings
    written = Written.of(answer.text, member, allowed, spellings, parse)
    return ActionReading(**reading, **_evidence(answer, written, place, reading["action"], vocab_size))


def action_schema(allowed: Sequence[str]) -> dict[str, Any]:
    """The answer as a JSON Schema for servers that hold a model to one; the action comes first, before any reason.

    The texts are bounded, so that a small model comes to an end.
    """
    action = {
        "type": "array",
        "items": {"type": "string", "enum": list(allowed)},
        "minItems": 1,
        "maxItems": MOST_ACTIONS,
    }
    properties = {"action": action, **note_schemas()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _action_place(obj: JsonObject) -> tuple[Member | None, Place | None, str | None]:
    """Where the first action stands, or why there is none. An object that breaks off behind it still has one."""
    if obj.reason not in (None, INCOMPLETE):
        return None, None, obj.reason
    member = obj.members.get("action")
    if member is None:
        return None, None, obj.reason or "no_action"
    place = member.place if member.place.items is None else next(iter(member.place.items), None)
    if place is None or not isinstance(place.value, str) or not place.value.strip():
        return None, None, "no_action"
    return member, place, None


def _evidence(
    answer: Answer, written: Written, place: Place, action: str | None, vocab_size: int | None
) -> dict[str, Any]:
    """The fields about tokens, or the reason why there are none."""
    evidence, text = answer.logprobs, answer.text or ""
    if evidence is None:
        reason = "not_aligned" if answer.not_aligned else "no_logprobs"
        return {"evidence_missing": reason, "detail": answer.logprobs_missing}
    places = lay_tokens(text, evidence)
    start = len(utf8(text[: place.start + 1]))
    tokens = (
        None if places is None else places.overlapping(start, start + len(utf8(text[place.start + 1 : place.end - 1])))
    )
    if places is None or tokens is None:
        return {"evidence_missing": "not_located"}
    decision = None if action is None else decision_token(written, places, tokens, action)
    exact = evidence.entropies_nats  # over the whole vocabulary, which need no alternatives
    located = {
        "first": tokens[0],
        "count": len(tokens),
        "tokens": tuple(printable(evidence.tokens[i]) for i in tokens),
        "path_probability": float(np.exp(evidence.logprobs[list(tokens)].sum())),
    }
    try:
        mass = action_mass(written, evidence, places, tokens, action)
        return {
            **located,
            "exact_nats": None if exact is None else float(exact[tokens[0]]),
            "decision": decision,
            "decision_exact_nats": None if exact is None or decision is None else float(exact[decision]),
            **_entropies(evidence, tokens, decision, vocab_size),
            **({} if mass is None else _of_actions(mass, action)),
        }
    except EvidenceError as error:
        return {**located, "evidence_missing": "bad_logprobs", "detail": str(error)}


def _entropies(
    evidence: TokenLogprobs, tokens: Sequence[int], decision: int | None, vocab_size: int | None
) -> dict[str, Any]:
    """The bucket entropies of the action's tokens, and what they come to together."""
    some = _only(evidence, tokens)
    columns = entropies_from_top(some, vocab_size)
    if columns is None:
        return {"evidence_missing": "no_alternatives"}
    bucket, weights = columns.entropy_nats, np.exp(some.logprobs)
    return {
        "first_nats": float(bucket[0]),
        "low_nats": float(columns.low_nats[0]),
        "high_nats": None if columns.high_nats is None else float(columns.high_nats[0]),
        "unlisted": float(columns.remainder[0]),
        "mean_nats": float(bucket.mean()),
        "weighted_nats": float(weights @ bucket / weights.sum()) if weights.sum() > 0 else None,
        "decision_nats": None if decision is None else float(bucket[list(tokens).index(decision)]),
    }


def _only(evidence: TokenLogprobs, tokens: Sequence[int]) -> TokenLogprobs:
    """The evidence of some tokens, so that a fault elsewhere in an answer costs nothing here."""
    known, top = evidence.token_bytes, evidence.top
    rows = [] if top is None else [range(int(top.starts[i]), int(top.starts[i + 1])) for i in tokens]
    return TokenLogprobs(
        tokens=tuple(evidence.tokens[i] for i in tokens),
        logprobs=evidence.logprobs[list(tokens)],
        token_bytes=None if known is None else tuple(known[i] for i in tokens),
        top=None
        if top is None
        else TopAlternatives.from_rows(
            [[(top.tokens[j], float(top.logprobs[j])) for j in row] for row in rows],
            None if top.token_bytes is None else [[top.token_bytes[j] for j in row] for row in rows],
        ),
    )


def _of_actions(mass: ActionMass, action: str | None) -> dict[str, Any]:
    spread = mass.distribution
    allowed = float(spread.probabilities.sum())
    return {
        "distribution": Spread(list(spread.labels), spread.probabilities.tolist(), spread.other),
        "unsettled": mass.unsettled,
        "action_entropy_nats": entropy_nats([*spread.probabilities, spread.other]),
        "given_allowed_nats": entropy_nats(spread.probabilities / allowed) if allowed > 0 else None,
        "probability": None if action is None else float(spread.probabilities[spread.labels.index(action)]),
    }


# -- alternatives: the other paths that the answer could have taken ---------------------------------------------------

# From the alternatives of an action's tokens to probabilities of actions. The answer is one path through the model's
# tokens, and at each token of the action the alternatives say which other paths there were. An alternative counts for
# the action that it can only become; nobody knows how the others would have gone on. All probabilities are given the
# answer up to the first token of its action.

Parse = Callable[[str], str | None]
Spellings = Mapping[str, Sequence[str]]

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


_BETWEEN_WORDS = re.compile(r"[\s_-]+")


def could_become(written: str, spellings: Spellings) -> frozenset[str]:
    """The actions of which a spelling begins with what is written; case, spaces, `_` and `-` do not count.

    >>> sorted(could_become("Move_", usual_spellings(["up", "down", "done"])))
    ['down', 'up']
    """
    begun = _plain(written)
    return frozenset(
        label for label, ways in spellings.items() if any(way.startswith(begun) for way in map(_plain, ways))
    )


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return _BETWEEN_WORDS.sub("", text.casefold())
