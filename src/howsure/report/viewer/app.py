"""Which address leads to which page. Every page is a pure look at the folder; nothing is ever written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from howsure.errors import HowsureError, RunDamaged
from howsure.report.html import asset, standalone, standalone_policy
from howsure.report.run_data import LARGEST_PICTURE_BYTES, PICTURE_KINDS, Embedded, picture_within
from howsure.report.run_report import PICTURE_BYTES, fitted, footer, title_of
from howsure.report.text import printable
from howsure.report.viewer.address import State, fields_of, query_of
from howsure.report.viewer.comparison import comparison_page
from howsure.report.viewer.frame import problem_page, safely
from howsure.report.viewer.guard import Guard
from howsure.report.viewer.home import home_grid, home_page
from howsure.report.viewer.library import Library, Opened
from howsure.report.viewer.listing import Listing
from howsure.report.viewer.places import NotServed, run_within, served_root
from howsure.report.viewer.progress import progress_line, progress_of
from howsure.report.viewer.query import PAGE_ROWS
from howsure.report.viewer.run import parts_page, run_grid, run_page
from howsure.report.viewer.sample import sample_page
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
