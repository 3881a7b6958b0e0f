"""The viewer as a server on this machine."""

from __future__ import annotations

import errno
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError, MissingExtra

PORT = 8765
PORTS_TRIED = 20
SHORTEST_TOKEN = 16
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Hosts that mean every address of this machine, and the one that can be opened here."""


class Address(NamedTuple):
    """Where the viewer listens, and what must be given there."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        host = EVERYWHERE.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def check_installed() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("the viewer", "web", error.name or "starlette") from error


def checked_host(host: str) -> str:
    """The address to listen on, without the brackets that IPv6 has in a browser."""
    plain = host.strip().removeprefix("[").removesuffix("]")
    if not plain:
        raise InputError("--host is empty: name an address of this machine, such as 127.0.0.1, or leave it out")
    return plain


def checked_token(host: str, token: str | None) -> str | None:
    """The token to ask for, None where only this machine can reach the viewer and none was wanted."""
    from howsure.report.viewer.guard import is_loopback

    if token is None:
        if not is_loopback(host):
            raise InputError(
                f"--host {host} lets other machines in, and needs --token with {SHORTEST_TOKEN} characters or more, "
                "or --token auto"
            )
        return None
    if token == "auto":
        return secrets.token_urlsafe(24)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not all(c.isalnum() or c in "-_.~" for c in token):
        raise InputError(
            f"--token needs {SHORTEST_TOKEN} characters or more of letters, digits, - _ . and ~: choose another, "
            "or --token auto"
        )
    return token


def listen(host: str, port: int | None) -> socket.socket:
    """A socket on this port; where none was asked for, on the usual one or the next that is free."""
    wanted = [port] if port is not None else list(range(PORT, PORT + PORTS_TRIED))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failure: OSError | None = None
    for one in wanted:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, one))
            listener.listen(128)  # now, since two may bind to one port before either listens
        except (OSError, OverflowError) as error:
            listener.close()
            failure = error if isinstance(error, OSError) else OSError(str(error))
            if isinstance(error, socket.gaierror) or failure.errno == errno.EADDRNOTAVAIL:
                raise InputError(f"--host {host} is no address of this machine ({failure.strerror})") from error
        else:
            return listener
    what = f"port {port} is not to be had" if port is not None else f"no port from {PORT} on is free"
    raise InputError(f"{what} on {host} ({failure and (failure.strerror or failure)}): choose another with --port")


def serve(folder: Path, listener: socket.socket, address: Address) -> None:
    """Answer until interrupted."""
    import uvicorn

    from howsure.report.viewer.app import make_app
    from howsure.report.viewer.connections import Server

    app = make_app(folder, host=address.host, token=address.token)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    Server(config).run(sockets=[listener])
