"""Many files: memory that grows with figures and not with words, and the same bytes whoever does the work."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure.errors import StorageError, WorkersLost
from howsure.models.embedding import SentenceEmbedder
from howsure.runs import Engine
from howsure.runs.files import to_json
from howsure.runs.run import StudyJob
from howsure.studies.trajectories import reading, text_spool
from howsure.studies.trajectories.document import Rows, as_json
from howsure.studies.trajectories.reading import Reader, Reading, SourceFile, read_source
from howsure.studies.trajectories.sources import Source, find_sources
from howsure.studies.trajectories.text_spool import TextSpool, shorten, words_of
from howsure.studies.trajectories.turns import Loaded
from studies.trajectories.test_study import Flat, Teller, put, talks
from trajectory_logs import call, message, results, scored, simulation

WRITTEN = ("samples.jsonl", "summary.json", "results.json", "turns.csv", "trajectories.csv")


def files_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in WRITTEN}


class Elsewhere:
    """An engine whose worker shares nothing with this process but bytes; every piece has a copy of the job."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.pieces = 0

    def load(self, job: Any) -> None: ...

    def run(self, job: Any, pieces: Iterable[Any]) -> Generator[Any, None, None]:
        for piece in pieces:
            self.pieces += 1
            copy, sent = pickle.loads(pickle.dumps((job, job.with_files(piece))))
            yield pickle.loads(pickle.dumps(copy(sent)))

    def close(self) -> None: ...


class Travelling(Teller):
    """As a model that was opened by its name: it can be sent, and is opened anew."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Travelling, ()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Scored and unscored runs, a set in parts, chats, and a file that is none."""
    put(tmp_path / "logs" / "a.json", talks(5))
    put(tmp_path / "logs" / "b.json", results(*[scored([i + 1.0, 2.0], [0.5], id=f"b{i}") for i in range(3)]))
    put(tmp_path / "logs" / "c.jsonl", json.dumps({"id": "c", "messages": [message("user", " " * 120 + "Hé 日本")]}))
    put(tmp_path / "logs" / "d" / "results.json", {"info": None, "simulation_index": [{"id": "x"}]})
    long = [message("user", "my " * 500, -0.5), message("assistant", None, -0.2, tool_calls=call(bag="x" * 200))]
    put(tmp_path / "logs" / "d" / "simulations" / "x.json", simulation(long, id="x"))
    put(tmp_path / "logs" / "e.json", "[1")
    return tmp_path / "logs"


def study(logs: Path, out: Path, engine: Engine | None = None) -> howsure.studies.trajectories.Result:
    return howsure.trajectories(
        logs, score_with=Travelling(), distances=True, out=out, engine=engine, verbose=True, judge=False
    )


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SentenceEmbedder", Flat)
    monkeypatch.setattr("howsure.studies.trajectories.study.TOKENS_AT_ONCE", 30)


