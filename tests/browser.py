"""A real Chromium, driven by Playwright, and the viewer as a real process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sizes import LONG

ARTEFACTS = Path(__file__).parents[1] / "artefacts" / "viewer"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """Where Chromium is, None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)


class Watched:
    """A page and all that went wrong on it: errors on the console, exceptions, requests that left this machine."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def keep(self, name: str, *, whole: bool = False) -> None:
        """A screenshot for people to look at, kept by the long suite."""
        if LONG:
            ARTEFACTS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=whole)

    def is_too_wide(self) -> bool:
        """Whether the page as a whole must be scrolled sideways; before its style is loaded it may be."""
        self.page.wait_for_load_state()
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
        )


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def new_page(opened: Any, **options: Any) -> Iterator[Watched]:
    context = opened.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(15_000)
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


@contextmanager
def viewer(folder: Path, *options: str) -> Iterator[str]:
    """`howsure view` on a free port; gives its address."""
    command = [sys.executable, "-m", "howsure", "view", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"the viewer said {line!r}"
        yield found[0].rstrip("/.")
    finally:
        process.terminate()
        process.communicate(timeout=20)
