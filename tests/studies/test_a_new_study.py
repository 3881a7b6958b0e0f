"""A study that somebody adds: what stands between the two lines, and nothing else. All the rest follows from it."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import polars
import pytest

from howsure.errors import InputError
from howsure.evidence import Outcome
from howsure.measures import mean_interval
from howsure.models.contract import Capability, Failure, Model, ModelOptions, ScoreItem
from howsure.options import Opt
from howsure.runs import Engine, LocalEngine, Sample
from howsure.runs.run import Batch, Items, Plan, RetryOptions, StudyJob
from howsure.studies import registry
from howsure.studies.study import Study, in_batches, python_function
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.types import Fields

# -- the study ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MirrorOptions(RetryOptions, ModelOptions):
    data: Annotated[str, Opt("A file with words.", argument=True, path="any", identity="no")]
    model: Annotated[str | Model, Opt("Model name.", flags=("--model", "-m"), identity="no")] = "smollm2"
    _: KW_ONLY
    model_b: Annotated[str | Model | None, Opt("A second model, to be compared.", identity="no")] = None
    lead: Annotated[str, Opt("What stands before each word.", identity="always")] = "the word"
    batch_size: Annotated[int, Opt("Words asked together.", least=1, identity="always")] = 2


class Word(NamedTuple):
    id: str
    text: str


class MirrorRecord(Fields, kw_only=True):
    word: str
    lead_nats: float | None = None
    """How much likelier the word is than its mirror image."""


class MirrorSummary(Summary, kw_only=True):
    mean_lead_nats: float | None


class MirrorStudy(Study[MirrorOptions, Word, MirrorRecord]):
    """Mirror: is a word likelier than the same letters in reverse?

    Example: howsure mirror words.txt --model smollm2
    """

    name, options, record, summary = "mirror", MirrorOptions, MirrorRecord, MirrorSummary

    def read(self, options: MirrorOptions, engine: Engine) -> Items[Word]:
        words = Path(options.data).read_text(encoding="utf-8").split()
        if not words:
            raise InputError(f"{options.data} holds no words: write some")
        digest = sha256(" ".join(words).encode()).hexdigest()
        return Items([Word(f"w{i}", text) for i, text in enumerate(words)], f"sha256:{digest}")

    def plan(self, items: Items[Word], model: Model, options: MirrorOptions) -> Plan:
        model.require(Capability.SCORE, self.name)
        batches = in_batches(items.items, options.batch_size)
        cost = {"items": len(items.items), "model_calls": len(batches)}
        return Plan(batches, options, len(items.items), cost=lambda: cost)

    def about(self, item: Word) -> MirrorRecord:
        return MirrorRecord(word=item.text)

    def ask(self, model: Model, batch: Batch, how: MirrorOptions) -> list[Sample[MirrorRecord]]:
        wanted = [ScoreItem(how.lead, (f" {word.text}", f" {word.text[::-1]}")) for word in batch.items]
        rows = zip(batch.indices, batch.items, model.try_score(wanted), strict=True)
        return [self.to_sample(index, word, scored, how) for index, word, scored in rows]

    def to_sample(self, index: int, word: Word, scored: Any, how: MirrorOptions) -> Sample[MirrorRecord]:
        if isinstance(scored, Failure):
            return self.failed(index, word, scored, how)
        lead = float(scored[1].nll_nats - scored[0].nll_nats)
        return Sample(word.id, index, MirrorRecord(word=word.text, lead_nats=lead), outcome=Outcome(correct=lead > 0))

    def judge(self, samples: list[Sample[MirrorRecord]], options: MirrorOptions, items: Any) -> MirrorSummary:
        leads = [lead for sample in samples if (lead := sample.result.lead_nats) is not None]
        mean = sum(leads) / len(leads) if leads else None
        figure = Figure.of("mean lead", mean, "nats", mean_interval(leads) if leads else None)
        coverage = Coverage.of(samples)
        return MirrorSummary(study=self.name, coverage=coverage, headline=[figure], notes=[], mean_lead_nats=mean)


# -- what follows from it -------------------------------------------------------------------------------------------

MIRROR = MirrorStudy()
WORDS = "fox dog brown lazy quick sky answer four five jumps over the not is"
START = (
    "import importlib.util, sys; spec = importlib.util.spec_from_file_location('mirror_study', sys.argv.pop(1)); "
    "module = importlib.util.module_from_spec(spec); sys.modules['mirror_study'] = module; "
    "spec.loader.exec_module(module); module.registry.register(module.MIRROR); "
    "from howsure.cli.app import main; sys.argv[0] = 'howsure'; main()"
)
"""A program that adds the study and is `howsure` from then on."""


@pytest.fixture(autouse=True)
def _registered() -> Any:
    registry.register(MIRROR)
    yield
    registry.forget("mirror")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tiny import build_ngram

    return f"ngram:{build_ngram(tmp_path_factory.mktemp('ngram'))}"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text(WORDS)
    return path


def howsure(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-c", START, __file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=surroundings(), check=False)


def surroundings() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(Path(__file__).parents[1])}


def test_it_is_a_small_study() -> None:
    lines = Path(__file__).read_text().splitlines()
    first, last = (next(i for i, line in enumerate(lines) if line.startswith(f"# -- {what}")) for what in
                   ("the study", "what follows"))  # fmt: skip
    assert last - first <= 100


def test_its_command_has_help_data_and_a_dry_run(words: Path, model: str, tmp_path: Path) -> None:
    listed, helped = howsure("--help").stdout, howsure("mirror", "--help").stdout
    assert "Mirror: is a word likelier than the same letters in reverse?" in listed
    for words_of in ("A file with words.", "--lead", "What stands before each word.", "--engine", "--retry-failed"):
        assert words_of in helped
    planned = howsure("mirror", words, "--model", model, "--dry-run", "--json")
    assert json.loads(planned.stdout) == {"items": 14, "model_calls": 7}
    assert not (tmp_path / "runs").exists()
    refused = howsure("mirror", words, "--model", model, "--batch-size", "0")
    assert (refused.returncode, refused.stderr) == (2, "howsure: error: --batch-size must be at least 1, not 0\n")
    done = howsure("mirror", words, "--model", model, "--out", tmp_path / "first", "--json", "--quiet")
    assert json.loads(done.stdout) == json.loads((tmp_path / "first/summary.json").read_text())
    shown = howsure("mirror", words, "--model", model, "--out", tmp_path / "first").stdout
    assert "mean lead" in shown
    assert "scored 14 of 14" in shown


def test_a_run_that_is_killed_is_resumed_to_the_same_bytes(model: str, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    many.write_text(" ".join(random.Random(1).choices(WORDS.split(), k=3000)))
    arguments = ("mirror", many, "--model", model, "--quiet", "--json", "--out")
    whole = howsure(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-c", START, __file__, *map(str, arguments), str(tmp_path / "killed")]
    process = subprocess.Popen(command, env=surroundings(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    samples = tmp_path / "killed/samples.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (samples.exists() and samples.stat().st_size > 2_000):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < samples.read_bytes().count(b"\n") < 3000
    assert howsure(*arguments, tmp_path / "killed").returncode == 0
    for name in ("samples.jsonl", "summary.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_it_travels_to_a_process_that_has_howsure_alone(words: Path, model: str) -> None:
    """As to a worker of Ray, with its source."""
    import howsure

    options = MirrorOptions(str(words), model)
    opened = howsure.load(model)
    plan = MIRROR.plan(MIRROR.read(options, LocalEngine()), opened, options)
    job, (first, *_) = StudyJob(MIRROR, opened, plan.options.for_workers()), plan.batches
    program = (
        "import pickle, sys; job, batch = pickle.load(sys.stdin.buffer); "
        "print(*(repr(sample.result.lead_nats) for sample in job(batch)))"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(howsure.__file__).parents[1])}
    command, sent = [sys.executable, "-P", "-c", program], pickle.dumps((job, first))
    there = subprocess.run(command, input=sent, capture_output=True, env=env, check=False)
    assert there.returncode == 0, there.stderr.decode()
    assert [float(one) for one in there.stdout.split()] == [sample.result.lead_nats for sample in job(first)]


@pytest.mark.only_long
def test_ray_writes_the_same_bytes(words: Path, model: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for engine, more in (("local", ()), ("ray", ("--workers", "2", "--cpus-per-worker", "1"))):
        done = howsure("mirror", words, "--model", model, "--engine", engine, *more, "--out", tmp_path / engine)
        assert done.returncode == 0, done.stderr
    for name in ("samples.jsonl", "summary.json"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_python_parquet_and_compare(words: Path, model: str, tmp_path: Path) -> None:
    import howsure

    mirror = python_function(MirrorOptions, MIRROR)
    first = mirror(str(words), model, out=tmp_path / "first")
    both = mirror(str(words), model, model_b=model, lead="a", out=tmp_path / "both")
    assert isinstance(first.summary, MirrorSummary)
    assert [sample.result.word for sample in first.samples] == WORDS.split()
    (exported,) = howsure.export(first.run)
    table = polars.read_parquet(exported.path)
    assert table["result.word"].to_list() == WORDS.split()
    assert table.schema["result.lead_nats"] == polars.Float64
    assert both.comparison.difference.mean_difference == 0.0
    compared = msgspec.to_builtins(howsure.compare(both.a.run, both.b.run))
    assert [figure["name"] for figure in compared["a"]["headline"]] == ["mean lead"]
    other = tmp_path / "other.txt"
    other.write_text(WORDS[:30])
    with pytest.raises(InputError, match="over different items"):
        howsure.compare(first.run, mirror(str(other), model, out=tmp_path / "other").run)


def test_its_report_and_its_pages(words: Path, model: str, tmp_path: Path) -> None:
    from report.viewer.asking import Browser

    python_function(MirrorOptions, MIRROR)(str(words), model, out=tmp_path / "first")
    report = (tmp_path / "first/report.html").read_text()
    assert "mean lead" in report
    page = Browser(tmp_path).get("/run?path=first").text
    for seen in ("mean lead", "lead nats", "answer"):
        assert seen in page
