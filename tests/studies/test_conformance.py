"""One battery for every study: a new one is tested by being registered."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import howsure
from howsure.cli.app import app
from howsure.errors import RunDamaged
from howsure.options import declared, signature_of, table_of
from howsure.report.pages.contract import columns_of, pages_of
from howsure.runs import Run, Sample
from howsure.runs.folder import read_summary
from howsure.runs.records import encoded
from howsure.studies import registry
from howsure.studies.study import Study
from howsure.studies.summary import Summary
from runs_to_look_at import make_runs

FOLDERS = {
    "mcq": "mcq/before",
    "perplexity": "perplexity",
    "trajectories": "trajectories",
    "trust": "trust",
    "grounding": "grounding",
}
"""Runs of the studies; what is missing here is named in the test that looks at runs."""


@pytest.fixture(params=list(registry.HOMES))
def study(request: pytest.FixtureRequest) -> Study[Any]:
    return registry.study_named(request.param)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("all") / "runs", tmp_path_factory.mktemp("data"))


# -- what is declared -------------------------------------------------------------------------------------------------


def test_its_card_is_its_help(study: Study[Any]) -> None:
    assert registry.line_of(study.name) == study.card.partition("\n")[0]
    assert "\nQuestion " in study.card
    assert f"Example: howsure {study.name}" in study.help


def test_an_option_is_declared_once(study: Study[Any]) -> None:
    options = declared(study.options)
    assert dataclasses.is_dataclass(study.options)
    assert len({option.flag for option in options}) == len(options)
    for option in options:
        if option.about is not None:
            assert re.search(r"[.)]$", option.about.help), option.name
    for name, _, words in table_of(study.options):
        assert name
        assert words


def test_the_command_has_each_of_its_options(study: Study[Any]) -> None:
    command: Any = get_command(app)
    for word in study.name.split():
        command = command.commands[word]
    command = getattr(command, "commands", {}).get("run", command)
    flags = {flag for one in command.params for flag in one.opts}
    names = {one.name for one in command.params}
    for option in declared(study.options):
        if option.about is not None:
            assert option.name in names
            assert option.about.argument or option.flag in flags


def test_the_function_has_each_of_its_options() -> None:
    for name in ("mcq", "perplexity", "trajectories", "trust", "grounding"):
        function = getattr(howsure, name)
        assert inspect.signature(function).parameters == signature_of(registry.study_named(name).options).parameters
        assert registry.line_of(name) in function.__doc__


def test_what_it_declares_is_typed(study: Study[Any]) -> None:
    assert issubclass(study.record, msgspec.Struct)
    assert issubclass(study.summary, Summary)
    assert study.evidence is not Any
    assert pickle.loads(pickle.dumps(study)).name == study.name


# -- what a run of it holds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FOLDERS))
def test_samples_are_what_was_declared_and_nothing_else(name: str, runs: Path) -> None:
    study, folder = registry.study_named(name), runs / FOLDERS[name]
    lines = (folder / "samples.jsonl").read_bytes().splitlines()
    samples = Run(folder).records(record=study.record)
    by_id = {sample.id: sample for sample in samples}
    assert len(by_id) == len(lines) > 0
    for line in lines:
        plain = msgspec.json.decode(line, type=Sample[dict[str, Any]])
        typed = by_id[plain.id]
        assert isinstance(typed.result, study.record)
        assert json.loads(encoded(typed)) == json.loads(line)
        bulk = msgspec.convert(plain.evidence, study.evidence)
        assert _without_defaults(json.loads(msgspec.json.encode(bulk))) == _without_defaults(plain.evidence)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_defaults(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in (None, {}, [], 0)}
    return [_without_defaults(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", list(FOLDERS))
def test_the_summary_is_what_was_declared_and_nothing_else(name: str, runs: Path) -> None:
    study, folder = registry.study_named(name), runs / FOLDERS[name]
    summary = read_summary(folder, study.summary)
    assert isinstance(summary, study.summary)
    assert summary.study == name
    assert msgspec.to_builtins(summary) == json.loads((folder / "summary.json").read_bytes())
    assert all(figure.name for figure in summary.headline)


@pytest.mark.parametrize("name", list(FOLDERS))
def test_a_line_that_does_not_fit_is_named_by_its_field(name: str, runs: Path, tmp_path: Path) -> None:
    study, folder = registry.study_named(name), tmp_path / "run"
    folder.mkdir()
    for file in ("run.json", "samples.jsonl"):
        (folder / file).write_bytes((runs / FOLDERS[name] / file).read_bytes())
    lines = (folder / "samples.jsonl").read_text().splitlines()
    broken = json.loads(lines[1])
    field = next(name for name, value in broken["result"].items() if value is not None)
    broken["result"][field] = {"odd": [1]}
    (folder / "samples.jsonl").write_text("\n".join([lines[0], json.dumps(broken), *lines[2:]]) + "\n")
    with pytest.raises(RunDamaged, match=rf"samples\.jsonl, line 2: .*\$\.result\.{re.escape(field)}"):
        Run(folder).records(record=study.record)


@pytest.mark.parametrize("name", list(FOLDERS))
def test_it_has_parquet_a_report_and_pages(name: str, runs: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    study, folder = registry.study_named(name), runs / FOLDERS[name]
    (exported,) = howsure.export(Run(folder), tmp_path / "samples.parquet")
    columns = pq.read_schema(exported.path).names
    for field in study.record.__struct_encode_fields__:
        assert any(column == f"result.{field}" or column.startswith(f"result.{field}.") for column in columns), field
    assert (folder / "report.html").stat().st_size > 10_000
    assert len(columns_of(pages_of(name))) > 3
