"""Commands run in a folder that somebody else has filled: modules, settings, links and pipes there do nothing.

Every command stands in `ROWS`, and is started as the installed `howsure` starts, a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import commands
import howsure
from howsure.cli.app import app
from sizes import in_long
from tiny import build_ngram, build_tiny
from trajectory_logs import results, scored

LIMIT_S = 120
"""A pipe is waited for without end; this is for slow machines."""
SETTINGS = (
    ".condarc", ".coveragerc", ".env", ".envrc", ".gitconfig", ".netrc", ".pdbrc", ".pypirc", ".rayignore", ".theanorc",
    "conda.yaml", "config.json", "config.toml", "config.yaml", "jupyter_config.py", "logging.conf", "pip.conf",
    "pip.ini", "pydistutils.cfg", "pyproject.toml", "pytest.ini", "pyvenv.cfg", "python311.zip", "pythonrc.py",
    "ray.yaml", "requirements.txt", "runtime_env.yaml", "setup.cfg", "setup.py", "tox.ini", "uv.toml",
)  # fmt: skip
PIPES = ("matplotlibrc", "data.json", "runs", "src", "_ops.py", "_classes.py")
"""What a library looks for; opening one waits without end."""
OTHER_MODULES = {
    "sitecustomize",
    "usercustomize",
    "howsure",
    "cloudpickle",
    "colorama",
    "simplejson",
    "orjson",
    "uvloop",
}

ROWS = {
    "show": "'a text' --model ngram:{arpa}",
    "ask": "'a question' --model hf:{checkpoint} --max-tokens 2",
    "mcq": "{questions} --model ngram:{arpa} --out {out}",
    "perplexity": "{texts} --model ngram:{arpa} --out {out}",
    "trajectories": "{results} --policy alarm:1:0.5 --output {file}.json --plot {file}.svg",
    "compare": "{run} {other_run} --output-json {file}.json",
    "report": "{run} --out {file}.html",
    "export": "{run} --out {file}.parquet",
    "demo": "--model ngram:{arpa} --out {out}",
    "models": "",
    "runs": "{runs}",
    "view": "{runs} --dry-run",
    "trust run": "{map} --grounding {knowledge} --model ngram:{arpa} --episodes 1 --max-steps 2 --out {out}",
    "trust analyse": "{steps}",
    "trust coherent": "{map} --instructions {instructions} --groundings {groundings} --model ngram:{arpa} --out {out}",
    "trust maps": "home",
    "grounding run": "{clicks} --model ocr --out {out}",
    "grounding convert": "{clicks} --to {file}.jsonl",
    "grounding overlay": "{clicked_run} --all --image-root {images} --to {out}",
    "ngram train": "{texts} --smoothing witten-bell --out {file}.arpa",
    "entropy": "{texts} --blocks 2 --plot {file}.svg",
    "theorem": "--longest 64 --paths 2 --plot {file}.svg",
}
"""Every command, with the files that it can be given: those of `material` by name, and where it writes as `{out}`, a
folder, and `{file}`, a name without its end."""
ON_RAY = "mcq {questions} --model ngram:{arpa} --engine ray --workers 1 --out {out}"


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good file, folder or run of every kind."""
    from importlib.resources import files

    folder = tmp_path_factory.mktemp("material")
    question = {"question": "What is four?", "choices": ["a dog", "a number"], "answer_index": 1}
    steps = ("1,2025-01-21T16:51:19,5,5,2.3,1.8,0.5,0.2", "2,2025-01-21T16:51:25,5,6,2.1,1.6,0.4,0.2")
    header = "step,timestamp,agent_x,agent_y,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T"
    shutil.copy(str(files("howsure.data") / "demo_screen.png"), folder)
    texts = {
        "questions.jsonl": "".join(json.dumps({"id": f"q{i}"} | question) + "\n" for i in range(4)),
        "clicks.jsonl": (files("howsure.data") / "demo_grounding.jsonl").read_text().splitlines()[0] + "\n",
        "texts.txt": "the quick brown fox\njumps over the lazy dog\n",
        "instructions.txt": "go to the goal\nstay where you are\n",
        "groundings.txt": "the door is open\n\nthe floor is wet\n",
        "steps.csv": "\n".join((header, *steps, "")),
        "results.json": json.dumps(results(*(simulation_of(i) for i in range(8)))),
        "map.json": (files("howsure.data") / "maps" / "home.json").read_text(),
        "knowledge.txt": (files("howsure.data") / "maps" / "home.grounding.txt").read_text(),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    made = {Path(name).stem: folder / name for name in texts}
    made |= {"arpa": build_ngram(folder), "checkpoint": build_tiny(folder / "checkpoint"), "images": folder}
    made |= {name: folder / "runs" / name for name in ("run", "other_run", "clicked_run")} | {"runs": folder / "runs"}
    for name in ("run", "other_run"):
        howsure.mcq(made["questions"], f"ngram:{made['arpa']}", out=made[name])
    howsure.grounding(made["clicks"], "ocr", out=made["clicked_run"])
    return made


def simulation_of(i: int) -> dict[str, Any]:
    """Every other one fails, unsure at its end."""
    unsure = [0.1, 0.2, 3.0 if i % 2 else 0.1]
    return scored(unsure, [0.5] * 3, id=f"sim_{i}", task_id=f"task_{i}", reward_info={"reward": float(i % 2 == 0)})


def arguments(row: str, material: dict[str, Path], out: Path) -> list[str]:
    given = {name: str(path) for name, path in material.items()} | {"out": str(out / "run"), "file": str(out / "file")}
    return [part.format(**given) for part in shlex.split(row)]


def every_row() -> dict[str, str]:
    return {name: f"{name} {row}" for name, row in ROWS.items()} | {"on ray": ON_RAY}


def test_every_command_has_its_row() -> None:
    assert set(ROWS) == set(commands_below(typer.main.get_command(app)))


def commands_below(one: Any, name: str = "") -> Iterator[str]:
    if not hasattr(one, "commands"):
        yield name
    for below, command in getattr(one, "commands", {}).items():
        yield from commands_below(command, f"{name} {below}".strip())


# -- modules and settings -----------------------------------------------------------------------------------------


class Planted(NamedTuple):
    """A folder full of what others left there, and one in which each module leaves its name when it is run."""

    folder: Path
    ran: Path

    def forget(self) -> None:
        for module in self.ran.iterdir():
            module.unlink()
        for name in SETTINGS:
            os.utime(self.folder / name, ns=(0, 1))

    def settings_read(self) -> list[str]:
        return sorted(name for name in SETTINGS if (self.folder / name).stat().st_atime_ns > 0)


@pytest.fixture(scope="module")
def planted_once(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    modules = {*importlib.metadata.packages_distributions(), *sys.stdlib_module_names, *OTHER_MODULES}
    return plant(tmp_path_factory.mktemp("planted"), modules)


@pytest.fixture
def planted(planted_once: Planted) -> Planted:
    planted_once.forget()
    return planted_once


def plant(above: Path, modules: set[str]) -> Planted:
    made = Planted(above / "working", above / "ran")
    made.folder.mkdir()
    made.ran.mkdir()
    for name in filter(str.isidentifier, modules):
        (made.folder / f"{name}.py").write_text(f"open({str(made.ran / name)!r}, 'w').close()\n")
    for name in SETTINGS:
        (made.folder / name).write_text("[global]\n")
    for name in PIPES:
        os.mkfifo(made.folder / name)
    (made.folder / "samples.jsonl").symlink_to("/dev/zero")
    (made.folder / "run.json").symlink_to("nowhere")
    (made.folder / "loop").symlink_to("loop")
    made.forget()
    return made


def installed_command(above: Path) -> Path:
    """What pip makes of the entry point."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["howsure"].partition(":")
    script = above / "bin" / "howsure"
    script.parent.mkdir()
    script.write_text(f"import re\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n")
    return script


def run(folder: Path, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("name", [*(name for name in ROWS if name != "demo"), *in_long("demo", "on ray")])
def test_a_command_runs_and_reads_nothing_of_the_working_folder(
    name: str, planted: Planted, material: dict[str, Path], tmp_path: Path
) -> None:
    if name == "on ray":
        pytest.importorskip("ray")
    done = run(planted.folder, installed_command(tmp_path), *arguments(every_row()[name], material, tmp_path))
    assert os.listdir(planted.ran) == []
    assert planted.settings_read() == []
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("way", ["python -m", "an empty part of PYTHONPATH"])
def test_packages_do_not_come_from_a_working_folder_on_the_path(way: str, tmp_path: Path) -> None:
    """Beside those that Python itself imports before anything of howsure runs, and `howsure` itself."""
    before = run(tmp_path, "-P", "-c", "import sys; print(*sys.modules, 'sitecustomize', 'usercustomize', 'howsure')")
    packages = {*importlib.metadata.packages_distributions(), *OTHER_MODULES} - set(before.stdout.split())
    planted = plant(tmp_path, packages)
    if way == "python -m":
        done = run(planted.folder, "-m", "howsure", "theorem", "--longest", 64, "--paths", 2)
    else:
        path = os.pathsep + os.environ.get("PYTHONPATH", "")
        command = (installed_command(tmp_path), "theorem", "--longest", 64, "--paths", 2)
        done = run(planted.folder, *command, PYTHONPATH=path)
    assert os.listdir(planted.ran) == []
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_that_pythonpath_names_stays_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    script = "from howsure.isolated import isolate; isolate(); import mine, sys, os; print(os.environ['PYTHONPATH'])"
    done = run(tmp_path, "-c", script, PYTHONPATH=os.pathsep.join((".", "", *sys.path)))
    assert done.stdout.split(os.pathsep)[0] == str(tmp_path), done.stderr


def test_settings_that_start_latex_draw_nothing_here(tmp_path: Path) -> None:
    """Neither those of the working folder, nor those of whoever runs it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "latex").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "bin" / "latex").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for place in (tmp_path / "matplotlibrc", tmp_path / "settings" / "matplotlibrc"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("text.usetex: True\n")
        plot = ("-m", "howsure", "entropy", __file__, "--blocks", 2, "--plot", "blocks.svg")
        done = run(tmp_path, *plot, PATH=path, MPLCONFIGDIR=str(tmp_path / "settings"))
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "started").exists()
        place.unlink()


