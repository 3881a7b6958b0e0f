"""Studies whose data and run folders lie in a store: the same figures to the byte as on this machine's disk."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import howsure
from howsure.cli.app import app
from howsure.errors import InputError
from howsure.runs import Run
from howsure.storage import StoredFolder, address_of
from howsure.storage.stores import filesystem
from howsure.studies.grounding.options import ConvertOptions
from howsure.studies.grounding.reading.data import convert, read_items
from howsure.studies.mcq.data import read_questions
from howsure.studies.texts import Texts
from storage.s3_server import S3Server
from tiny import build_ngram

WORDS = "the quick brown fox jumps over lazy dog answer is four not five sky blue".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"ngram:{build_ngram(tmp_path_factory.mktemp('ngram'))}"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    lines = []
    for i in range(40):
        choices = [f"{' '.join(rng.choices(WORDS, k=rng.randint(1, 5)))} {letter}" for letter in "abcd"]
        question = " ".join(rng.choices(WORDS, k=12))
        lines.append(json.dumps({"id": f"q{i}", "question": question, "choices": choices, "answer_index": i % 4}))
    path.write_text("\n".join(lines))
    return path


def put_folder(folder: Path, address: str) -> str:
    for path in folder.rglob("*"):
        if path.is_file():
            filesystem(address).pipe_file(f"{address}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return address


def content(address: str, name: str) -> bytes | None:
    return StoredFolder(address).read(name)


def picture(path: Path, colour: tuple[int, int, int]) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), colour).save(path)


# -- reading --------------------------------------------------------------------------------------------------------


def test_questions_and_their_images_are_the_same_data(store: str, tmp_path: Path) -> None:
    rows = []
    for i in range(3):
        picture(tmp_path / "d" / "images" / f"{i}.png", (i, 2, 3))
        rows.append({"question": f"q{i}?", "choices": ["a", "b"], "answer_index": 0, "image_path": f"images/{i}.png"})
    (tmp_path / "d" / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    put_folder(tmp_path / "d", f"{store}/d")
    here, there = read_questions(tmp_path / "d" / "q.jsonl"), read_questions(f"{store}/d/q.jsonl")
    assert here.fingerprint == there.fingerprint
    assert [item.image.path for item in there.items if item.image] == [f"{store}/d/images/{i}.png" for i in range(3)]
    rooted = read_questions(tmp_path / "d" / "q.jsonl", image_root=f"{store}/d")
    assert rooted.fingerprint == here.fingerprint
    image = there.items[1].image
    assert image is not None
    assert image.load().getpixel((0, 0)) == (1, 2, 3)


def test_what_is_wrong_is_said_of_the_address(store: str) -> None:
    lines = [
        {"question": "a?", "choices": ["a", "b"], "answer_index": 0, "image_path": "none.png"},
        {"question": "b?", "choices": ["a", "b"], "answer_index": 0, "image_path": "../../etc/passwd"},
        {"question": "c?", "choices": ["a", "b"], "answer_index": 0, "image_path": "/etc/passwd"},
    ]
    for line in lines:
        filesystem(store).pipe_file(f"{store}/q.jsonl", json.dumps(line).encode())
        with pytest.raises(InputError) as error:
            read_questions(f"{store}/q.jsonl")
        assert str(error.value).startswith(f"{store}/q.jsonl, line 1: ")
        assert "howsure-copies" not in str(error.value)
        assert "there is no such file" in str(error.value) or "leads out of" in str(error.value)


def test_texts_of_a_folder_are_the_same_data(store: str, tmp_path: Path) -> None:
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "a.txt").write_text("the sky is blue\n")
    (tmp_path / "t" / "sub" / "b.jsonl").write_text('{"text": "the lazy dog"}\n')
    (tmp_path / "t" / "c.bin").write_bytes(b"\xff")
    put_folder(tmp_path / "t", f"{store}/t")
    here, there = Texts([tmp_path / "t"]), Texts([f"{store}/t"])
    assert here.fingerprint == there.fingerprint
    assert [one.id for one in there.documents] == [f"{store}/t/a.txt", f"{store}/t/sub/b.jsonl:1"]
    assert Texts([f"{store}/t/a.txt"]).fingerprint == Texts([tmp_path / "t" / "a.txt"]).fingerprint
    with pytest.raises(InputError, match=f"{store}/t/c.bin, line 1: byte 0xff is not UTF-8"):
        Texts([f"{store}/t/c.bin"])


@pytest.mark.parametrize("folder", ["", "images", "../images"])
def test_screens_are_the_same_data(store: str, tmp_path: Path, folder: str) -> None:
    """Beside the data, in a folder of it, and where ScreenSpot-Pro has them."""
    home = tmp_path / "d" / ("annotations" if folder.startswith("..") else "")
    home.mkdir(parents=True)
    entries = []
    for i in range(2):
        picture(home / folder / f"s{i}.png", (i, i, i))
        entries.append({"img_filename": f"s{i}.png", "bbox": [1, 2, 10, 10 + i], "instruction": f"go {i}"})
    (home / "d.json").write_text(json.dumps(entries))
    put_folder(tmp_path / "d", f"{store}/d")
    here, there = read_items(tmp_path / "d", boxes="xywh"), read_items(f"{store}/d", boxes="xywh")
    assert here.fingerprint == there.fingerprint
    assert all(item.image.path.startswith(f"{store}/d/") for item in there.items)
    found = convert(ConvertOptions(f"{store}/d", to=tmp_path / "flat.jsonl", boxes="xywh"))
    assert read_items(tmp_path / "flat.jsonl", image_root=found.image_root).fingerprint == here.fingerprint


def test_a_map_and_what_is_known_may_lie_in_a_store(store: str, tmp_path: Path) -> None:
    from importlib.resources import files

    from howsure.studies.trust.knowledge import read_knowledge
    from howsure.studies.trust.world.maps import read_map

    shipped = (files("howsure.data") / "maps" / "home.json").read_bytes()
    filesystem(store).pipe_file(f"{store}/home.json", shipped)
    filesystem(store).pipe_file(f"{store}/known.txt", b"The key is red.\n")
    (tmp_path / "home.json").write_bytes(shipped)
    assert read_map(f"{store}/home.json") == read_map(tmp_path / "home.json")
    assert read_knowledge(f"{store}/known.txt") == ["The key is red."]
    filesystem(store).pipe_file(f"{store}/bad.json", b"[]")
    with pytest.raises(InputError, match=f"map {store}/bad.json: "):
        read_map(f"{store}/bad.json")


# -- whole studies --------------------------------------------------------------------------------------------------


def test_a_study_in_a_store_is_that_of_a_disk(bucket: str, model: str, questions: Path, tmp_path: Path) -> None:
    here = howsure.mcq(questions, model, out=tmp_path / "run")
    put_folder(questions.parent, f"{bucket}/data")
    there = howsure.mcq(f"{bucket}/data/questions.jsonl", model, out=f"{bucket}/run")
    for name in ("samples.jsonl", "summary.json"):
        assert content(f"{bucket}/run", name) == (tmp_path / "run" / name).read_bytes()
    assert address_of(there.run.path) == f"{bucket}/run"
    assert there.run.manifest.source == f"{bucket}/data/questions.jsonl"
    assert there.run.manifest.identity == here.run.manifest.identity
    assert set(StoredFolder(f"{bucket}/run").files()) == {"run.json", "samples.jsonl", "summary.json", "report.html"}
    for name in ("run.json", "report.html", "samples.jsonl", "summary.json"):
        assert b"howsure-copies" not in (content(f"{bucket}/run", name) or b"")
    difference = howsure.compare(f"{bucket}/run", tmp_path / "run")["difference"]
    assert difference["accuracy"] == 0


def test_two_models_in_a_store(model: str, tmp_path: Path) -> None:
    store = "memory://two-models"
    (tmp_path / "a.txt").write_text("the sky is blue and the quick brown fox jumps over the lazy dog\n" * 30)
    filesystem(store).pipe_file(f"{store}/a.txt", (tmp_path / "a.txt").read_bytes())
    howsure.perplexity(tmp_path / "a.txt", model, model_b=model, out=tmp_path / "pair")
    howsure.perplexity(f"{store}/a.txt", model, model_b=model, out=f"{store}/pair")
    files = set(StoredFolder(f"{store}/pair").files())
    assert {"comparison.json", "report.html", "a/report.html", "b/summary.json", "a/documents.csv"} <= files
    here = json.loads((tmp_path / "pair" / "a" / "summary.json").read_bytes())
    there = json.loads(content(f"{store}/pair", "a/summary.json") or b"")
    assert here["headline"] == there["headline"]
    with pytest.raises(InputError, match=f"{store}/pair/a is the run folder of one model"):
        howsure.perplexity(f"{store}/a.txt", model, model_b=model, out=f"{store}/pair/a")


def test_commands_take_addresses(model: str, questions: Path, tmp_path: Path) -> None:
    store = "memory://commands"
    put_folder(questions.parent, f"{store}/data")

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    for name in ("a", "b"):
        said = run("mcq", f"{store}/data/questions.jsonl", "--model", model, "--out", f"{store}/runs/{name}")
        assert f"run folder: {store}/runs/{name}" in said
    listed = json.loads(run("runs", f"{store}/runs", "--json"))
    assert {(one["path"], one["status"]) for one in listed} == {(f"{store}/runs/{n}", "finished") for n in "ab"}
    assert "accuracy" in run("compare", f"{store}/runs/a", f"{store}/runs/b")
    StoredFolder(f"{store}/runs/a").remove(["report.html"])
    assert run("report", f"{store}/runs/a") == f"{store}/runs/a/report.html"
    assert content(f"{store}/runs/a", "report.html")
    run("report", f"{store}/runs", "--out", str(tmp_path / "both.html"))
    assert (tmp_path / "both.html").stat().st_size > 10_000
    assert run("export", f"{store}/runs/a", "--quiet") == f"{store}/runs/a/samples.parquet"
    assert (content(f"{store}/runs/a", "samples.parquet") or b"")[:4] == b"PAR1"
    run("export", f"{store}/runs", "--out", str(tmp_path / "all.parquet"), "--quiet")
    assert (tmp_path / "all.parquet").is_file()
    assert "only runs on this machine can be viewed" in run("view", f"{store}/runs", code=2).replace("│ ", "")
    assert "is an address" in run("report", f"{store}/runs", "--out", f"{store}/x.html", code=2)
    assert "is an address" in run("demo", "--out", f"{store}/demo", code=2)
    assert "is an address" in run("entropy", "--text", "aab", "--plot", f"{store}/x.svg", code=2)
    (tmp_path / "words.txt").write_text("the sky is blue")
    assert "blue" in run("show", f"file://{tmp_path}/words.txt", "--model", model)
    filesystem(store).pipe_file(f"{store}/words.txt", b"the sky is blue")
    assert "blue" in run("show", f"{store}/words.txt", "--model", model)


def test_a_study_that_is_killed_goes_on(bucket: str, s3: S3Server, model: str, questions: Path, tmp_path: Path) -> None:
    """kill -9 of the command itself, as soon as some samples are in the store; then to the end."""
    howsure.mcq(questions, model, out=tmp_path / "run", batch_size=1)
    address = f"{bucket}/run"
    command = [sys.executable, "-m", "howsure", "mcq", str(questions), "--model", model, "--out", address]
    killed = threading.Event()

    def waits(method: str, path: str) -> int | None:
        """Some samples get through; the next have to wait until nobody is there to hear the answer."""
        return 503 if len(s3.pieces()) > 8 and "/samples-" in path and killed.wait(60) else None

    s3.fault = waits
    process = subprocess.Popen([*command, "--batch-size", "1", "--quiet"], stdout=subprocess.DEVNULL)
    while process.poll() is None and len(s3.pieces()) <= 8:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -9
    killed.set()
    s3.fault = None
    kept = len(Run(address).records())
    assert kept == 8
    assert Run(address).status == "stopped"
    howsure.mcq(questions, model, out=address, batch_size=1)
    for name in ("samples.jsonl", "summary.json"):
        assert content(address, name) == (tmp_path / "run" / name).read_bytes()
    assert Run(address).manifest.sessions == 2
