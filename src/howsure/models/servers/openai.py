"""Any server that speaks OpenAI's API: OpenAI itself, vLLM, SGLang, llama.cpp, Ollama.

One client lives for one call of `generate` or `score` and is closed with it (`servers.client`). Faults that pass are
asked again, bounded and counted; a fault that every other call would meet too raises; anything else fails that one
conversation or item, with the server's words. Scoring needs a server that gives the log-probabilities of a prompt,
which is found out by a probe before any work (`servers.scoring`). Images are sent as data URLs, before the text.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from howsure.errors import EvidenceError, InputError
from howsure.evidence import TokenLogprobs, from_openai
from howsure.models.contract import (
    NOT_ASKED,
    Answer,
    Capability,
    Conversation,
    Counters,
    Failure,
    Message,
    Model,
    Passage,
    Rolling,
    ScoreItem,
    ScorePlan,
    Stretch,
    as_messages,
)
from howsure.models.images import Picture
from howsure.models.servers import scoring
from howsure.models.servers.client import (
    Fault,
    RetryPolicy,
    ServerClient,
    check_probe,
    check_settings,
    run_to_end,
    together,
    tokens_used,
)
from howsure.models.servers.endpoint import Endpoint, check, server_words
from howsure.models.servers.forms import FORMS, REFUSED_FORM, check_schema, loosened, next_form, shape

MAX_TOP_LOGPROBS = 20
"""OpenAI's limit; the others follow it."""

OnAnswer = Callable[[int, Answer], None]
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_LOGPROBS = ("logprobs", "top_logprobs")
_REFUSING = (400, 403, 422)
_FAILING = (500, 501)
"""What some servers answer to a form that they cannot make a grammar of."""

_UNKNOWN_PARAMETER = re.compile(r"unsupported|not support|unrecogni[sz]ed|unknown|not permitted|instead", re.I)
_REMEDY = (
    "take a model that gives them: current llama.cpp, vLLM and SGLang servers do, Ollama from 0.12.11 on, "
    "OpenAI's reasoning models do not"
)


