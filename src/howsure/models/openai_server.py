"""Any server that speaks OpenAI's chat API: OpenAI itself, vLLM, SGLang, llama.cpp, Ollama.

One client lives for one call of `generate` and is closed with it. Faults that pass are asked again, bounded
and counted (`Answer.retries`); a fault that every other call would meet too (wrong key, no such model, nobody
listening) raises; anything else fails that one conversation, with the server's words. The key is read from
`OPENAI_API_KEY` at each call, is never kept, and is cut out of whatever a server sends back.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Any

import msgspec

from howsure.errors import EvidenceError, MissingCapability, ModelError, ServerError
from howsure.evidence import TokenLogprobs, from_openai
from howsure.models.contract import Answer, Capability, Conversation, Counters, Model, as_messages
from howsure.models.endpoint import BodyRefused, Endpoint, bounded, check, quiet_log, server_words
from howsure.models.retries import Fault, RetryPolicy, asked_wait_s, status_passes
from howsure.models.running import run_to_end, together

MAX_TOP_LOGPROBS = 20
"""OpenAI's limit; the others follow it."""

MAX_CONNECT_S = 10.0

OnAnswer = Callable[[int, Answer], None]
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_LOGPROBS = ("logprobs", "top_logprobs")
_UNKNOWN_PARAMETER = re.compile(r"unsupported|not support|unrecogni[sz]ed|unknown|not permitted|instead", re.I)
_REMEDY = (
    "take a model that gives them: current llama.cpp, vLLM and SGLang servers do, Ollama from 0.12.11 on, "
    "OpenAI's reasoning models do not"
)


