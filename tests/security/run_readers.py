"""Every reader of run folders, one after the other: what it says, how long it takes and how much memory it needs.

`python run_readers.py FOLDER [READER …]` prints a line of JSON for each; FOLDER holds a folder `run`.
"""

from __future__ import annotations

import io
import json
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from howsure.errors import HowsureError


def _command(*arguments: object) -> str:
    from howsure.cli.app import app

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            app([str(one) for one in arguments], standalone_mode=False)
        except SystemExit:
            pass
        except Exception as error:
            if type(error).__name__ != "Exit":
                raise
    return out.getvalue()


def _pages(folder: Path) -> str:
    from report.viewer.asking import Browser

    browser = Browser(folder)
    pages = [browser.get(address) for address in ("/", "/run?path=run", "/live?path=run", "/report?path=run")]
    assert all(page.status < 500 for page in pages)
    return re.sub(r"<[^>]*>", " ", pages[0].text + pages[1].text)


def _notebook(folder: Path) -> str:
    from howsure.runs import Run

    return re.sub(r"<[^>]*>", " ", Run(folder / "run")._repr_html_())


def _taken_up(folder: Path) -> str:
    from howsure.runs import Run, RunWriter

    manifest = Run(folder / "run").manifest
    with RunWriter(folder / "run", manifest.identity, manifest.items) as writer:
        return f"{len(writer.done)} samples"


READERS: dict[str, Callable[[Path], str]] = {
    "runs": lambda folder: _command("runs", folder),
    "runs as JSON": lambda folder: _command("runs", folder, "--json"),
    "viewer": _pages,
    "report": lambda folder: _command("report", folder / "run", "--out", folder / "report.html"),
    "export": lambda folder: _command("export", folder / "run", "--out", folder / "x.parquet"),
    "compare": lambda folder: _command("compare", folder / "run", folder / "run"),
    "overlay": lambda folder: _command("grounding", "overlay", folder / "run", "--to", folder / "drawn"),
    "notebook": _notebook,
    "taken up": _taken_up,
}


def _peak_mib(*, anew: bool = False) -> float:
    with suppress(OSError):
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read(name: str, folder: Path) -> dict[str, Any]:
    _peak_mib(anew=True)
    began = time.monotonic()
    try:
        said = READERS[name](folder)
    except HowsureError as error:
        said = f"{type(error).__name__}: {error}"
    return {"reader": name, "said": said, "seconds": time.monotonic() - began, "peak_mib": _peak_mib()}


if __name__ == "__main__":
    for one in sys.argv[2:] or READERS:
        print(json.dumps(read(one, Path(sys.argv[1]))), flush=True)
