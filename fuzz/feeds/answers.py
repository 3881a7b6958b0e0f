"""What models and servers say: coordinates, probabilities, actions, evidence, whole bodies of answers."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import Any

from howsure.errors import HowsureError
from howsure.runs.files import to_json

ALLOWED = ("up", "down", "left", "right", "pick up", "drop", "toggle", "done")


def coordinates(data: bytes) -> None:
    """Strictly and as the published evaluation read them; whole answers, and ones that a limit cut short."""
    from howsure.studies.grounding.answers import compat, parse

    text = _text(data)
    for reading in (parse.read_answer(text), parse.read_answer(text, cut_short=True), compat.read_answer(text)):
        to_json(reading._asdict())


def verbalized(data: bytes) -> None:
    from howsure.studies.trust.verbalized import read_verbalized

    to_json(read_verbalized(_text(data)))


def action(data: bytes) -> None:
    """The action in an answer, with evidence whose tokens are pieces of the answer."""
    import numpy as np

    from howsure.evidence import TokenLogprobs, TopAlternatives
    from howsure.models.contract import Answer
    from howsure.studies.trust.answers import read_action
    from howsure.studies.trust.world.words import parse_action

    text = _text(data)
    pieces = tuple(text[i : i + 3] for i in range(0, len(text), 3))
    top = TopAlternatives.from_rows([[(piece, -0.5), ("u", -1.5)] for piece in pieces], None)
    evidence = TokenLogprobs(pieces, np.full(len(pieces), -0.5), top=top)

    def label(said: str) -> str | None:
        found = parse_action(said)
        return None if found is None else found.label

    for answer in (Answer(text), Answer(text, evidence)):
        to_json(read_action(answer, ALLOWED, label))


def openai_logprobs(data: bytes) -> None:
    from howsure.evidence.formats import from_openai, to_openai

    to_json(to_openai(from_openai(_json(data))))


def gemini_logprobs(data: bytes) -> None:
    from howsure.evidence.formats import from_gemini

    to_json(from_gemini(_json(data)).to_dict())


def recorded_evidence(data: bytes) -> None:
    """Evidence as our own samples hold it."""
    from howsure.evidence import Distribution, TokenLogprobs, entropies_from_top

    value = _json(data)
    if not isinstance(value, dict):
        return
    for kind in (TokenLogprobs, Distribution):
        try:
            found: Any = kind.from_dict(value)
        except HowsureError:
            continue
        to_json(found.to_dict())
        if isinstance(found, TokenLogprobs) and found.top is not None:
            entropies_from_top(found)


def openai_body(data: bytes) -> None:
    """The body of a chat completion, from its bytes on."""
    from howsure.models.servers.client import Fault
    from howsure.models.servers.openai import _Wish

    model = _server()
    body = model._client._decode(data)
    if not isinstance(body, Fault):
        wish = _Wish({"logprobs": True, "top_logprobs": 5}, "max_tokens", 5, None, None)
        model._read(body, wish, 0)


def gemini_body(data: bytes) -> None:
    """The body of an answer of Gemini's; what is no JSON is the client's to tell, as for other servers."""
    from howsure.models.servers.gemini import Habits, Wish

    model = _gemini()
    model._read(_json(data), Wish({}, 5, None, Habits("gemini-x")), 0)


def scored_body(data: bytes) -> None:
    """The body of a completion that scores a prompt, by both protocols, laid along the text and made evidence."""
    from howsure.models.contract import Failure
    from howsure.models.servers.client import Fault
    from howsure.models.servers.protocols import ByEcho, ByPromptLogprobs

    body = _server()._client._decode(data)
    if isinstance(body, Fault):
        return
    for protocol in (ByPromptLogprobs(), ByPromptLogprobs(tells_ids=False), ByEcho()):
        found = _scored(protocol, body)
        assert isinstance(found, (list, Failure)), found


def address(data: bytes) -> None:
    """Addresses of stores, and paths within data that lies in one: no secret is shown, and none leads out."""
    from howsure.storage import checked, find_below, is_address, joined, shown
    from howsure.storage.addresses import secrets_of

    text = _text(data)
    place = checked(text)
    if is_address(place):
        shown(str(place))
        secrets_of(str(place))
        joined(str(place), "a.png")
    with contextlib.suppress(HowsureError):  # one that leads out
        found = find_below(text, "memory://bucket/images")
        assert found.startswith("memory://bucket/images/"), found


def model_name(data: bytes) -> None:
    from howsure.models.registry import parse_name

    str(parse_name(_text(data)))


def prompt_template(data: bytes) -> None:
    """Templates with hostile braces, and instructions found in prompts."""
    from howsure.studies.grounding.frames import asks_for_thousandths, fill, frame_named, instruction_of
    from howsure.studies.mcq import McqOptions

    text = _text(data)
    instruction_of(text)
    asks_for_thousandths(text)
    fill("{instruction} {frame}", text, frame_named("relative-1000"))
    with contextlib.suppress(HowsureError):  # a template is for one of the two
        fill(text, "press {0.__class__}", frame_named("relative-1000"))
    with contextlib.suppress(HowsureError):
        McqOptions("questions.jsonl", prompt=text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _json(data: bytes) -> Any:
    """As a client library would hand it over; what is no JSON never gets that far."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HowsureError("no JSON") from error


@functools.cache
def _server() -> Any:
    from howsure.models.servers.openai import OpenAIServer

    return OpenAIServer("model", base_url="http://127.0.0.1:9/v1")


@functools.cache
def _gemini() -> Any:
    from howsure.models.servers.gemini import GeminiModel

    return GeminiModel("gemini-x", base_url="http://127.0.0.1:9")


def _scored(protocol: Any, body: Any) -> Any:
    """What `ServerScorer` does with a body once it is here."""
    import msgspec

    from howsure.models.contract import Failure, ScoreItem
    from howsure.models.servers.protocols import Laid
    from howsure.models.text import utf8
    from howsure.models.token_places import align

    scorer, prefix, text = _server()._scorer, "The sky is", "The sky is blue"
    judged = scorer._judge(protocol, body)
    leading = None if isinstance(judged, str) else judged.leading
    try:
        readings = protocol.read([body], 5)
        "".join(token for tokens in readings for token in tokens.all_texts()).encode()
    except (msgspec.ValidationError, HowsureError, UnicodeEncodeError) as error:
        return Failure("bad_logprobs", _server()._client.unreadable(body, error))
    for tokens in readings:
        aligned = align(utf8(text), tokens.texts, leading)
        if aligned is not None:
            return scorer._evidence(ScoreItem(prefix, (" blue",)), {0: Laid(utf8(text), tokens, aligned)})
    return Failure("not_aligned", "")