class OpenAIServer(Model):
    """Chat models behind an OpenAI-compatible server: they generate, with log-probabilities where given.

    Sampled answers use `seed` as it is, so equal conversations in one call get equal answers from a server
    that honours seeds. `timeout_s` bounds one attempt as a whole, `max_answer_bytes` the body of one answer.
    """

    capabilities = frozenset({Capability.GENERATE})

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
    ) -> None:
        check(bool(model.strip()), "an OpenAI-compatible server needs a model's name: openai:<model>")
        check(concurrency >= 1, f"concurrency must be at least 1, not {concurrency}")
        check(max_retries >= 0, f"max_retries must not be negative, as {max_retries} is")
        check(0 < timeout_s < math.inf, f"timeout_s must be a positive number of seconds, not {timeout_s}")
        check(0 <= backoff_s < math.inf, f"backoff_s must be a number of seconds from 0 on, not {backoff_s}")
        check(max_answer_bytes >= 1, f"max_answer_bytes must be at least 1, not {max_answer_bytes}")
        self.name = f"openai:{model}"
        self.model = model
        self.counters = Counters()
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.max_answer_bytes = max_answer_bytes
        self.retry = RetryPolicy(max_retries, backoff_s)
        self._endpoint = Endpoint.read(base_url)
        self.base_url = self._endpoint.shown
        # Many servers know only `max_tokens`, newer models of OpenAI only the other; a 400 switches.
        self._limit = "max_completion_tokens" if self._endpoint.is_openai else "max_tokens"

    def __repr__(self) -> str:
        return f"OpenAIServer({self.model!r}, base_url={self.base_url!r})"

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "openai", "model": self.model, "base_url": self.base_url}

    def load(self) -> None:
        """Check that there is a key where one is needed; nothing is sent."""
        self._endpoint.key()

    def check_logprobs(self, top_logprobs: int = 5) -> None:
        """Ask for one token, and raise in one sentence unless its log-probability comes with it."""
        answer = self.generate(["Answer with the word yes."], max_tokens=1, top_logprobs=top_logprobs)[0]
        asked = f"logprobs=true, top_logprobs={top_logprobs}"
        if answer.failure is not None:
            raise ModelError(f"{self.name} failed a one-token probe ({asked}): {answer.failure}")
        if answer.logprobs is None:
            why = answer.logprobs_missing
            raise MissingCapability(f"{self.name} failed a one-token probe ({asked}): {why}")
        first = answer.logprobs.top.row(0) if answer.logprobs.top and len(answer.logprobs) else []
        if not len(answer.logprobs) or (top_logprobs and not first):
            got = "log-probabilities without alternatives" if len(answer.logprobs) else "an empty answer"
            raise MissingCapability(f"{self.name} answered a one-token probe ({asked}) with {got}; {_REMEDY}")

    def generate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int = 5,
        seed: int = 0,
        on_answer: OnAnswer | None = None,
    ) -> list[Answer]:
        """One answer for each conversation, in order; `on_answer(index, answer)` hears of each at once."""
        return run_to_end(
            self.agenerate(
                conversations,
                max_tokens=max_tokens,
                temperature=temperature,
                top_logprobs=top_logprobs,
                seed=seed,
                on_answer=on_answer,
            )
        )

    async def agenerate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int = 5,
        seed: int = 0,
        on_answer: OnAnswer | None = None,
    ) -> list[Answer]:
        """`generate` for those who have an event loop of their own."""
        asked = [msgspec.to_builtins(as_messages(conversation)) for conversation in conversations]
        check(max_tokens >= 1, f"max_tokens must be at least 1, not {max_tokens}")
        options = {"model": self.model, **_options(temperature, top_logprobs, seed)}
        answers: dict[int, Answer] = {}
        todo = iter(enumerate(asked))

        async def work(client: Any) -> None:
            for index, messages in todo:
                request = {"messages": messages, **options}
                answers[index] = await self._answer(client, request, max_tokens, index)
                if on_answer is not None:
                    on_answer(index, answers[index])

        async with self._client() as client:
            await together([work(client) for _ in range(min(self.concurrency, len(asked)))])
        return [answers[index] for index in range(len(asked))]

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        key = self._endpoint.key()
        import openai  # costs 0.6 s

        # Retries are ours, so that they are counted, and so that a broken body is retried too.
        timeout = openai.Timeout(self.timeout_s, connect=min(self.timeout_s, MAX_CONNECT_S))
        hooks = {"response": [bounded(self.max_answer_bytes)]}
        http_client = openai.DefaultAsyncHttpxClient(timeout=timeout, event_hooks=hooks)
        with quiet_log(self._endpoint):
            async with openai.AsyncOpenAI(
                api_key=key,
                base_url=self._endpoint.url,
                max_retries=0,
                timeout=timeout,
                default_headers={"Accept-Encoding": "identity", **self._endpoint.headers},
                default_query=self._endpoint.query,
                http_client=http_client,
            ) as client:
                yield client

    async def _answer(self, client: Any, request: dict[str, Any], max_tokens: int, index: int) -> Answer:
        retries, unreachable, switched, refused = 0, True, False, None
        while True:
            limit = self._limit
            result = await self._attempt(client, {**request, limit: max_tokens})
            if not isinstance(result, Fault):
                return self._read(result, request.get("top_logprobs", 0), refused, retries)
            unreachable = unreachable and result.unreachable
            if not switched and _objects_to(result, limit) and _UNKNOWN_PARAMETER.search(result.reason):
                switched, self._limit = True, _OTHER_LIMIT[limit]
            elif refused is None and _objects_to(result, *_LOGPROBS):
                refused = f"{self.base_url} refuses to give log-probabilities ({result.reason}); {_REMEDY}"
                request = {name: value for name, value in request.items() if name not in _LOGPROBS}
            elif result.passes and retries < self.retry.max_retries:
                await asyncio.sleep(self.retry.wait_s(retries, index, result.asked_wait_s))
                retries += 1
            else:
                self._raise_if_hopeless(result, unreachable)
                times = f", {retries + 1} attempts" if retries else ""
                return Answer(None, failure=f"{result.reason}{times}", retries=retries)

    async def _attempt(self, client: Any, request: dict[str, Any]) -> Any:
        """The decoded body of an answer, or the `Fault` that kept it away."""
        import openai

        self.counters.calls += 1
        try:
            async with asyncio.timeout(self.timeout_s):
                raw = await client.chat.completions.with_raw_response.create(**request)
        except (TimeoutError, openai.APITimeoutError) as error:
            unreachable = type(error.__cause__).__name__ == "ConnectTimeout"
            return Fault(f"no answer within {self.timeout_s:g} s", passes=True, unreachable=unreachable)
        except openai.APIConnectionError as error:
            return self._broken_connection(error.__cause__)
        except openai.APIStatusError as error:
            return self._status_fault(error)
        except (BodyRefused, UnicodeEncodeError) as error:  # the latter for half a surrogate pair in a prompt
            return Fault(self._endpoint.tidy(str(error)))
        return self._decode(raw.content)

    def _broken_connection(self, cause: BaseException | None) -> Fault:
        kind = type(cause).__name__
        words = self._endpoint.tidy(str(cause)) or kind
        return Fault(f"the connection failed: {words}", passes=True, unreachable=kind == "ConnectError")

    def _status_fault(self, error: Any) -> Fault:
        words = self._endpoint.tidy(server_words(error.body)) or "no explanation"
        return Fault(
            f"HTTP {error.status_code}: {words}",
            passes=status_passes(error.status_code) and "insufficient_quota" not in (error.code, error.type),
            status=error.status_code,
            parameter=error.param if isinstance(error.param, str) else None,
            asked_wait_s=asked_wait_s(error.response.headers),
        )

    def _decode(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            start = self._endpoint.tidy(body[:300].decode("utf-8", errors="replace"))[:80]
            page = ", an HTML page: check the base URL" if start.startswith("<") else ""
            return Fault(f"the answer is not JSON{page}; it begins «{start}»", passes=True)

    def _raise_if_hopeless(self, fault: Fault, unreachable: bool) -> None:
        """Raise for a fault that every other conversation would meet too."""
        where, why = self.base_url, fault.reason
        if unreachable:
            raise ServerError(
                f"no server answers at {where} ({why}); start it, or correct --base-url or OPENAI_BASE_URL"
            )
        if fault.status in (401, 403):
            raise ServerError(
                f"the server at {where} refuses the key for {self.model!r} ({why}); set OPENAI_API_KEY to "
                "one that may use this model"
            )
        if fault.status == 404:
            raise ServerError(
                f"the server at {where} has no model {self.model!r} or no chat API at this address ({why}); "
                "check the model's name and the base URL, which mostly ends in /v1"
            )
        if fault.status == 429 and not fault.passes:
            raise ServerError(f"the account behind OPENAI_API_KEY has no quota left at {where} ({why})")

    def _read(self, body: Any, top_logprobs: int, refused: str | None, retries: int) -> Answer:
        try:
            reply = msgspec.convert(body, _Reply)
            text = reply.choices[0].message.content
            (text or "").encode()
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            said = server_words(body.get("error")) if isinstance(body, dict) else ""
            words = self._endpoint.tidy(said or str(error))
            return Answer(None, failure=f"unreadable answer: {words}", retries=retries)
        self.counters.tokens_run += reply.tokens
        choice = reply.choices[0]
        finish = self._endpoint.tidy(choice.finish_reason) if isinstance(choice.finish_reason, str) else None
        if text is None:
            said = self._endpoint.tidy(server_words(choice.message.refusal))
            reason = f"no text: finish_reason={finish}" + (f", refusal: {said}" if said else "")
            return Answer(None, failure=reason, finish_reason=finish, retries=retries)
        if refused is not None:
            return Answer(text, None, refused, finish, retries=retries)
        return Answer(text, *self._evidence(choice.logprobs, text, top_logprobs), finish, retries=retries)

    def _evidence(self, logprobs: Any, text: str, k: int) -> tuple[TokenLogprobs | None, str | None]:
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
        return (evidence if k else dataclasses.replace(evidence, top=None)), None


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

    @property
    def tokens(self) -> int:
        total = self.usage.get("total_tokens") if isinstance(self.usage, dict) else None
        return total if type(total) is int and total > 0 else 0


def _options(temperature: float, top_logprobs: int, seed: int) -> dict[str, Any]:
    check(0 <= temperature < math.inf, f"temperature must be a number from 0 on, not {temperature}")
    check(
        0 <= top_logprobs <= MAX_TOP_LOGPROBS,
        f"top_logprobs must be 0 to {MAX_TOP_LOGPROBS} for an OpenAI-compatible server, not {top_logprobs}",
    )
    alternatives = {"top_logprobs": top_logprobs} if top_logprobs else {}
    return {"temperature": temperature, "seed": seed, "logprobs": True, **alternatives}


def _objects_to(fault: Fault, *parameters: str) -> bool:
    """Whether a server refuses a request because of one of its parameters."""
    named = any(p == fault.parameter or re.search(rf"\b{p}\b", fault.reason) for p in parameters)
    return named and fault.status in (400, 403, 422)