class OpenAIServer(Model):
    """Models behind an OpenAI-compatible server: they generate, with log-probabilities where given, and some score.

    Sampled answers use `seed` as it is, so equal conversations in one call get equal answers from a server
    that honours seeds. `timeout_s` bounds one attempt as a whole, `max_answer_bytes` the body of one answer. `announce`
    hears in one sentence of a form of answer that the server refused and is done without.
    """

    capabilities = frozenset({Capability.GENERATE, Capability.SCORE})
    remote = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        concurrency: int = 8,
        max_retries: int = 5,
        timeout_s: float = 120.0,
        backoff_s: float = 0.5,
        max_answer_bytes: int = 64 * 2**20,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        check(bool(model.strip()), "an OpenAI-compatible server needs a model's name: openai:<model>")
        check_settings(
            concurrency=concurrency,
            max_retries=max_retries,
            timeout_s=timeout_s,
            backoff_s=backoff_s,
            max_answer_bytes=max_answer_bytes,
        )
        self.name = f"openai:{model}"
        self.model = model
        self.counters = Counters()
        self.concurrency = concurrency
        self._endpoint = Endpoint.read(base_url)
        self.base_url = self._endpoint.shown
        retry = RetryPolicy(max_retries, backoff_s)
        self._client = ServerClient(model, self._endpoint, self.counters, retry, timeout_s, max_answer_bytes)
        self._scorer = scoring.ServerScorer(self.name, self._client, concurrency)
        self._wants_scores = False
        self._urls = DataUrls()
        self._announce = announce
        # Many servers know only `max_tokens`, newer models of OpenAI only the other; a 400 switches.
        self._limit = "max_completion_tokens" if self._endpoint.is_openai else "max_tokens"

    def __repr__(self) -> str:
        return f"OpenAIServer({self.model!r}, base_url={self.base_url!r})"

    @property
    def answers_images(self) -> bool:
        return True

    def close(self) -> None:
        """Forget the images that were sent; nothing else is held between two calls."""
        self._urls.clear()

    def fingerprint(self) -> dict[str, Any]:
        """Where scores are wanted, how the server gives them is part of it, and so the server is probed here."""
        out = {"backend": "openai", "model": self.model, "base_url": self.base_url}
        if not self._wants_scores:
            return out
        way = self._scorer.way()
        return {**out, "scores_by": way.protocol.name, "begin_tokens": way.leading}

    def require(self, capability: Capability, purpose: str) -> None:
        """Scores are known to be wanted from here on; nothing is sent yet, since a dry run needs no server."""
        super().require(capability, purpose)
        self._wants_scores = self._wants_scores or capability is Capability.SCORE

    def load(self) -> None:
        """Check that there is a key where one is needed, and that the server can score where that is wanted."""
        self._endpoint.key()
        if self._wants_scores:
            self._scorer.way()

    def plan_scores(self, items: Sequence[ScoreItem]) -> ScorePlan:
        """Nothing is sent; the tokens are an estimate, at four bytes each."""
        return scoring.plan(items, self.concurrency)

    def try_score(
        self, items: Sequence[ScoreItem], *, top_logprobs: int = 0, entropies: bool = False
    ) -> list[list[TokenLogprobs] | Failure]:
        """One request for each continuation; exact entropies are nothing that a server gives, so they stay unknown."""
        _check_top(top_logprobs)
        return self._scorer.try_score(items, top_logprobs)

    def rolling(self, wanted: Rolling) -> Rolling:
        """Nothing is sent; what a server sees of a text is for the server to say."""
        return scoring.rolling(self.name, wanted)

    def passages(self, chunks: Iterable[str], rolling: Rolling) -> Iterator[Passage]:
        self.rolling(rolling)
        return scoring.passages(chunks)

    def read(self, passages: Sequence[Passage]) -> list[Stretch | Failure]:
        return scoring.read(passages, self.try_score)

    def check_logprobs(self, top_logprobs: int = 5) -> None:
        """Ask for one token, and raise in one sentence unless its log-probability comes with it."""
        answer = self.generate(["Answer with the word yes."], max_tokens=1, top_logprobs=top_logprobs)[0]
        probe = f"a one-token probe (logprobs=true, top_logprobs={top_logprobs})"
        check_probe(answer, self.name, probe, top_logprobs, _REMEDY)

    def generate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int | None = 5,
        seed: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
        on_answer: OnAnswer | None = None,
    ) -> list[Answer]:
        """One answer for each conversation, in order; `on_answer(index, answer)` hears of each at once.

        A server that refuses to hold its answers to a schema is asked for its shape without bounds, for any JSON
        object, then for free text; what it took is `answer_form`, and is how it is asked from then on.
        """
        return run_to_end(
            self.agenerate(
                conversations,
                max_tokens=max_tokens,
                temperature=temperature,
                top_logprobs=top_logprobs,
                seed=seed,
                answer_schema=answer_schema,
                on_answer=on_answer,
            )
        )

    async def agenerate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int | None = 5,
        seed: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
        on_answer: OnAnswer | None = None,
    ) -> list[Answer]:
        """`generate` for those who have an event loop of their own."""
        asked = [as_messages(conversation) for conversation in conversations]
        check(max_tokens >= 1, f"max_tokens must be at least 1, not {max_tokens}")
        check_schema(answer_schema)
        options = {"model": self.model, **_options(temperature, top_logprobs, seed)}
        answers: dict[int, Answer] = {}
        todo = iter(enumerate(asked))

        async def work(client: Any) -> None:
            for index, messages in todo:
                wish = _Wish(options, self._limit, max_tokens, answer_schema, self.answer_form)
                answers[index] = await self._answer(client, messages, wish, index)
                if on_answer is not None:
                    on_answer(index, answers[index])

        async with self._client.open() as client:
            await together([work(client) for _ in range(min(self.concurrency, len(asked)))])
        return [answers[index] for index in range(len(asked))]

    async def _answer(self, client: Any, messages: Sequence[Message], wish: _Wish, index: int) -> Answer:
        try:
            sent = chat_messages(messages, self._urls)
        except InputError as error:  # an image that is no longer what it was
            return Answer(None, failure=str(error))

        async def send() -> Any:
            return await client.chat.completions.with_raw_response.create(messages=sent, **wish.parameters())

        self.counters.images_run += sum(len(message.images) for message in messages)
        reply = await self._client.ask(send, index, wish.mend)
        if wish.switched:
            self._limit = wish.limit
        if reply.fault is not None:
            self._client.raise_if_hopeless(reply.fault, "chat")
            return Answer(None, failure=reply.fault.reason, retries=reply.retries)
        if wish.form is not None:
            self._remember_form(wish.form, wish.refused_form)
        return self._read(reply.body, wish, reply.retries)

    def _remember_form(self, form: str, refusal: str | None) -> None:
        known = self.answer_form or FORMS[0]
        self.answer_form = max(form, known, key=FORMS.index)
        if self.answer_form != known and self._announce is not None:
            self._announce(f"{self.name} {loosened(self.answer_form, refusal)}")

    def _read(self, body: Any, wish: _Wish, retries: int) -> Answer:
        try:
            reply = msgspec.convert(body, _Reply)
            text = reply.choices[0].message.content
            (text or "").encode()
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            words = self._client.unreadable(body, error)
            return Answer(None, failure=f"unreadable answer: {words}", retries=retries)
        self.counters.tokens_run += tokens_used(reply.usage)
        choice = reply.choices[0]
        finish = self._endpoint.tidy(choice.finish_reason) if isinstance(choice.finish_reason, str) else None
        if text is None:
            refusal = self._endpoint.tidy(server_words(choice.message.refusal))
            reason = f"no text: finish_reason={finish}" + (f", refusal: {refusal}" if refusal else "")
            return Answer(None, failure=reason, finish_reason=finish, retries=retries)
        answer = Answer(text, *self._evidence(choice.logprobs, text, wish), finish, retries=retries)
        return self._client.kept(answer)

    def _evidence(self, logprobs: Any, text: str, wish: _Wish) -> tuple[TokenLogprobs | None, str | None]:
        if not wish.wants_logprobs:
            return None, NOT_ASKED
        if wish.refused is not None:
            return None, f"{self.base_url} refuses to give log-probabilities ({wish.refused}); {_REMEDY}"
        content = logprobs.get("content") if isinstance(logprobs, dict) else logprobs
        if content is None or (content == [] and text):
            return None, f"{self.base_url} left out the log-probabilities that were asked for; {_REMEDY}"
        try:
            evidence = from_openai({"content": content})
            evidence.text.encode()
            "".join((*evidence.tokens, *(evidence.top.tokens if evidence.top else ()))).encode()
        except (EvidenceError, UnicodeEncodeError) as error:
            return None, f"{self.base_url} gave broken log-probabilities: {self._endpoint.tidy(str(error))}"
        # Asked for no alternatives, llama.cpp sends twenty.
        return (evidence if wish.wants_alternatives else dataclasses.replace(evidence, top=None)), None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: Any = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: Any = None
    logprobs: Any = None


