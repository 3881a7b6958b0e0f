"""What must be true of every study and of a run of it: a check takes a study and, where it needs one, a run folder.

`test_conformance.py` has them done for every study of howsure, and for the one of `test_a_new_study.py`.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

import howsure
from howsure.cli.app import app
from howsure.errors import RunDamaged
from howsure.options import declared, table_of
from howsure.report.views import columns_of, view_of
from howsure.runs import Run, Sample
from howsure.runs.folder import read_summary
from howsure.runs.reading import encoded
from howsure.studies import registry
from howsure.studies.study import Study
from howsure.studies.summary import Summary


def card_is_help(study: Study[Any]) -> None:
    assert registry.line_of(study.name) == study.card.partition("\n")[0]
    assert f"Example: howsure {study.name}" in study.help
    assert "\nQuestion " not in study.help


def options_are_declared_once(study: Study[Any]) -> None:
    options = declared(study.options)
    assert dataclasses.is_dataclass(study.options)
    assert len({option.flag for option in options}) == len(options)
    for option in options:
        if option.about is not None:
            assert re.search(r"[.)]$", option.about.help), option.name
    rows = list(table_of(study.options))
    assert len(rows) == sum(option.about is not None for option in options)


def command_has_its_options(study: Study[Any]) -> None:
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


def what_it_declares_is_typed(study: Study[Any]) -> None:
    assert issubclass(study.record, msgspec.Struct)
    assert issubclass(study.summary, Summary)
    assert study.evidence is not Any
    assert pickle.loads(pickle.dumps(study)).name == study.name


DECLARED = (card_is_help, options_are_declared_once, command_has_its_options, what_it_declares_is_typed)


def samples_are_as_declared(study: Study[Any], folder: Path, _: Path) -> None:
    lines = (folder / "samples.jsonl").read_bytes().splitlines()
    by_id = {sample.id: sample for sample in Run(folder).records(record=study.record)}
    assert len(by_id) == len(lines) > 0
    for line in lines:
        plain = msgspec.json.decode(line, type=Sample[dict[str, Any]])
        typed = by_id[plain.id]
        assert isinstance(typed.result, study.record)
        assert json.loads(encoded(typed)) == json.loads(line)
        bulk = msgspec.convert(plain.evidence, study.evidence)
        assert _without_defaults(msgspec.to_builtins(bulk)) == _without_defaults(plain.evidence)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_defaults(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in (None, {}, [], 0)}
    return [_without_defaults(one) for one in value] if isinstance(value, (list, tuple)) else value


def summary_is_as_declared(study: Study[Any], folder: Path, _: Path) -> None:
    summary = read_summary(folder, study.summary)
    assert isinstance(summary, study.summary)
    assert summary.study == study.name
    assert msgspec.to_builtins(summary) == json.loads((folder / "summary.json").read_bytes())
    assert summary.headline
    assert all(figure.name for figure in summary.headline)


def a_bad_line_is_named_by_its_field(study: Study[Any], folder: Path, scratch: Path) -> None:
    copy = scratch / "run"
    copy.mkdir()
    (copy / "run.json").write_bytes((folder / "run.json").read_bytes())
    first, second, *others = (folder / "samples.jsonl").read_text().splitlines()
    broken = json.loads(second)
    field = next(name for name, value in broken["result"].items() if value is not None)
    broken["result"][field] = {"odd": [1]}
    (copy / "samples.jsonl").write_text("\n".join([first, json.dumps(broken), *others]) + "\n")
    with pytest.raises(RunDamaged, match=rf"samples\.jsonl, line 2: .*\$\.result\.{re.escape(field)}"):
        Run(copy).records(record=study.record)


def it_has_parquet_a_report_and_pages(study: Study[Any], folder: Path, scratch: Path) -> None:
    (exported,) = howsure.export(Run(folder), scratch / "samples.parquet")
    columns = pq.read_schema(exported.path).names
    for field in study.record.__struct_encode_fields__:
        assert any(column == f"result.{field}" or column.startswith(f"result.{field}.") for column in columns), field
    assert (folder / "report.html").stat().st_size > 10_000
    assert len(columns_of(view_of(study.name))) > 3


OF_A_RUN = (
    samples_are_as_declared,
    summary_is_as_declared,
    a_bad_line_is_named_by_its_field,
    it_has_parquet_a_report_and_pages,
)
