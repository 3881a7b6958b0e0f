"""Asking Gemini: Google's SDK kept open in a thread of its own, faults told apart, retries counted.

Making the SDK's client takes time, and a connection to Google a good deal more, so both live from the first call to
`close`; they need an event loop that lives as long. The SDK's own retries are off: ours are counted (`servers.client`).

Which of Google's endpoints is asked is told by the variables that the SDK reads. The developer API takes a key. Vertex
AI (`GOOGLE_GENAI_USE_VERTEXAI=true`) takes a project and the credentials that `gcloud auth application-default login`
leaves behind, or, without a project, a key too.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from howsure.errors import ModelError, ServerError
from howsure.models.contract import Counters
from howsure.models.servers.client import (
    MAX_CONNECT_S,
    Fault,
    RetryPolicy,
    Send,
    ServerClient,
    asked_wait_s,
    status_passes,
    trusted_certificates,
)
from howsure.models.servers.endpoint import HIDDEN, NO_KEY, BodyRefused, Endpoint, bounded, quiet_log, server_words

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The first that is set counts, as in the SDK."""

_KEYS = " or ".join(KEY_VARIABLES)

DEVELOPER_URL = "https://generativelanguage.googleapis.com"
_VERTEX_SWITCHES = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
_URL_VARIABLES = {False: "GOOGLE_GEMINI_BASE_URL", True: "GOOGLE_VERTEX_BASE_URL"}
_MULTI_REGIONS = ("us", "eu")
_GOOGLE_SECRET = re.compile(r"\b(?:ya29\.|AIza|AQ\.)[\w.\-]{10,}")
"""What keys and access tokens of Google's look like: the SDK holds some that no variable does."""

_ACCESS_TOKEN = re.compile(r"\bya29\.[\w.\-]{20,}")

KEEP_ALIVE_S = 60.0
"""How long a connection without work is kept; a study may well think for a while between two steps."""

_T = TypeVar("_T")


@dataclass(frozen=True, repr=False)
class GeminiEndpoint(Endpoint):
    """A base URL, or Google's own address, with the account that is used there."""

    vertex: bool = False
    project: str | None = None
    location: str | None = None
    is_google: bool = True
    """Whether the address is the one that the SDK would take by itself."""

    @classmethod
    def find(cls, base_url: str | None) -> GeminiEndpoint:
        """From the given base URL or the environment."""
        vertex = _wants_vertex()
        project = _variable("GOOGLE_CLOUD_PROJECT") if vertex else None
        location = (_variable("GOOGLE_CLOUD_LOCATION") or "global") if project else None
        url = base_url or _variable(_URL_VARIABLES[vertex])
        own = _vertex_url(location or "global") if vertex else DEVELOPER_URL
        read = Endpoint.read(url or own)
        address = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        return cls(**address, vertex=vertex, project=project or None, location=location, is_google=not url)

    @property
    def kind(self) -> str:
        return "vertex" if self.vertex else "developer"

    @property
    def is_loopback(self) -> bool:
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def account(self) -> dict[str, str]:
        """What the SDK's client needs to know of whose account it is; raises in one sentence where there is none."""
        if self.project and self.location:
            return {"project": self.project, "location": self.location}
        return {"api_key": self.key()}

    def key(self) -> str:
        """The key from the environment; a placeholder where only this machine would hear of it."""
        name, key = next(((name, value) for name in KEY_VARIABLES if (value := _variable(name))), ("", ""))
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{name} holds characters that no key has; copy the key again")
        if not key and not self.is_loopback:
            raise ModelError(f"{self.shown} needs {self._lacking()}")
        return key or NO_KEY

    def _lacking(self) -> str:
        if self.vertex:
            return f"an account of Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or a key in {_KEYS}"
        return (
            f"a key: set {_KEYS}, or for Vertex AI set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and "
            "GOOGLE_CLOUD_LOCATION"
        )

    def keys(self) -> list[str]:
        return [key for name in KEY_VARIABLES if (key := _variable(name))]

    def scrub(self, text: str) -> str:
        """The text without the secrets, as far as they are known."""
        return _GOOGLE_SECRET.sub(HIDDEN, super().scrub(text))

    def gives_away(self, text: str) -> bool:
        return super().gives_away(text) or _ACCESS_TOKEN.search(text) is not None


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def _wants_vertex() -> bool:
    """As the SDK decides it: the newer variable counts where it is set at all."""
    switch = next((os.environ[name] for name in _VERTEX_SWITCHES if name in os.environ), "")
    return switch.strip().lower() in ("true", "1")


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