class _Reply(msgspec.Struct):
    """What is read of an answer; everything else in it may be as it likes."""

    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: Any = None


class _Wish:
    """What is asked for, and what of it a server would not have."""

    def __init__(
        self,
        options: Mapping[str, Any],
        limit: str,
        max_tokens: int,
        schema: Mapping[str, Any] | None,
        known_form: str | None,
    ) -> None:
        self.options = options
        self.limit = limit
        self.max_tokens = max_tokens
        self.schema = schema
        self.form = None if schema is None else known_form or FORMS[0]
        self.refused_form: str | None = None
        self.wants_logprobs = "logprobs" in options
        self.wants_alternatives = "top_logprobs" in options
        self.switched = False
        self.refused: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Everything of a request but its messages."""
        return {**self.options, self.limit: self.max_tokens, **self._response_format()}

    def _response_format(self) -> dict[str, Any]:
        if self.schema is None or self.form == "free":
            return {}
        if self.form == "json_object":
            return {"response_format": {"type": "json_object"}}
        held = self.schema if self.form == "json_schema" else shape(self.schema)
        named = {"name": "answer", "schema": held, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def mend(self, fault: Fault) -> bool:
        """Ask otherwise, once each way, where the server objects to how it was asked.

        A server that objects to log-probabilities together with a form keeps the former: they are what it is asked for.
        """
        if self.schema is not None and self.form is not None and self._objects_to_form(fault):
            self.form, self.refused_form = next_form(self.form, self.schema), fault.reason
            return True
        if not self.switched and _objects_to(fault, self.limit) and _UNKNOWN_PARAMETER.search(fault.reason):
            self.switched, self.limit = True, _OTHER_LIMIT[self.limit]
            return True
        if self.wants_logprobs and self.refused is None and _objects_to(fault, *_LOGPROBS):
            self.refused = fault.reason
            self.options = {name: value for name, value in self.options.items() if name not in _LOGPROBS}
            return True
        return False

    def _objects_to_form(self, fault: Fault) -> bool:
        """By name; or to something that it does not name, and that is not in every other request too."""
        if self.form == "free" or fault.status not in (*_REFUSING, *_FAILING):
            return False
        if REFUSED_FORM.search(f"{fault.parameter} {fault.reason}"):
            return True
        named = fault.parameter or _objects_to(fault, self.limit, *_LOGPROBS) or "image" in fault.reason.lower()
        return not named and fault.status in _REFUSING and _UNKNOWN_PARAMETER.search(fault.reason) is not None


def _options(temperature: float, top_logprobs: int | None, seed: int) -> dict[str, Any]:
    check(0 <= temperature < math.inf, f"temperature must be a number from 0 on, not {temperature}")
    plain: dict[str, Any] = {"temperature": temperature, "seed": seed}
    if top_logprobs is None:
        return plain
    _check_top(top_logprobs)
    alternatives = {"top_logprobs": top_logprobs} if top_logprobs else {}
    return {**plain, "logprobs": True, **alternatives}


def _check_top(top_logprobs: int) -> None:
    limits = f"0 to {MAX_TOP_LOGPROBS} for an OpenAI-compatible server"
    check(0 <= top_logprobs <= MAX_TOP_LOGPROBS, f"top_logprobs must be {limits}, not {top_logprobs}")


def _objects_to(fault: Fault, *parameters: str) -> bool:
    """Whether a server refuses a request because of one of its parameters."""
    complaint = f"{fault.parameter} {fault.reason}"
    return fault.status in _REFUSING and any(re.search(rf"\b{p}\b", complaint, re.I) for p in parameters)


class DataUrls:
    """Images as data URLs; safe to share between threads.

    An image that stands in many requests, as one view of the world does in several questions about it, is written in
    base64 once. What was written is kept by its content, up to a number of bytes, the latest used.
    """

    def __init__(self, most_bytes: int = 64 * 2**20) -> None:
        self.most_bytes = most_bytes
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[DataUrls], tuple[int]]:
        return DataUrls, (self.most_bytes,)  # what is kept can be made again wherever this travels

    def of(self, picture: Picture) -> str:
        """Raises in one sentence where the file is not what it was."""
        with self._lock:
            if picture.sha256 not in self._kept:
                self._kept[picture.sha256] = data_url(picture)
                self._bytes += len(self._kept[picture.sha256])
            self._kept.move_to_end(picture.sha256)
            url = self._kept[picture.sha256]
            while self._bytes > self.most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])
            return url

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


def data_url(picture: Picture) -> str:
    media_type, content = picture.to_send()
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def chat_messages(messages: Sequence[Message], urls: DataUrls) -> list[dict[str, Any]]:
    """The `messages` of a request."""
    return [{"role": message.role, "content": _content(message, urls)} for message in messages]


def _content(message: Message, urls: DataUrls) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.content
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": urls.of(one)}} for one in message.images]
    return parts + ([{"type": "text", "text": message.content}] if message.content else [])
