"""Run folders as somebody may have sent them: everything that howsure does with a run that it did not write itself."""

from __future__ import annotations

import asyncio
import io
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fuzz.mutations import PART
from fuzz.scratch import folder, put
from howsure.errors import HowsureError
from howsure.runs.files import to_json

PAGES = ("/", "/run?path=run", "/sample?path=run&id={id}", "/report?path=run", "/compare?a=run&b=run")


def run_folder(data: bytes) -> None:
    """Manifest, samples and summary; the list of runs; a notebook's view."""
    from rich.console import Console

    from howsure.report.notebook import html_of
    from howsure.report.terminal import print_runs
    from howsure.runs import Run, find_runs

    path = _unpacked(data)
    for found in find_runs(path.parent):
        run = Run(found)
        repr(run)
        print_runs(Console(file=io.StringIO(), width=100), [(found, run)])
        html_of(run)
        _or_sentence(lambda run=run: run.summary)
        _or_sentence(lambda run=run: to_json(run.records(record=_record_of(run.manifest.identity.study))))
        to_json(run.samples())


def run_resumed(data: bytes) -> None:
    """The same command again on a folder that is not what it left: nothing is lost without a sentence."""
    from howsure.runs import RunWriter
    from howsure.runs.reading import read_manifest

    path = _unpacked(data)
    manifest = read_manifest(path)
    record = _record_of(manifest.identity.study)
    for retry_failed in (False, True):
        with RunWriter(path, manifest.identity, manifest.items, record=record, retry_failed=retry_failed) as writer:
            assert len(writer.done) == len(writer.samples)


def run_table(data: bytes) -> None:
    """The samples as a table of Polars."""
    from howsure.runs import Run

    Run(_unpacked(data)).frame()


def run_exported(data: bytes) -> None:
    """The samples as Parquet, with their evidence and without."""
    from howsure.studies.exporting import targets

    path = _unpacked(data)
    for evidence in (True, False):
        for target in targets([path], None):
            target.write(evidence=evidence)


def run_report(data: bytes) -> None:
    from howsure.report.run_report import report_of

    report_of([_unpacked(data)])


def run_overlaid(data: bytes) -> None:
    """Samples drawn on their screen, which is a good one: the worst, the surely wrong, and all there are."""
    from fuzz.seeds import png
    from howsure.runs import Run
    from howsure.studies.grounding.overlay import write_overlays

    run = Run(_unpacked(data))
    root = put("screens/screen.png", png()).parent
    written = write_overlays(run, root.parent / "drawn", worst=2, surely_wrong=2, image_root=root)
    assert {path.parent.name for path in written} <= {"drawn"}


def run_viewed(data: bytes) -> None:
    """Every page of the viewer; one that it has to excuse itself for (a 500) is a fault of ours."""
    from howsure.report.viewer.server import make_app

    path = _unpacked(data)
    app = make_app(path.parent)
    for page in PAGES:
        address = page.replace("{id}", quote(_first_id(data), errors="replace"))
        status = asyncio.run(_status(app, address.encode()))
        assert status < 500, f"{address} answered {status}"


def viewer_request(data: bytes) -> None:
    """Any path and query, asked of the viewer over a good run."""
    from fuzz.seeds import example_run
    from howsure.report.viewer.server import make_app

    path = _unpacked(example_run("mcq"))
    status = asyncio.run(_status(make_app(path.parent), data.replace(b"\n", b"")[:4000]))
    assert status < 500, f"answered {status}"


def runs_compared(data: bytes) -> None:
    from fuzz.seeds import example_run
    from howsure.studies.comparing import compare

    here = _unpacked(data)
    to_json(dict(compare(here, here)))
    study = _study(data)
    if study is not None:
        good = _unpacked(example_run(study), "other/run")
        to_json(dict(compare(good, here)))


def _unpacked(data: bytes, name: str = "sent/run") -> Path:
    path = folder() / name
    shutil.rmtree(path, ignore_errors=True)
    parts = [*data.split(PART), b"", b""][:3]
    for file, content in zip(("run.json", "samples.jsonl", "summary.json"), parts, strict=True):
        if content:
            put(f"{name}/{file}", content)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _record_of(study: str) -> Any:
    """What the study says that its samples hold."""
    from howsure.studies import registry

    return registry.study_named(study).record if registry.is_known(study) else dict[str, Any]


def _study(data: bytes) -> str | None:
    return next((name for name in ("mcq", "perplexity", "grounding") if f'"study":"{name}"'.encode() in data), None)


def _first_id(data: bytes) -> str:
    import msgspec

    from fuzz.seeds import example_run

    samples = data.split(PART)[1:2] or example_run("mcq").split(PART)[1:2]
    try:
        return str(msgspec.json.decode(samples[0].split(b"\n")[0])["id"])
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, ValueError):
        return "q-00"


def _or_sentence(make: Any) -> None:
    try:
        make()
    except HowsureError:
        return


async def _status(app: Any, address: bytes) -> int:
    """What the viewer answers to a GET of this address, asked without a socket."""
    path, _, query = address.partition(b"?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path.decode("utf-8", "replace") or "/", "raw_path": path, "query_string": query, "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8765")], "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 50000),
    }  # fmt: skip
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    await app(scope, receive, send)
    return int(said[0]["status"])