@pytest.mark.usefixtures("flat")
def test_words_on_the_disk_make_the_same_run_as_words_in_memory(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = study(logs, tmp_path / "memory")
    monkeypatch.setattr(text_spool, "MEMORY_BYTES", 1)
    on_disk = study(logs, tmp_path / "disk")
    assert files_of(tmp_path / "memory") == files_of(tmp_path / "disk")
    assert in_memory.document == on_disk.document
    assert in_memory.summary == on_disk.summary


@pytest.mark.usefixtures("flat")
def test_workers_elsewhere_make_the_same_run(logs: Path, tmp_path: Path) -> None:
    here = study(logs, tmp_path / "here")
    engine = Elsewhere()
    there = study(logs, tmp_path / "there", engine)
    assert engine.pieces > 3
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")
    assert there.document == here.document


def test_a_run_without_a_model_gives_its_workers_only_files_to_read(logs: Path, tmp_path: Path) -> None:
    engine = Elsewhere()
    howsure.trajectories(logs, out=tmp_path / "run", engine=engine)
    assert engine.pieces == 1, "all files together are small"


def test_a_file_that_workers_do_not_see_as_it_is_here_is_read_here(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = howsure.trajectories(logs)
    seen = reading.size_of
    monkeypatch.setattr(Reader, "elsewhere", property(lambda _: True, lambda *_: None), raising=False)
    copies = {logs / "b.json": 17, logs / "c.jsonl": None}  # another file of this name, and none
    sizes = iter([*(seen(source.path) for source in find_sources([logs])[0])])
    asked: list[Path] = []

    def size_of(place: Any) -> int | None:
        asked.append(place)
        first = asked.count(place) == 1
        return next(sizes) if first else copies.get(place, seen(place)) if asked.count(place) == 2 else seen(place)

    monkeypatch.setattr(reading, "size_of", size_of)
    worker = Reader()
    pieces = list(reading.handed_out(find_sources([logs])[0]))
    unseen = [one.source.path for piece in pieces for one in worker(piece) if one.unseen]
    assert unseen == [logs / "b.json", logs / "c.jsonl"]
    monkeypatch.undo()
    monkeypatch.setattr(reading, "size_of", lambda _: 1 if len(asked) % 2 else 2)
    assert howsure.trajectories(logs, engine=Elsewhere()).document == here.document


def test_a_pipe_is_read_by_whoever_named_it(logs: Path) -> None:
    """A worker has a /dev/stdin of its own, with nothing in it."""
    reading_end, writing_end = os.pipe()
    with os.fdopen(writing_end, "wb") as pipe:
        pipe.write(next(logs.glob("*.json")).read_bytes())
    piped = Source(Path(f"/dev/fd/{reading_end}"), "piped")
    (piece,) = reading.handed_out([piped])
    assert [one.unseen for one in pickle.loads(pickle.dumps(Reader()))(piece)] == [True]
    (found,) = reading.read_sources([piped], engine=Elsewhere())
    os.close(reading_end)
    assert found.loaded.trajectories


class Deadly(Elsewhere):
    """No worker survives the second piece of a model's work."""

    def run(self, job: Any, pieces: Iterable[Any]) -> Generator[Any, None, None]:
        for number, piece in enumerate(pieces):
            dies = isinstance(job, StudyJob) and number == 1
            yield job.failed_piece(piece, "3 workers ended") if dies else job(piece)


@pytest.mark.usefixtures("flat")
def test_what_ends_every_worker_is_named_and_can_be_tried_again(logs: Path, tmp_path: Path) -> None:
    found = howsure.trajectories(logs, score_with=Travelling(), out=tmp_path / "run", engine=Deadly(), judge=False)
    assert found.run is not None
    lost = [sample for sample in found.run.records() if sample.failed]
    assert lost
    assert {(sample.reason, sample.detail) for sample in lost} == {("not_read_by_model", "3 workers ended")}
    assert sum("cannot be read by the model: 3 workers ended" in one for one in found.summary["problems"]) == len(lost)
    again = howsure.trajectories(
        logs, score_with=Travelling(), out=tmp_path / "run", retry_failed=True, judge=False, verbose=True
    )
    whole = howsure.trajectories(logs, score_with=Travelling(), out=tmp_path / "whole", judge=False, verbose=True)
    assert again.document == whole.document
    with pytest.raises(WorkersLost, match="3 workers ended"):
        study(logs, tmp_path / "distances", Deadly())


# -- memory --------------------------------------------------------------------------------------------------------

PEAK = """
import sys
import howsure
from howsure.studies.trajectories import reading, study, text_spool
text_spool.MEMORY_BYTES = reading.BYTES_AT_ONCE = study.WORDS_AT_ONCE_BYTES = 1_000_000
found = howsure.trajectories(sys.argv[1:-1], out=sys.argv[-1], jobs=1, judge=False)
assert len(found.trajectories) == len(sys.argv) - 2
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024)
"""


def test_memory_grows_with_the_figures_and_not_with_the_words(tmp_path: Path) -> None:
    """Files that are nothing but words, which all go into the run folder."""
    words = "".join(chr(32 + (7 * i) % 90) for i in range(20_000))
    files = [
        str(put(tmp_path / f"{i}.json", [simulation([message("user", f"{i} {words}", -0.5)] * 25, id=str(i))]))
        for i in range(32)
    ]
    size = Path(files[0]).stat().st_size
    few, many = (_peak_bytes(files[:count], tmp_path / f"run-{count}") for count in (8, 32))
    assert (tmp_path / "run-32" / "samples.jsonl").stat().st_size > 24 * size
    assert many - few < 24 * size / 4, f"{(many - few) / 1e6:.1f} MB more for {24 * size / 1e6:.0f} MB of files"


def _peak_bytes(files: list[str], out: Path) -> int:
    done = subprocess.run([sys.executable, "-c", PEAK, *files, str(out)], capture_output=True, text=True, check=True)
    return int(done.stdout)


# -- parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["plain", "half a character \ud800", 10**30], ids=["plain", "surrogate", "long number"])
def test_what_was_read_goes_from_process_to_process_as_it_is(logs: Path, odd: Any) -> None:
    found = read_source(Source(logs / "b.json", "b"), with_tokens=True, with_digest=True)
    if isinstance(odd, int):
        found.loaded.trajectories[0].trial = odd
    else:
        found.loaded.trajectories[0].id = odd
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.loaded.trajectories[0].turns[0].tokens


def test_a_spool_gives_back_what_was_put_there(logs: Path) -> None:
    loaded: list[Loaded] = []
    whole = Reader(with_words=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "shorten", lambda _: None)
        for source in find_sources([logs])[0]:
            loaded.append(whole.read(SourceFile(source)).loaded)
    before = [one for each in loaded for one in each.trajectories]
    here = TextSpool()
    here.put(map(words_of, before))
    said = [(one.said, one.opening, len(one.turns)) for one in before]
    assert any(len(texts) > 3 for texts, _, _ in said)
    for one in before:
        shorten(one)
    assert max(len(turn.content) for one in before for turn in one.turns) == 100
    assert len(here) == len(before)
    for number in reversed(range(len(before))):
        again = here.whole(number, before[number])
        assert (again.said, again.opening, len(again.turns)) == said[number]
        again.turns.clear()
        assert len(before[number].turns) == said[number][2]
    here.close()


def test_a_spool_without_room_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    here = TextSpool()

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(here, "_file", type("Full", (), {"write": staticmethod(full)})())
    with pytest.raises(StorageError, match="no room for what was said in the logs.*set TMPDIR"):
        here.put([b"x"])


def test_a_preview_of_a_preview_is_itself() -> None:
    for turn in (
        [message("user", " " * 120 + "x")],
        [message("user", " \n")],
        [message("assistant", "", tool_calls=call())],
    ):
        (one,) = howsure.studies.trajectories.tau2.read_tau2(json.dumps([simulation(turn)]).encode(), "x").trajectories
        shorten(one)
        first = one.turns[0].content
        shorten(one)
        assert one.turns[0].content == first


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_document_is_written_row_by_row_as_it_would_be_whole(logs: Path, count: int) -> None:
    found = howsure.trajectories(logs / "b.json", verbose=True)
    rows = Rows(found.trajectories[:count], verbose=True)
    whole = {"metadata": found.metadata, "results": list(rows)}
    assert as_json(found.metadata, rows) == to_json(whole, indent=2) + b"\n"
    assert rows[0:2] == list(rows)[0:2]


def test_an_embedder_travels_without_its_weights_and_listeners() -> None:
    one = SentenceEmbedder(announce=print, device="cpu", token_budget=99)
    two = pickle.loads(pickle.dumps(one))
    assert (two._wanted_device, two._token_budget, two._announce) == ("cpu", 99, None)


def test_readings_hold_no_words_unless_somebody_wants_them(logs: Path) -> None:
    source = Source(logs / "a.json", "a")
    found: Reading = Reader().read(SourceFile(source))
    assert found.words == ()
    assert not any(one.said for one in found.loaded.trajectories)
    assert len(Reader(with_words=True).read(SourceFile(source)).words) == 5
