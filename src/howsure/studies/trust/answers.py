"""The action inside a model's JSON answer, and how sure the model was of it.

The answer is `{"action": ["up"], …}` or `{"action": "up", …}`; of several actions the first counts. Its characters are
found in the text, its tokens by their bytes, and at these tokens the log-probabilities of the alternatives tell how
open the choice was. What cannot be had is None: `action_missing` says why there is no action, `evidence_missing` why
there are no figures about it, and neither stands for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from howsure.errors import EvidenceError
from howsure.evidence import Distribution, TokenLogprobs, TopAlternatives, entropies_from_top
from howsure.measures import entropy_nats
from howsure.models.contract import Answer
from howsure.models.token_places import lay_tokens, utf8
from howsure.studies.trust.alternatives import ActionMass, Parse, Written, action_mass, decision_token
from howsure.studies.trust.json_places import INCOMPLETE, JsonObject, Member, Place, first_object, printable
from howsure.studies.trust.notes import note_schemas, read_notes
from howsure.studies.trust.spellings import Spellings, usual_spellings

MOST_ACTIONS = 4
"""How many actions an answer may name where a server holds it to the schema; only the first is taken."""


class ActionReading(msgspec.Struct, frozen=True):
    """What one answer says, and how sure it was.

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
    distribution: Distribution | None = None
    unsettled: float | None = None
    action_entropy_nats: float | None = None
    given_allowed_nats: float | None = None
    probability: float | None = None
    reasoning: str | None = None
    grounding: str | None = None
    memory: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record, every field in it."""
        out = msgspec.structs.asdict(self)
        out["tokens"] = None if self.tokens is None else list(self.tokens)
        out["distribution"] = None if self.distribution is None else self.distribution.to_dict()
        return out


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
    found = first_object(answer.text)
    notes = read_notes(found, answer.text)._asdict()
    member, place, reason = _action_place(found)
    if member is None or place is None:
        return ActionReading(action_missing=reason, evidence_missing=reason, **notes)
    said = printable(place.value)
    label = parse(said)
    reading = {
        "said": said,
        "action": label if label in allowed else None,
        "action_missing": None if label in allowed else "unknown_action",
        "remark": found.reason,
        **notes,
    }
    ways = usual_spellings(allowed) if spellings is None else spellings
    written = Written.of(answer.text, member, allowed, ways, parse)
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


def _action_place(found: JsonObject) -> tuple[Member | None, Place | None, str | None]:
    """Where the first action stands, or why there is none. An object that breaks off behind it still has one."""
    if found.reason not in (None, INCOMPLETE):
        return None, None, found.reason
    member = found.members.get("action")
    if member is None:
        return None, None, found.reason or "no_action"
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
    located = _located(evidence, tokens)
    decision = None if action is None else decision_token(written, places, tokens, action)
    try:
        mass = action_mass(written, evidence, places, tokens, action)
        return {
            **located,
            **_exact(evidence, tokens[0], decision),
            **_entropies(evidence, tokens, decision, vocab_size),
            **_mass(mass, action),
        }
    except EvidenceError as error:
        return {**located, "evidence_missing": "bad_logprobs", "detail": str(error)}


def _located(evidence: TokenLogprobs, tokens: Sequence[int]) -> dict[str, Any]:
    return {
        "first": tokens[0],
        "count": len(tokens),
        "tokens": tuple(printable(evidence.tokens[i]) for i in tokens),
        "path_probability": float(np.exp(evidence.logprobs[list(tokens)].sum())),
    }


def _exact(evidence: TokenLogprobs, first: int, decision: int | None) -> dict[str, Any]:
    """The entropies over the whole vocabulary, which need no alternatives."""
    exact = evidence.entropies_nats
    return {
        "exact_nats": None if exact is None else float(exact[first]),
        "decision": decision,
        "decision_exact_nats": None if exact is None or decision is None else float(exact[decision]),
    }


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


def _mass(mass: ActionMass | None, action: str | None) -> dict[str, Any]:
    if mass is None:
        return {}
    found = mass.distribution
    allowed = float(found.probabilities.sum())
    return {
        "distribution": found,
        "unsettled": mass.unsettled,
        "action_entropy_nats": entropy_nats([*found.probabilities, found.other]),
        "given_allowed_nats": entropy_nats(found.probabilities / allowed) if allowed > 0 else None,
        "probability": None if action is None else float(found.probabilities[found.labels.index(action)]),
    }
