"""The viewer as a server on this machine: which address leads to which page, each a pure look at the folder."""

from __future__ import annotations

import contextlib
import errno
import html
import logging
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from howsure.errors import HowsureError, InputError, RunDamaged
from howsure.report.html import asset, standalone, standalone_policy
from howsure.report.run_data import LARGEST_PICTURE_BYTES, PICTURE_KINDS, Embedded, picture_within
from howsure.report.run_report import PICTURE_BYTES, fitted, footer, title_of
from howsure.report.text import printable
from howsure.report.viewer.guard import Guard
from howsure.report.viewer.library import Library, Listing, NotServed, Opened, run_within, served_root
from howsure.report.viewer.pages import (
    comparison_page,
    home_grid,
    home_page,
    parts_page,
    problem_page,
    progress_line,
    progress_of,
    run_grid,
    run_page,
    safely,
    sample_page,
)
from howsure.report.viewer.query import PAGE_ROWS, State, fields_of, query_of
from howsure.runs.reading import read_file

ASSETS = {"howsure.css": "text/css", "howsure.js": "text/javascript", "viewer.js": "text/javascript"}
OURS = logging.getLogger("howsure.viewer")

Fields = dict[str, str]


def make_app(folder: Path, *, host: str = "127.0.0.1", token: str | None = None) -> ASGIApp:
    """The whole viewer as an ASGI application."""
    viewer = Viewer(served_root(folder), str(folder))
    pages: dict[str, Callable[[Fields], Response]] = {
        "/": viewer.home,
        "/run": viewer.run,
        "/table": viewer.table,
        "/parts": viewer.parts,
        "/live": viewer.live,
        "/sample": viewer.sample,
        "/picture": viewer.picture,
        "/compare": viewer.compare,
        "/report": viewer.report,
    }
    routes = [Route(path, _answering(make)) for path, make in pages.items()]
    routes.append(Route("/assets/{name}", _asset))
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _not_found, Exception: _our_fault})
    return Guard(inner, host=host, token=token)


class Viewer:
    """The pages; each takes the fields of its address."""

    def __init__(self, root: Path, shown_as: str) -> None:
        self._root, self._shown_as = root, shown_as
        self._library, self._listing = Library(root), Listing(root)

    def home(self, fields: Fields) -> Response:
        return _html(home_page(self._listing.look(), _list_state(fields), self._shown_as))

    def run(self, fields: Fields) -> Response:
        run, state = self._table_of(fields)
        with run.lock:
            return _html(run_page(run, state))

    def table(self, fields: Fields) -> Response:
        if "path" not in fields:
            return _html(str(home_grid(self._listing.look(), _list_state(fields))))
        run, state = self._table_of(fields)
        with run.lock:
            return _html(str(run_grid(run, state)))

    def parts(self, fields: Fields) -> Response:
        run = self._library.whole(_needed(fields, "path"))
        with run.lock:
            return _html(parts_page(run))

    def live(self, fields: Fields) -> Response:
        seen = fields.get("seen")
        if "path" not in fields:
            found = self._listing.look()
            return JSONResponse({"version": found.version, "changed": found.version != seen, "complete": True})
        run = self._library.open(fields["path"])
        with run.lock:
            line = str(safely(lambda: progress_line(run), "How far it is"))
            return JSONResponse({**progress_of(run), "changed": run.version != seen, "html": line})

    def sample(self, fields: Fields) -> Response:
        run = self._library.whole(_needed(fields, "path"))
        with run.lock:
            return _html(sample_page(run, State(run.name, query_of(fields)), _needed(fields, "key")))

    def picture(self, fields: Fields) -> Response:
        folder = run_within(self._root, _needed(fields, "path"))
        path = picture_within(folder, _needed(fields, "name"))
        if path is None:
            raise NotServed("There is no such picture in this run folder.")
        try:
            content = read_file(folder, _needed(fields, "name"), LARGEST_PICTURE_BYTES)
        except (OSError, RunDamaged) as error:
            raise NotServed("This picture cannot be read.") from error
        return Response(content, media_type=PICTURE_KINDS[path.suffix.lower()])

    def compare(self, fields: Fields) -> Response:
        names = fields.get("a"), fields.get("b")
        if names[0] is None or names[1] is None:
            raise NotServed("Two runs can be compared: choose A and B in the list of runs.")
        return _html(comparison_page(self._library.whole(names[0]), self._library.whole(names[1])))

    def report(self, fields: Fields) -> Response:
        run = self._library.whole(_needed(fields, "path"))
        with run.lock:
            data = run.data.linked(Embedded(run.data.folder, PICTURE_BYTES))
            page = standalone(title_of(data), [safely(lambda: fitted(data), "The report"), footer()])
        answer = _html(page)
        answer.headers["Content-Security-Policy"] = f"{standalone_policy()}; frame-ancestors 'none'"
        answer.headers["Content-Disposition"] = 'inline; filename="report.html"'
        return answer

    def _table_of(self, fields: Fields) -> tuple[Opened, State]:
        """The run and what is asked of its rows, which are all here unless the first page is all that is wanted."""
        run, query = self._library.open(_needed(fields, "path")), query_of(fields)
        if not query.is_plain or query.page > 1 or len(run.data.table) < PAGE_ROWS:
            run.wait()
        return run, State(run.name, query)


# -- around the pages -------------------------------------------------------------------------------------------------


def _answering(make: Callable[[Fields], Response]) -> Callable[[Request], Response]:
    """A page as Starlette wants it; what cannot be shown is said in a sentence."""

    def answer(request: Request) -> Response:
        try:
            fields = fields_of(request.scope["query_string"])
        except ValueError:
            return _html(problem_page("The address has too many fields."), 400)
        try:
            return make(fields)
        except NotServed as error:
            return _html(problem_page(str(error)), 404)
        except HowsureError as error:
            return _html(problem_page(str(error)))

    return answer


def _list_state(fields: Fields) -> State:
    kept = tuple((side, fields[side]) for side in ("a", "b") if side in fields)
    return State(None, query_of(fields), kept)


def _needed(fields: Fields, name: str) -> str:
    if name not in fields:
        raise NotServed(f"The address lacks its part «{name}»: start from the list of runs.")
    return fields[name]


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return _html(problem_page("There is no such page."), 404)
    return Response(asset(name), media_type=ASSETS[name])


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text.encode("utf-8", "replace"), status_code=status)


def _not_found(request: Request, error: Exception) -> Response:
    return _html(problem_page("There is no such page."), error.status_code if isinstance(error, HTTPException) else 404)


def _our_fault(request: Request, error: Exception) -> Response:
    where = f"{type(error).__name__}: {error}, at {request.url.path}"
    OURS.error("%s", printable(where, one_line=True))
    return _html(problem_page(f"The viewer made a mistake here ({type(error).__name__}); the other pages stand."), 500)


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

    from howsure.report.viewer.guard import Server

    app = make_app(folder, host=address.host, token=address.token)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    Server(config).run(sockets=[listener])