# -- the client -------------------------------------------------------------------------------------------------------


class LoopThread:
    """An event loop in a thread of its own, which outlives single calls; `at_end` is the last that runs in it."""

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def live() -> None:
            stop = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await at_end()

        self._thread = threading.Thread(target=lambda: asyncio.run(live()), name="howsure-gemini", daemon=True)
        self._thread.start()
        self._loop, self._stop = started.result()

    @property
    def lives(self) -> bool:
        """Not so in a fork of the process, which has no thread but the one that forked."""
        return self._thread.is_alive()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Stop what runs. It may be called in the thread itself, where its work was the last to hold a model."""
        self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()


class GeminiClient(ServerClient):
    """The way to Gemini, opened at its first use. `timeout_s` bounds one attempt as a whole."""

    endpoint: GeminiEndpoint

    def __init__(
        self,
        model: str,
        endpoint: GeminiEndpoint,
        counters: Counters,
        retry: RetryPolicy,
        timeout_s: float,
        max_answer_bytes: int,
    ) -> None:
        super().__init__(model, endpoint, counters, retry, timeout_s, max_answer_bytes)
        self._lock = threading.Lock()
        self._held = contextlib.ExitStack()
        self._thread: LoopThread | None = None
        self._sdk: Any = None
        self._whose = 0

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run what asks this client, from any thread, also one with an event loop of its own; and wait for its end."""
        with self._lock:  # so that what is given to a thread is there before the thread is told to stop
            try:
                future = self._ready().submit(coroutine)
            except BaseException:
                coroutine.close()
                raise
        try:
            return future.result()
        except CancelledError:
            raise ModelError(f"{self.model!r} was closed while it was asked") from None
        except BaseException:  # Ctrl-C above all
            future.cancel()
            raise

    def _ready(self) -> LoopThread:
        """The thread that asks, on behalf of the account that the environment names by now."""
        account = self.endpoint.account()
        whose = hash(tuple(account.values()))
        if self._thread is not None and not self._thread.lives:
            self._held.pop_all()  # the connections are those of the process that this one was forked from
            self._thread = None
        if self._thread is not None and whose != self._whose:
            self._close()
        if self._thread is None:
            self._thread, self._whose = self._start(account), whose
        return self._thread

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """The SDK's client, which stays open."""
        yield self._sdk

    def close(self) -> None:
        """Close every connection; the next call opens anew."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._held.close()
        self._thread = self._sdk = None

    def _start(self, account: Mapping[str, str]) -> LoopThread:
        import httpx2
        from google import genai
        from google.genai import types

        trust = trusted_certificates()
        http = httpx2.AsyncClient(
            verify=trust,
            params=self.endpoint.query,
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE_S),
            event_hooks={"request": [self._limit_time], "response": [bounded(self.endpoint, self.max_answer_bytes)]},
        )
        options = types.HttpOptions(
            base_url=None if self.endpoint.is_google else self.endpoint.url,
            headers={"Accept-Encoding": "identity", **self.endpoint.headers},
            httpx_async_client=http,
            # For what the SDK makes beside it and is never used here: it would read all certificates again, twice.
            client_args={"verify": trust},
            async_client_args={"ssl": trust},
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        try:
            self._sdk = genai.Client(vertexai=self.endpoint.vertex, http_options=options, **account)
        except (ValueError, ImportError) as error:
            raise ModelError(f"Google's SDK cannot be opened: {self.endpoint.tidy(str(error))}") from None
        thread = LoopThread(http.aclose)
        self._held.enter_context(quiet_log(self.endpoint))
        self._held.callback(thread.close)
        self._held.callback(self._sdk.close)
        return thread

    async def _limit_time(self, request: Any) -> None:
        """The SDK waits without end by itself, for a connection too; nobody listening is to be known sooner."""
        connect = min(self.timeout_s, MAX_CONNECT_S)
        whole = self.timeout_s
        request.extensions["timeout"] = {"connect": connect, "read": whole, "write": whole, "pool": whole}

    async def _attempt(self, send: Send) -> Any:
        import httpx2
        from google.auth.exceptions import GoogleAuthError
        from google.genai.errors import APIError

        self.counters.calls += 1
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await send()
        except (TimeoutError, httpx2.TimeoutException) as error:
            unreachable = isinstance(error, httpx2.ConnectTimeout)
            return Fault(f"no answer within {self.timeout_s:g} s", passes=True, unreachable=unreachable)
        except httpx2.RequestError as error:
            return self._broken_connection(error)
        except APIError as error:
            return self._status_fault(error)
        except GoogleAuthError as error:
            return Fault(f"no credentials of Google Cloud: {self.endpoint.tidy(str(error))}", status=401)
        except BodyRefused as error:
            return Fault(self.endpoint.tidy(str(error)))
        except (ValueError, RecursionError) as error:  # of an error's body, which the SDK reads by itself
            return Fault(f"the answer cannot be read: {self.endpoint.tidy(str(error))}", passes=True)
        return self._decode((response.sdk_http_response.body or "").encode())

    def _status_fault(self, error: Any) -> Fault:
        body = error.details.get("error", error.details) if isinstance(error.details, dict) else error.details
        details = list(_details(body))
        words = "" if error.message == "" else server_words(body)
        return Fault(
            f"HTTP {error.code}: {self.endpoint.tidy(words) or 'no explanation'}",
            passes=status_passes(error.code) and not _is_spent(details),
            status=_status(error.code, body, details),
            asked_wait_s=_retry_delay_s(details) or asked_wait_s(error.response.headers),
        )

    def raise_if_hopeless(self, fault: Fault, api: str) -> None:
        """Raise for a fault that every other request would meet too."""
        where, why = self.endpoint.shown, fault.reason
        if fault.unreachable:
            raise ServerError(f"no server answers at {where} ({why}); check the network, or correct --base-url")
        if fault.status == 401 and self.endpoint.project:
            raise ServerError(
                f"Vertex AI at {where} does not know who asks ({why}); run `gcloud auth application-default login`, or "
                "set GOOGLE_APPLICATION_CREDENTIALS to a service account's file"
            )
        if fault.status == 401:
            raise ServerError(f"{where} refuses the key ({why}); set {_KEYS} to one that is valid")
        if fault.status == 403:
            raise ServerError(
                f"{where} does not let this account use {self.model!r} ({why}); check what the key or project may use"
            )
        if fault.status == 404:
            raise ServerError(
                f"{where} has no model {self.model!r} ({why}); check its name, the base URL, which has no version in "
                "it, and for names such as gemini-flash-latest set GOOGLE_GENAI_API_VERSION=beta"
            )
        if fault.status == 429 and not fault.passes:
            raise ServerError(f"the account has no quota left for today at {where} ({why})")


def _details(body: Any) -> Iterator[dict[str, Any]]:
    listed = body.get("details") if isinstance(body, dict) else None
    return (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


def _status(code: int, body: Any, details: list[dict[str, Any]]) -> int:
    """The status that says what is wrong: Google answers 400 to a bad key and to a country it does not serve."""
    if code == 400 and any(one.get("reason") == "API_KEY_INVALID" for one in details):
        return 401
    unserved = isinstance(body, dict) and body.get("status") == "FAILED_PRECONDITION"
    return 403 if code == 400 and unserved else code


def _is_spent(details: list[dict[str, Any]]) -> bool:
    """Whether what ran out is the quota of a day, which no wait brings back."""
    violations = [v for one in details if isinstance(one.get("violations"), list) for v in one["violations"]]
    return any("PerDay" in str(v.get("quotaId", "")) for v in violations if isinstance(v, dict))


def _retry_delay_s(details: list[dict[str, Any]]) -> float | None:
    """The wait that `google.rpc.RetryInfo` asks for: seconds, such as `38.5s`."""
    delays = [one["retryDelay"] for one in details if isinstance(one.get("retryDelay"), str)]
    return asked_wait_s({"retry-after": delays[0].removesuffix("s")}) if delays else None
