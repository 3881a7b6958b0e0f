"""Who may ask, how many at once and for how long, and the rules that every answer carries."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import re
import socket
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


class Guard:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, *, host: str = "127.0.0.1", token: str | None = None) -> None:
        self._app = app
        self._names = _names(host)
        self._any_number = host in EVERYWHERE
        self._pass = None if token is None else _digest(token)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no WebSockets, and nothing to start or end

        async def ruled(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, ruled)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return _said(421, "This viewer answers only under the address that `howsure view` printed.")
        if scope["method"] not in ("GET", "HEAD"):
            refused = _said(405, "This viewer only shows: it answers GET and HEAD, and changes nothing.")
            refused.headers["Allow"] = "GET, HEAD"
            return refused
        if not scope["query_string"].isascii():  # Starlette takes it for UTF-8 wherever it makes an address of it
            return _said(400, "This address holds bytes that no address may: write other characters as %XX.")
        return None if self._token is None else self._ask_for_token(scope, headers)

    def _is_ours(self, host: str) -> bool:
        """By name alone: through a tunnel the same machine has another port, and no port makes a name foreign."""
        name = _name_of(host)
        return name in self._names or (self._any_number and _is_number(name))

    def _ask_for_token(self, scope: Scope, headers: Headers) -> Response | None:
        fields = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in fields if name == "token"]
        if given and self._token is not None and _same(given[-1], self._token):
            rest = urlencode([(name, value) for name, value in fields if name != "token"])
            answer = RedirectResponse(_own_path(scope["path"]) + (f"?{rest}" if rest else ""), status_code=303)
            # lax: an address that was shared opens from a mail or from a terminal in the browser, and from nowhere else
            answer.set_cookie(self._cookie, str(self._pass), httponly=True, samesite="lax", path="/")
            return answer
        if self._pass is not None and _same(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), self._pass):
            return None
        return _said(401, "This viewer asks for its token: open the address that `howsure view` printed.")

    @property
    def _cookie(self) -> str:
        """A name of its own for each token: cookies do not tell ports apart."""
        return f"howsure-{str(self._pass)[:8]}"


def _names(host: str) -> frozenset[str]:
    given = (socket.gethostname(), socket.getfqdn()) if host in EVERYWHERE else (host.strip("[]"),)
    return frozenset(name.casefold() for name in (*LOOPBACK, *given))


def _name_of(host: str) -> str:
    """The host without its port: `[::1]:8765`, `localhost:8765`, `localhost`; nothing where it is none of these."""
    found = _HOST.fullmatch(host.casefold())
    return "" if found is None else found[1] or found[2]


def _is_number(name: str) -> bool:
    """A number is no name that somebody could point elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _own_path(path: str) -> str:
    """Without leading slashes beyond the first, which would name another server."""
    return "/" + path.lstrip("/\\")


def _digest(token: str) -> str:
    return hashlib.sha256(b"howsure viewer\0" + token.encode("utf-8", "surrogatepass")).hexdigest()


def _same(one: str, other: str) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def _said(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", status_code=status)


REQUEST_SECONDS = 10.0
"""For all of a request's head to come, from the connection or from the answer before on."""
STALLED_SECONDS, LEAST_READ_BYTES = 60.0, 1 << 16
"""An answer of which no more than this is read in so long a time is not sent on."""
MOST_CONNECTIONS = 256
DESCRIPTORS_EACH, DESCRIPTORS_KEPT = 4, 8
"""What a connection takes with the files of the run that it asks for, and what is left for everything else."""
RETRY_SECONDS = 0.1


def most_connections() -> int:
    """So many that each can have the files of a run opened for it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_CONNECTIONS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    in_use = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else DESCRIPTORS_KEPT
    return max(1, min(MOST_CONNECTIONS, (allowed - in_use - DESCRIPTORS_KEPT) // DESCRIPTORS_EACH))


class Connection(H11Protocol):
    """One that has to get on: ask, and read what it is answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.moved, self._unread = self.loop.time(), 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.moved = self.loop.time()

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for the other side."""
        return self.transport.get_write_buffer_size()

    @property
    def is_answered(self) -> bool:
        """Whether it has got all it asked for, or never asked."""
        return self.cycle is None or self.cycle.response_complete

    def check(self, now: float) -> None:
        """End it if nothing has moved for too long; asked about every second."""
        unread, before = self.unread, self._unread
        being_made = not unread and not self.is_answered
        if being_made or (before and not unread) or unread <= before - LEAST_READ_BYTES:
            self.moved, before = now, unread
        self._unread = max(unread, before)
        if now - self.moved > (STALLED_SECONDS if unread else REQUEST_SECONDS):
            self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn, with a door of its own: who has asked for nothing makes room for who comes."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._most = most_connections()
        await super().startup(sockets=[])
        self._doors = [asyncio.create_task(self._accept(listener)) for listener in sockets or []]

    async def on_tick(self, counter: int) -> bool:
        for door in self._doors:
            if door.done():
                door.result()  # it never ends but by a fault
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._connections():
                connection.check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for door in self._doors:
            door.cancel()
        for connection in self._connections():
            if connection.is_answered:
                connection.transport.abort()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # it has gone again; or no descriptor is free, and it waits in the system's queue
                await asyncio.sleep(0 if isinstance(error, ConnectionError) else RETRY_SECONDS)
                continue
            if not await self._make_room():
                client.close()
                continue
            try:
                await loop.connect_accepted_socket(self._connection, client)
            except OSError:
                client.close()

    async def _make_room(self) -> bool:
        """Whether one more may come in: if need be in the place of the one that has waited longest without asking."""
        while len(self.server_state.connections) >= self._most:
            idle = [one for one in self._connections() if one.is_answered and not one.unread]
            if not idle:
                return False
            min(idle, key=lambda one: one.moved).transport.abort()
            await asyncio.sleep(0)  # in which it is closed
        return True

    def _connection(self) -> Connection:
        loop, state = asyncio.get_running_loop(), self.lifespan.state
        return Connection(config=self.config, server_state=self.server_state, app_state=state, _loop=loop)

    def _connections(self) -> list[Connection]:
        return [one for one in self.server_state.connections if isinstance(one, Connection)]
