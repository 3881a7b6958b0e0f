"""`howsure view`: run folders in the browser, on this machine, read and never written.

The way of a request: `guard` (who may ask, and the rules of every answer), `server` (which page), `library` (which
folder, and none outside; the run, read once and kept), `query` (which rows), then `pages` and their `grid`.
"""

from __future__ import annotations

from howsure.errors import MissingExtra


def check_installed() -> None:
    """Before anything else of it is imported."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("the viewer", "web", error.name or "starlette") from error
