"""The viewer as a server on this machine."""

from __future__ import annotations

import contextlib
import errno
import html
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError, MissingExtra

PORT = 8765
PORTS_TRIED = 20
SHORTEST_TOKEN, LONGEST_TOKEN_FILE = 16, 4096
AUTOMATIC, TOKEN_VARIABLE = "auto", "HOWSURE_VIEW_TOKEN"
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


def checked_token(host: str, token: str | None, file: Path | None = None) -> str | None:
    """The token to ask for, None where only this machine can reach the viewer and none was wanted.

    It stands in a file or in the environment: what stands on a command line, `ps` shows to everybody.
    """
    from howsure.report.viewer.guard import is_loopback

    if token == AUTOMATIC and file is None:
        return secrets.token_urlsafe(24)
    if token is not None:
        raise InputError(
            f"--token takes `{AUTOMATIC}` alone, since other users of this machine can read a command line: keep a "
            f"token of your own in a file that only you can read, for --token-file, or in {TOKEN_VARIABLE}"
        )
    if file is not None:
        return _usable(_from_file(file), str(file))
    if (given := os.environ.get(TOKEN_VARIABLE)) is not None:
        return _usable(given, TOKEN_VARIABLE)
    if not is_loopback(host):
        raise InputError(
            f"--host {host} lets other machines in, and needs a token: --token {AUTOMATIC} makes one, "
            f"--token-file FILE or {TOKEN_VARIABLE} hold one of your own"
        )
    return None


def _usable(token: str, where: str) -> str:
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not all(c.isalnum() or c in "-_.~" for c in token):
        raise InputError(
            f"{where} must hold {SHORTEST_TOKEN} characters or more, of letters, digits, - _ . and ~: choose another "
            f"token, or --token {AUTOMATIC}"
        )
    return token


def _from_file(path: Path) -> str:
    """What stands in a file, or in a pipe of the shell's, as in `--token-file <(pass show viewer)`."""
    from howsure.storage import open_regular

    try:
        with open_regular(path, most_bytes=LONGEST_TOKEN_FILE, shell_pipes=True) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(LONGEST_TOKEN_FILE + 1)
    except OSError as error:
        raise InputError(f"--token-file {path} cannot be read: {error.strerror or error}") from error
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        raise InputError(
            f"{path} is open to other users of this machine (its mode is {stat.S_IMODE(mode):04o}), so that its token "
            f"keeps nobody out: chmod 600 {path}"
        )
    return content.decode("ascii", "replace").strip()


@contextlib.contextmanager
def opened_in_browser(address: Address) -> Iterator[None]:
    """With a token, by way of a page that only this user can read: what a browser opens stands on its command line."""
    import webbrowser

    if address.token is None:
        webbrowser.open(address.url)
        yield
        return
    with tempfile.TemporaryDirectory(prefix="howsure-view-") as folder:
        page = Path(folder) / "open.html"
        there = html.escape(address.url)
        page.write_text(f'<meta http-equiv="refresh" content="0; url={there}"><a href="{there}">howsure</a>', "utf-8")
        webbrowser.open(page.as_uri())
        yield


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