def test_a_model_is_fetched_by_pip_and_not_by_what_lies_here(planted: Planted, tmp_path: Path) -> None:
    """With an empty cache, and an index that has nothing."""
    nowhere = {"HOWSURE_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    done = run(planted.folder, installed_command(tmp_path), "show", "a text", **nowhere)
    assert os.listdir(planted.ran) == []
    assert done.returncode == 2
    assert "could not be fetched: pip said" in done.stderr


def test_compiled_code_is_kept_among_the_files_of_whoever_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch would look for it in /tmp, in a folder that another user may have made."""
    from types import SimpleNamespace

    from howsure.models.hf.scoring import Scorer

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOWSURE_CACHE", str(tmp_path))
    bare = SimpleNamespace(get_decoder=SimpleNamespace, base_model=None)
    Scorer.compile(SimpleNamespace(network=bare))  # type: ignore[arg-type]
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "torchinductor")


# -- files that are none ------------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))  # such a name must be short


def sparse_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 64 << 30)


KINDS = (device, link_to_nothing, link_to_itself, unix_socket, sparse_file)
OF_ANY_LENGTH = {"{texts}", "{arpa}"}
"""Read along, or hashed, whatever their length."""


def places_of_files() -> Iterator[Any]:
    """Every file of every command as a pipe, and as one of the other kinds in turn, which are refused by the same."""
    kinds = itertools.cycle(KINDS)
    for name, row in ROWS.items():
        for place in dict.fromkeys(re.findall(r"\{\w+\}[.\w]*", row)):
            other = next(kind for kind in kinds if kind is not sparse_file or place not in OF_ANY_LENGTH)
            yield name, place, pipe
            yield pytest.param(name, place, other, marks=pytest.mark.only_long)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "place", "kind"), list(places_of_files()), ids=lambda one: one if isinstance(one, str) else one.__name__
)
def test_a_file_that_is_none_is_not_waited_for(
    name: str,
    place: str,
    kind: Callable[[Path], None],
    material: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused in a sentence; where a command writes, replaced by what it writes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "LIMIT_S", 30)
    good = material.get(place.strip("{}"))
    bad = tmp_path / f"bad{good.suffix if good else Path(place).suffix}"
    kind(bad)
    row = every_row()[name].replace(place, str(bad))
    done = commands.howsure(*arguments(row, material, tmp_path))
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    else:
        assert good is None or place == "{images}", done.stdout
