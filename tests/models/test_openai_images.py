"""The OpenAI back end with images in messages, answers held to a schema, and log-probabilities left out."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import pickle
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure.errors import InputError, MissingCapability, ServerError
from howsure.models.contract import Message, ScoreItem
from howsure.models.images import Picture, inspect_picture
from howsure.models.servers import openai
from howsure.models.servers.client import trusted_certificates
from howsure.models.servers.forms import shape
from howsure.models.servers.openai import DataUrls, OpenAIServer

from .misbehaving_server import Behaviour, Connection, MisbehavingServer, error, ok
from .misbehaving_server import answer as raw_json

SCHEMA = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": ["up", "down", "left", "right"]}},
    "required": ["action"],
    "additionalProperties": False,
}
NO_SCHEMA = error(400, "response_format.type json_schema is not supported", param="response_format")
NO_JSON = error(422, "Extra inputs are not permitted: response_format")
LISTED = raw_json([{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text'"}], 422)
BOUNDED = {**SCHEMA, "properties": {**SCHEMA["properties"], "format": {"type": "string", "maxLength": 400}}}
SHAPE = {**SCHEMA, "properties": {**SCHEMA["properties"], "format": {"type": "string"}}}


@pytest.fixture
def model(misbehaving: MisbehavingServer) -> OpenAIServer:
    return OpenAIServer("m", base_url=misbehaving.base_url, concurrency=4, max_retries=2, backoff_s=0.01)


def drawn(size: tuple[int, int] = (6, 4), colour: str = "red") -> Any:
    from PIL import Image

    image = Image.new("RGB", size, colour)
    image.putpixel((0, 0), (0, 0, 255))
    return image


def saved(path: Path, image: Any, **options: Any) -> Picture:
    image.save(path, **options)
    return inspect_picture(path)


def made(colour: str = "red") -> Picture:
    out = io.BytesIO()
    drawn(colour=colour).save(out, "PNG")
    return Picture.made(out.getvalue(), "frame 0", (6, 4))


def seen(part: dict[str, Any]) -> tuple[str, bytes]:
    """Media type and bytes of an image part."""
    assert part["type"] == "image_url"
    head, _, body = part["image_url"]["url"].partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(body, validate=True)


# -- images in messages -------------------------------------------------------------------------------------------


def test_images_stand_before_the_text_of_their_message(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    first, second = made("red"), made("green")
    conversation = [
        Message("system", "be brief"),
        Message("user", "which one?", (first, second)),
        Message("assistant", "both"),
        Message("user", "", (second,)),
    ]
    (answer,) = model.generate([conversation])
    assert answer.text == "Yes"
    assert model.counters.images_run == 3
    system, user, assistant, last = misbehaving.requests[0].body["messages"]
    assert (system, assistant) == ({"role": "system", "content": "be brief"}, {"role": "assistant", "content": "both"})
    assert [seen(part) for part in user["content"][:2]] == [("image/png", one.content) for one in (first, second)]
    assert user["content"][2:] == [{"type": "text", "text": "which one?"}]
    assert [seen(part) for part in last["content"]] == [("image/png", second.content)]


def test_images_may_be_given_by_their_paths(
    model: OpenAIServer, misbehaving: MisbehavingServer, tmp_path: Path
) -> None:
    one = saved(tmp_path / "a.png", drawn())
    for images in ([one.path], one.path, Path(one.path), (one,)):
        model.generate([[{"role": "user", "content": "what?", "images": images}]])
        assert seen(misbehaving.requests[-1].body["messages"][0]["content"][0]) == ("image/png", one.read())


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_what_every_server_takes_is_sent_as_it_is(tmp_path: Path, kind: str) -> None:
    one = saved(tmp_path / f"a.{kind}", drawn())
    assert one.to_send() == (f"image/{kind}", one.read())


@pytest.mark.parametrize(
    "kind", ["a.webp", "a.gif", "a.bmp", "a.tiff", "a.ppm", "turned.jpg", "turned.png", "moving.gif", "moving.png"]
)
def test_the_rest_is_sent_as_the_png_that_a_local_model_would_see(tmp_path: Path, kind: str) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    options: dict[str, Any] = {"exif": exif} if kind.startswith("turned") else {}
    if kind.startswith("moving"):
        options = {"save_all": True, "append_images": [drawn(colour="green")]}
    one = saved(tmp_path / kind, drawn(), **options)
    media_type, content = one.to_send()
    assert media_type == "image/png"
    sent = Image.open(io.BytesIO(content))
    assert (sent.format, sent.size) == ("PNG", (one.width, one.height))
    assert not sent.is_animated
    assert sent.size == ((4, 6) if kind.startswith("turned") else (6, 4))
    assert sent.tobytes() == one.load().tobytes()
    assert inspect_picture_again(tmp_path / "again.png", content).to_send() == (media_type, content)


def inspect_picture_again(path: Path, content: bytes) -> Picture:
    path.write_bytes(content)
    return inspect_picture(path)


def test_one_image_in_many_requests_is_written_once(
    model: OpenAIServer, misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    original = openai.data_url
    monkeypatch.setattr(openai, "data_url", lambda one: written.append(one.path) or original(one))
    for _ in range(2):
        model.generate([[Message("user", text, (made(),))] for text in "abcdef"])
    assert written == ["frame 0"]
    assert len({str(request.body["messages"][0]["content"][0]) for request in misbehaving.requests}) == 1
    assert len(pickle.dumps(model)) < 4000, "what was sent does not travel along"
    model.close()
    model.generate([[Message("user", "a", (made(),))]])
    assert len(written) == 2


def test_what_is_kept_of_images_is_bounded() -> None:
    red, green = made("red"), made("green")
    urls = DataUrls(most_bytes=len(openai.data_url(red)) + 10)
    first = urls.of(red)
    assert urls.of(red) is first
    urls.of(green)
    assert urls.of(red) == first
    assert urls.of(red) is not first, "the other one took its place meanwhile"
    both = DataUrls(most_bytes=2 * len(first) + 10)
    first = both.of(red)
    for one in (green, red, made("blue")):
        both.of(one)
    assert both.of(red) is first, "the one that was not used for longest went, not the oldest"
    both.clear()
    first = both.of(red)
    both.of(green)
    assert both.of(red) is first, "there is as much room as at first"
    tiny = DataUrls(most_bytes=1)
    assert tiny.of(red) == first, "one that is larger than all that may be kept is sent too"
    assert not tiny._kept


def test_an_image_that_is_no_longer_what_it_was_fails_alone(
    model: OpenAIServer, misbehaving: MisbehavingServer, tmp_path: Path
) -> None:
    changed, gone = saved(tmp_path / "changed.png", drawn()), saved(tmp_path / "gone.png", drawn(colour="green"))
    drawn(colour="white").save(changed.path)
    Path(gone.path).unlink()
    first, second, third = model.generate([[Message("user", "?", (one,))] for one in (changed, gone, made("blue"))])
    assert first.failure == f"{changed.path} has changed since it was checked"
    assert second.failure.startswith(f"image {gone.path} cannot be read")
    assert third.text == "Yes"
    assert len(misbehaving.requests) == 1


def test_a_server_without_eyes_fails_the_conversation_in_its_words(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    misbehaving.script = [error(400, "image input is not supported by this model")]
    (answer,) = model.generate([[Message("user", "?", (made(),))]], answer_schema=SCHEMA)
    assert answer.failure == "HTTP 400: image input is not supported by this model"
    assert len(misbehaving.requests) == 1, "its objection is not to the form"
    assert model.answer_form is None


def test_images_are_answered_and_not_scored(
    model: OpenAIServer, misbehaving: MisbehavingServer, tmp_path: Path
) -> None:
    assert model.answers_images
    assert not model.takes_images
    items = [ScoreItem("a", ("b",), made()), ScoreItem((Message("user", "a", (made(),)),), ("b",))]
    assert [one.reason for one in model.plan_scores(items).refused.values()] == ["needs_local_model"] * 2
    drawn().save(tmp_path / "a.png")
    question = {"question": "?", "choices": ["a", "b"], "answer_index": 0, "image_path": "a.png"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    with pytest.raises(MissingCapability, match="1 of 1 questions have an image"):
        howsure.mcq(tmp_path / "q.jsonl", model, out=tmp_path / "out")
    assert not misbehaving.requests


# -- no log-probabilities -------------------------------------------------------------------------------------------


def test_log_probabilities_that_nobody_wants_are_not_asked_for(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    (answer,) = model.generate(["Hello"], top_logprobs=None)
    body = misbehaving.requests[0].body
    assert not {"logprobs", "top_logprobs"} & set(body)
    assert (answer.text, answer.logprobs, answer.logprobs_missing) == ("Yes", None, "not asked for")
    misbehaving.script = [error(400, "logprobs? no")]
    assert model.generate(["Hello"], top_logprobs=None)[0].failure == "HTTP 400: logprobs? no"
    assert len(misbehaving.requests) == 2, "there is nothing to leave out"


# -- answers held to a schema ---------------------------------------------------------------------------------------


def forms(misbehaving: MisbehavingServer) -> list[str | None]:
    return [request.body.get("response_format", {}).get("type") for request in misbehaving.requests]


def test_the_schema_is_sent_and_no_form_without_one(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    model.generate(["Hello"])
    assert model.answer_form is None
    model.generate(["Hello"], answer_schema=SCHEMA)
    model.generate(["Hello"])
    assert forms(misbehaving) == [None, "json_schema", None]
    sent = misbehaving.requests[1].body["response_format"]["json_schema"]
    assert sent == {"name": "answer", "schema": SCHEMA, "strict": True}
    assert model.answer_form == "json_schema"


@pytest.mark.parametrize(
    ("refusals", "tried"),
    [
        ([NO_SCHEMA], ["json_schema", "json_object"]),
        ([error(400, "Invalid schema for 'answer'")], ["json_schema", "json_object"]),
        ([error(403, "Unsupported parameter")], ["json_schema", "json_object"]),
        ([error(400, "Failed to parse grammar")], ["json_schema", "json_object"]),
        ([error(400, "Grammar error: Unimplemented keys")], ["json_schema", "json_object"]),
        ([error(500, "Grammar error: Unimplemented keys")], ["json_schema", "json_object"]),
        ([error(501, "JSON mode is not implemented")], ["json_schema", "json_object"]),
        ([error(400, "Guided decoding needs a backend")], ["json_schema", "json_object"]),
        ([LISTED], ["json_schema", "json_object"]),
        ([NO_SCHEMA, NO_JSON], ["json_schema", "json_object", None]),
    ],
)
def test_a_refused_form_is_loosened_step_by_step_and_remembered(
    model: OpenAIServer, misbehaving: MisbehavingServer, refusals: list[Behaviour], tried: list[str | None]
) -> None:
    misbehaving.script = [*refusals, ok()]
    (answer,) = model.generate(["Hello"], answer_schema=SCHEMA)
    assert (answer.text, answer.retries, answer.logprobs is not None) == ("Yes", 0, True)
    assert forms(misbehaving) == tried
    assert model.answer_form == (tried[-1] or "free")
    model.generate(["Hello"] * 3, answer_schema=SCHEMA)
    assert forms(misbehaving)[len(tried) :] == [tried[-1]] * 3


def test_a_schema_whose_bounds_are_refused_is_asked_for_without_them_and_that_is_told(
    misbehaving: MisbehavingServer,
) -> None:
    told: list[str] = []
    model = howsure.load("openai:m", base_url=misbehaving.base_url, concurrency=1, announce=told.append)
    words = "Invalid schema for response_format 'answer': In context=('properties', 'x'), 'maxLength' is not permitted"

    def strict(connection: Connection) -> None:
        refused = "maxLength" in json.dumps(connection.asked.body)
        (error(400, words, param="response_format") if refused else ok())(connection)

    misbehaving.script = [strict]
    assert [one.text for one in model.generate(["a", "b", "c"], answer_schema=BOUNDED)] == ["Yes"] * 3
    held = [request.body["response_format"]["json_schema"]["schema"] for request in misbehaving.requests]
    assert held == [BOUNDED] + [SHAPE] * 3
    assert model.answer_form == "json_shape"
    assert told == [
        f"openai:m does not hold its answers to the schema (HTTP 400: {words}); it is asked with form=json_shape"
    ]


def test_a_refused_form_is_told_once_however_many_were_refused(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    told: list[str] = []
    model._announce = told.append
    misbehaving.script = [lambda c: (NO_SCHEMA if "response_format" in c.asked.body else ok())(c)]
    for _ in range(2):
        model.generate(["a", "b", "c", "d"], answer_schema=BOUNDED)
    assert len(told) == 1
    assert told[0].endswith("form=free")


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "This model's maximum context length is 8192 tokens, and 9000 were requested"),
        error(400, "Unsupported value: 0.0 is not supported with this model", param="temperature"),
        error(400, "Failed to load image or audio file"),
        error(404, "no schema here"),
    ],
)
def test_an_objection_to_something_else_costs_no_second_request(
    model: OpenAIServer, misbehaving: MisbehavingServer, refusal: Behaviour
) -> None:
    misbehaving.script = [refusal, ok()]
    with contextlib.suppress(ServerError):
        assert model.generate(["Hello"], answer_schema=SCHEMA)[0].failure.startswith("HTTP 400")
    assert forms(misbehaving) == ["json_schema"]
    assert model.answer_form is None


def test_the_shape_of_a_schema_keeps_names_kinds_and_choices() -> None:
    names = {name: {"type": "number", "minimum": 0, "maximum": 1} for name in ("minimum", "pattern", "properties")}
    schema = {
        "$defs": {"format": {"type": "string", "format": "date", "enum": ["maxLength"]}},
        "type": "object",
        "properties": {**names, "list": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"pattern": "a"}}},
        "anyOf": [{"minProperties": 1}, {"const": {"maxLength": 1}}],
        "required": ["minimum", "pattern"],
    }
    assert shape(schema) == {
        "$defs": {"format": {"type": "string", "enum": ["maxLength"]}},
        "type": "object",
        "properties": {**{name: {"type": "number"} for name in names}, "list": {"type": "array", "items": {}}},
        "anyOf": [{}, {"const": {"maxLength": 1}}],
        "required": ["minimum", "pattern"],
    }
    assert schema["properties"]["list"]["maxItems"] == 4, "the given one is left as it is"


def test_what_the_first_request_found_out_is_how_the_next_is_asked(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    def only_objects(connection: Connection) -> None:
        form = connection.asked.body.get("response_format", {}).get("type")
        (NO_SCHEMA if form == "json_schema" else ok())(connection)

    model.concurrency = 1
    misbehaving.script = [only_objects]
    model.generate(["a", "b", "c"], answer_schema=SCHEMA)
    assert forms(misbehaving) == ["json_schema", *["json_object"] * 3]


def test_a_firmer_form_that_is_taken_late_is_not_how_the_next_is_asked(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    """One of two that are asked at the same time is refused the schema; the other is given it, but later."""
    loosened = threading.Event()

    def behave(connection: Connection) -> None:
        asked = connection.asked.body
        if asked["messages"][0]["content"] == "late":
            loosened.wait(5)
            time.sleep(0.05)
            ok()(connection)
        elif asked["response_format"]["type"] == "json_schema":
            NO_SCHEMA(connection)
        else:
            ok()(connection)
            loosened.set()

    misbehaving.script = [behave]
    model.generate(["late", "early"], answer_schema=SCHEMA)
    assert model.answer_form == "json_object"


def test_a_form_that_nothing_mends_is_forgotten_and_the_servers_words_are_kept(
    model: OpenAIServer, misbehaving: MisbehavingServer
) -> None:
    misbehaving.script = [error(400, "this schema? never")]
    (answer,) = model.generate(["Hello"], answer_schema=SCHEMA)
    assert answer.failure == "HTTP 400: this schema? never"
    assert forms(misbehaving) == ["json_schema", "json_object", None]
    assert model.answer_form is None


def test_each_objection_is_met_by_what_it_is_about(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    """The limit's other name, then the form, then the log-probabilities; each once, and none for another."""
    misbehaving.script = [
        error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"),
        error(400, "Logprobs cannot be used with JSON mode"),
        error(400, "json_object is not supported with logprobs"),
        error(400, "logprobs are not supported"),
        ok(logprobs=None),
    ]
    (answer,) = model.generate(["Hello"], answer_schema=SCHEMA)
    assert answer.text == "Yes"
    assert answer.logprobs_missing.startswith(f"{misbehaving.base_url} refuses to give log-probabilities (HTTP 400")
    bodies = [request.body for request in misbehaving.requests]
    assert ["max_tokens" in body for body in bodies] == [True, False, False, False, False]
    assert forms(misbehaving) == ["json_schema", "json_schema", "json_object", None, None]
    assert ["logprobs" in body for body in bodies] == [True] * 4 + [False]


