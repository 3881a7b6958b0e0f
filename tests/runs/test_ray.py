"""Work on Ray, with Ray itself: in order, each piece once, deaths and refusals included; and studies to the byte."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure import errors
from howsure.errors import HowsureError, InputError, MissingExtra, WorkersLost
from howsure.runs import EngineOptions, LocalEngine, opened_engine
from howsure.runs.ray_engine import RayEngine
from howsure.runs.run import StudyJob, prepared
from howsure.studies.mcq import MCQ, McqOptions
from runs import jobs_for_ray as jobs
from studies.grounding.screens import flat
from tiny import build_ngram
from tiny_vision import build_vision

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.long, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine, once for all tests here; an engine that finds it started leaves it so."""
    with opened_engine(EngineOptions(engine="ray", workers=2)) as engine:
        ray.cloudpickle.register_pickle_by_value(jobs)
        assert isinstance(engine, RayEngine)
        assert list(engine.run(jobs.Squares(), [2])) == [4]
        yield
    assert not ray.is_initialized(), "who starts Ray ends it"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that a worker opens in no time; what is shown does not depend on its kind."""
    return f"ngram:{build_ngram(tmp_path_factory.mktemp('model'))}"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def engine(cluster: None, told: list[str]) -> Iterator[RayEngine]:
    made = RayEngine(workers=2, announce=told.append)
    yield made
    made.close()
    assert ray.is_initialized()


# -- pieces ---------------------------------------------------------------------------------------------------------


def test_pieces_come_back_in_their_order(engine: RayEngine) -> None:
    assert list(engine.run(jobs.Squares(), range(60))) == [i * i for i in range(60)]
    assert list(engine.run(jobs.Squares(), [])) == []


def test_only_a_few_pieces_are_taken_ahead(engine: RayEngine) -> None:
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for i in range(200):
            taken.append(i)
            yield i

    for done, _ in enumerate(engine.run(jobs.Squares(), pieces())):
        assert len(taken) <= done + 1 + 4 * 2 + 2, "what is not asked for yet must not pile up here"
    assert len(taken) == 200


def test_a_slow_piece_lets_little_pile_up_behind_it(engine: RayEngine) -> None:
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for i in range(200):
            taken.append(i)
            yield i

    found = engine.run(jobs.SlowFirst(), pieces())
    assert next(found) == 0
    assert len(taken) <= 4 * 2, "the others wait for it, and so do those after them"
    assert list(found) == list(range(1, 200))


def test_a_piece_is_packed_on_its_way_and_names_mean_the_same_there(engine: RayEngine, tmp_path: Path) -> None:
    engine.workers = 1
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert list(engine.run(jobs.WithFiles(), ["a", None])) == [
            ({"with_files": "a"}, str(tmp_path)),
            ({"with_files": None}, str(tmp_path)),
        ]
    finally:
        os.chdir(before)


def test_the_pieces_of_a_dead_worker_are_done_again(engine: RayEngine, told: list[str], tmp_path: Path) -> None:
    found = list(engine.run(jobs.Deadly(tmp_path, at=7), range(20)))
    assert found == [f"piece {i}" for i in range(20)]
    assert len((tmp_path / "7.txt").read_text().split()) == 2
    assert any("a worker of Ray ended" in line and "done again" in line for line in told)


def test_a_piece_that_ends_every_worker_is_given_up_by_name(engine: RayEngine, tmp_path: Path) -> None:
    found = list(engine.run(jobs.Deadly(tmp_path, at=2, always=True), range(6)))
    assert [one for i, one in enumerate(found) if i != 2] == [f"piece {i}" for i in range(6) if i != 2]
    assert found[2] == (
        "piece 2: 3 workers ended, one after the other, while they did this; --retry-failed tries again"
    )
    # Once more where the piece before was done, and its worker ended before it could say so: then that one is blamed.
    assert len((tmp_path / "2.txt").read_text().split()) in (3, 4)


def test_a_job_that_cannot_be_given_up_ends_in_a_sentence(engine: RayEngine, tmp_path: Path) -> None:
    with pytest.raises(WorkersLost, match="3 workers ended, one after the other"):
        list(engine.run(jobs.Deadly(tmp_path, at=0, always=True, gives_up=False), range(2)))


def test_workers_that_all_end_while_starting_are_one_sentence(engine: RayEngine) -> None:
    with pytest.raises(WorkersLost, match=r"workers of Ray ended while they started.*fewer --workers"):
        list(engine.run(jobs.DiesAtStart(), range(2)))


@pytest.mark.parametrize(("kind", "error", "at_load"), [("extra", MissingExtra, True), ("input", InputError, False)])
def test_what_a_worker_refuses_is_refused_here(
    engine: RayEngine, kind: str, error: type[HowsureError], at_load: bool
) -> None:
    engine.workers = 1
    with pytest.raises(error) as there:
        list(engine.run(jobs.Refuses(kind, at_load), range(6)))
    with pytest.raises(error) as here:
        list(LocalEngine().run(jobs.Refuses(kind, at_load), range(6)))
    assert str(there.value) == str(here.value)


def test_a_job_that_a_worker_cannot_open_says_why(engine: RayEngine, told: list[str]) -> None:
    with pytest.raises(InputError, match="models/qwen is not there: check the path"):
        list(engine.run(jobs.OpenedHere(), range(2)))
    assert told == [], "no worker ended"


def test_a_bug_in_a_job_is_no_death_and_keeps_its_traceback(engine: RayEngine, told: list[str]) -> None:
    engine.workers = 1
    with pytest.raises(ZeroDivisionError, match="_refuse"):
        list(engine.run(jobs.Refuses("bug"), range(6)))
    assert told == []


def test_a_worker_that_would_give_other_digits_is_refused(engine: RayEngine) -> None:
    engine.workers = 1
    with pytest.raises(WorkersLost, match=r"the model's device is \d+, here it is \d+: give the same"):
        list(engine.run(jobs.ByProcess(), range(2)))


def test_a_node_without_howsure_says_so(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    class NotThere:
        """As Ray puts one in the place of a class that it cannot import."""

        def __init__(self, *_: Any) -> None:
            raise RuntimeError("The actor failed to import\n\nModuleNotFoundError: No module named 'howsure'")

        def ready(self, *_: Any) -> None: ...

    monkeypatch.setattr("howsure.runs.ray_pool.Worker", NotThere)
    with pytest.raises(WorkersLost, match=r"cannot begin to work \(«ModuleNotFoundError: No module named 'howsure'»\)"):
        list(engine.run(jobs.Squares(), [1]))


def test_a_network_computes_with_as_many_threads_as_here(engine: RayEngine, tiny_folder: Path) -> None:
    """Its last digits depend on that, and a worker of Ray has one thread by itself."""
    import torch

    engine.workers = 1
    assert list(engine.run(jobs.Threads(), [0])) == ["2"]
    here = howsure.load(f"hf:{tiny_folder}", lazy=True, device="cpu")
    assert StudyJob(MCQ, here, None).threads == torch.get_num_threads()
    assert jobs.Squares().threads is None


def test_what_the_cluster_does_not_have_is_said(cluster: None) -> None:
    with pytest.raises(WorkersLost, match=r"takes 1 CPUs and 1 GPUs, and Ray offers \d+ CPUs and 0 GPUs"):
        list(RayEngine(gpus_per_worker=1).run(jobs.Squares(), range(2)))


# -- studies --------------------------------------------------------------------------------------------------------


def same_files(here: Path, there: Path) -> None:
    """Every file of both runs, byte by byte, but for what tells when and by whom a run was made."""
    apart = {"run.json", "report.html", ".lock"}
    names = [
        {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and path.name not in apart}
        for run in (here, there)
    ]
    assert names[0] == names[1]
    assert {"samples.jsonl", "summary.json"} <= names[0]
    for name in names[0]:
        assert (here / name).read_bytes() == (there / name).read_bytes(), name
    manifests = [json.loads((run / "run.json").read_text()) for run in (here, there)]
    assert manifests[0]["identity"] == manifests[1]["identity"]


def questions(path: Path, count: int) -> Path:
    rng = random.Random(5)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "answer", "is", "four", "not", "five"]
    with path.open("w") as file:
        for i in range(count):
            asked = " ".join(rng.choices(words, k=rng.randint(3, 30)))
            choices = [f"{' '.join(rng.choices(words, k=rng.randint(1, 4)))} {c}" for c in "abc"]
            file.write(json.dumps({"id": f"q{i}", "question": asked, "choices": choices, "answer_index": i % 3}) + "\n")
    return path


def test_a_run_is_taken_up_by_another_engine(engine: RayEngine, model: str, tmp_path: Path) -> None:
    """Begun on Ray and ended here; a run of trust below goes the other way."""
    data, out = questions(tmp_path / "q.jsonl", 40), tmp_path / "torn"
    howsure.mcq(data, model, out=tmp_path / "whole", batch_size=4)
    with pytest.raises(KeyboardInterrupt):
        howsure.mcq(data, model, out=out, batch_size=4, engine=engine, progress=StopsAfter(15))
    kept = (out / "samples.jsonl").read_bytes()
    assert 15 <= kept.count(b"\n") < 40
    howsure.mcq(data, model, out=out, batch_size=4)
    assert (out / "samples.jsonl").read_bytes().startswith(kept)
    same_files(tmp_path / "whole", out)


class StopsAfter:
    """Somebody who presses Ctrl-C."""

    def __init__(self, samples: int) -> None:
        self.left = samples

    def start(self, *_: Any, **__: Any) -> None: ...

    def advance(self, samples: list[Any]) -> None:
        self.left -= len(samples)
        if self.left <= 0:
            raise KeyboardInterrupt

    def stop(self) -> None: ...


@pytest.mark.only_long
def test_perplexity_is_the_same_to_the_byte(
    engine: RayEngine, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from howsure.studies.perplexity import study

    monkeypatch.setattr(study, "TOKENS_AT_ONCE", 400)
    rng = random.Random(2)
    for i in range(3):
        words = rng.choices(["the", "quick", "brown", "fox", "über", "\n"], k=500)
        (tmp_path / f"text{i}.txt").write_text(" ".join(words), encoding="utf-8")
    texts = [tmp_path / f"text{i}.txt" for i in range(3)]
    for name, used in (("here", None), ("there", engine)):
        howsure.perplexity(texts, model, out=tmp_path / name, engine=used)
    same_files(tmp_path / "here", tmp_path / "there")


@pytest.mark.only_long
def test_grounding_is_the_same_to_the_byte_and_workers_need_not_see_the_files(
    engine: RayEngine, tmp_path: Path
) -> None:
    from PIL import Image

    model = build_vision("qwen3_vl", tmp_path / "model")
    engine.workers = 1
    lines = []
    for i in range(6):
        Image.new("RGB", (120 + i, 80), (40 * i, 90, 200)).save(tmp_path / f"{i}.png")
        lines.append(json.dumps(flat([100 * i, 500], image=f"{i}.png")))
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    for name, used in (("here", None), ("there", engine)):
        howsure.grounding(
            tmp_path / "d.jsonl", f"hf:{model}", out=tmp_path / name, max_new_tokens=6, batch_size=2, engine=used
        )
    same_files(tmp_path / "here", tmp_path / "there")


@pytest.mark.only_long
def test_trust_is_the_same_to_the_byte(engine: RayEngine, model: str, tmp_path: Path) -> None:
    for name, used in (("here", None), ("there", engine)):
        howsure.trust("home", model, out=tmp_path / name, episodes=4, max_steps=4, act="best", engine=used)
    same_files(tmp_path / "here", tmp_path / "there")
    rows = [json.loads(line)["result"] for line in (tmp_path / "there" / "samples.jsonl").open()]
    assert {row["first_episode"] for row in rows if row["episode"] > 1} == {1}, "all four asked the same"


def test_trust_taken_up_on_ray_replays_what_was_played(engine: RayEngine, model: str, tmp_path: Path) -> None:
    def played(out: str, **more: Any) -> None:
        howsure.trust("home", model, out=tmp_path / out, episodes=3, max_steps=4, act="sample", **more)

    played("whole")
    with pytest.raises(KeyboardInterrupt):
        played("torn", progress=StopsAfter(6))
    (tmp_path / "torn" / "frames" / "e0001-s0002.png").unlink()
    played("torn", engine=engine)
    same_files(tmp_path / "whole", tmp_path / "torn")


@pytest.mark.only_long
def test_coherent_trust_is_the_same_to_the_byte(engine: RayEngine, model: str, tmp_path: Path) -> None:
    engine.workers = 1
    from howsure.studies.trust.coherent import coherent

    (tmp_path / "l.txt").write_text("go to the goal\nstay where you are\n")
    (tmp_path / "s.txt").write_text("the door is open\n\nthe floor is wet\n")
    asked: dict[str, Any] = {"instructions": tmp_path / "l.txt", "groundings": tmp_path / "s.txt", "states": 3}
    for name, used in (("here", None), ("there", engine)):
        coherent("home", model, out=tmp_path / name, engine=used, **asked)
    same_files(tmp_path / "here", tmp_path / "there")


@pytest.mark.parametrize("option", ["carry", "listen"])
def test_what_makes_episodes_wait_is_refused(engine: RayEngine, model: str, tmp_path: Path, option: str) -> None:
    more: dict[str, Any] = {"carry": True} if option == "carry" else {"listen": lambda episode: None}
    with pytest.raises(InputError, match="--carry" if option == "carry" else "--interactive"):
        howsure.trust("home", model, out=tmp_path / "r", engine=engine, **more)
    assert not (tmp_path / "r").exists()


def test_a_model_that_is_open_here_cannot_be_sent(engine: RayEngine, tiny_folder: Path, tmp_path: Path) -> None:
    from howsure.models.contract import ModelOptions
    from howsure.models.hf import HFTextModel
    from howsure.models.registry import ModelName

    model = HFTextModel.open(ModelName("hf", str(tiny_folder)), ModelOptions())
    with pytest.raises(InputError, match="is open in this process and cannot be sent to workers: give the model by"):
        howsure.mcq(questions(tmp_path / "q.jsonl", 4), model, out=tmp_path / "r", engine=engine)


# -- without a cluster ----------------------------------------------------------------------------------------------


def test_every_error_survives_the_way_from_a_worker() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, HowsureError)]
    assert len(kinds) > 10
    for kind in kinds:
        made = kind("it", "ray", "that") if kind is MissingExtra else kind("a sentence")
        back = pickle.loads(pickle.dumps(made))
        assert (type(back), str(back), back.exit_code) == (kind, str(made), made.exit_code)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": "slurm"}, "--engine must be local or ray, not 'slurm'"),
        ({"engine": "local", "workers": 2}, "--workers is for --engine ray, and this is local"),
        ({"engine": "local", "gpus_per_worker": 0.5}, "--gpus-per-worker is for --engine ray"),
        ({"engine": "ray", "workers": 0}, "--workers must be at least 1, not 0"),
        ({"engine": "ray", "workers": 10_000}, "--workers 10000 are too many for this machine, which takes"),
        ({"engine": "ray", "cpus_per_worker": -1.0}, "--cpus-per-worker must be 0 or more, not -1.0"),
        ({"engine": "ray", "gpus_per_worker": float("nan")}, "--gpus-per-worker must be 0 or more, not nan"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence), opened_engine(EngineOptions(**options)):
        pass


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (None, r"Ray cannot be started on this machine \(«socket path too long»\): RAY_TMPDIR may name"),
        ("auto", r"no Ray cluster answers at auto \(«socket path.*RAY_AUTH_MODE=token"),
        ("127.0.0.1:9", r"no Ray cluster answers at 127.0.0.1:9 \(«\[Errno 111\] Connection refused»\)"),
        ("127.0.0.1:99999", r"no Ray cluster answers at 127.0.0.1:99999 \(«"),
    ],
    ids=["own", "cluster", "nobody", "no-port"],
)
def test_a_ray_that_does_not_start_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, address: str | None, sentence: str
) -> None:
    def init(**_: Any) -> None:
        raise OSError("socket path too long\nand so on")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(WorkersLost, match=sentence) as told:
        list(RayEngine(address, workers=1).run(jobs.Squares(), [1]))
    assert "\n" not in str(told.value)


def test_a_head_without_gpus_plans_for_workers_that_have_them(tiny_folder: Path, tmp_path: Path) -> None:
    """The writer never loads the weights; a worker that has no such device says so itself."""
    part = EngineOptions(engine=RayEngine(gpus_per_worker=0.5))
    assert part.worker_device(None) == {"device": "cuda", "elsewhere": True}
    without = EngineOptions(engine="ray")
    assert without.worker_device(None) == {"device": "cpu", "elsewhere": True}, "a worker without a GPU has none"
    assert EngineOptions(engine="ray", gpus_per_worker=1.0).worker_device("cuda:1")["device"] == "cuda:1"
    for here in (None, "local", LocalEngine()):
        assert EngineOptions(engine=here).worker_device(None) == {"device": None}
    data = questions(tmp_path / "q.jsonl", 4)
    with prepared(MCQ, McqOptions(data, f"hf:{tiny_folder}", engine=part.engine)) as ready:
        (opened,) = ready.opened
        assert opened is not None
        assert opened.model.fingerprint()["device"] == "cuda"
        with pytest.raises(InputError, match="device 'cuda' cannot be used here"):
            pickle.loads(pickle.dumps(opened.model)).fingerprint()


def test_processes_of_this_machine_are_no_workers(tmp_path: Path) -> None:
    from howsure.studies.trajectories.reading import read_sources

    with pytest.raises(InputError, match="--jobs is for processes of this machine: with --engine ray say --workers"):
        list(read_sources([], jobs=2, engine=RayEngine()))
