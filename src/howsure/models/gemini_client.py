"""Asking Gemini: Google's SDK kept open in a thread of its own, faults told apart, retries counted.

Making the SDK's client takes time, and a connection to Google a good deal more, so both live from the first call to
`close`; they need an event loop that lives as long. The SDK's own retries are off: ours are counted (`server_client`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from howsure.errors import ModelError, ServerError
from howsure.models.contract import Counters
from howsure.models.endpoint import BodyRefused, bounded, quiet_log, server_words
from howsure.models.gemini_endpoint import KEY_VARIABLES, GeminiEndpoint
from howsure.models.retries import Fault, RetryPolicy, asked_wait_s, status_passes
from howsure.models.server_client import MAX_CONNECT_S, Send, ServerClient, trusted_certificates

KEEP_ALIVE_S = 60.0
"""How long a connection without work is kept; a study may well think for a while between two steps."""

_T = TypeVar("_T")
_KEYS = " or ".join(KEY_VARIABLES)


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