@pytest.mark.parametrize("schema", [{"enum": {1, 2}}, [1], "x", {"minimum": float("nan")}])
def test_what_is_no_schema_is_refused_before_any_call(
    model: OpenAIServer, misbehaving: MisbehavingServer, schema: Any
) -> None:
    with pytest.raises(InputError, match="answer_schema"):
        model.generate(["Hello"], answer_schema=schema)
    assert not misbehaving.requests


@pytest.mark.server
@pytest.mark.real_model
def test_a_real_server_answers_in_the_form_with_the_probabilities_of_each_token(llama_server: str) -> None:
    model = OpenAIServer("smollm2", base_url=llama_server, concurrency=3)
    question = "You stand in a maze and the goal is above you. Where do you go? Answer with JSON."
    answers = model.generate([question] * 3, max_tokens=40, temperature=1.0, top_logprobs=8, answer_schema=SCHEMA)
    assert model.answer_form == "json_schema"
    for answer in answers:
        assert answer.finish_reason == "stop"
        said = json.loads(answer.text)
        assert list(said) == ["action"]
        assert said["action"] in SCHEMA["properties"]["action"]["enum"]
        assert answer.text in answer.logprobs.text, "the server takes a fence around the object off the text alone"
        assert all(len(answer.logprobs.top.row(i)) == 8 for i in range(len(answer.logprobs)))


def test_certificates_are_read_once_for_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    first = trusted_certificates()
    assert trusted_certificates() is first
    monkeypatch.setenv("SSL_CERT_DIR", "/")
    assert trusted_certificates() is not first
    monkeypatch.undo()
    assert trusted_certificates() is first


def test_no_client_reads_certificates_again(model: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("they were read already")

    trusted_certificates()
    monkeypatch.setattr(ssl, "create_default_context", never)
    assert model.generate(["Hello"])[0].text == "Yes"


def test_a_body_with_a_large_image_arrives_whole(model: OpenAIServer, misbehaving: MisbehavingServer) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.effect_noise((1200, 900), 80).save(out, "PNG")
    one = Picture.made(out.getvalue(), "noise", (1200, 900))
    model.generate([[Message("user", "?", (one,))]])
    assert seen(misbehaving.requests[0].body["messages"][0]["content"][0])[1] == one.content
