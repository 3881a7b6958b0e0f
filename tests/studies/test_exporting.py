"""Real runs of every study as tables, and docs/export.md: its queries give what it says."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest

import howsure
from howsure.errors import InputError
from howsure.models.contract import Failure, Message, ScoreItem
from howsure.runs.columns import fields, joined
from howsure.runs.export import COMMON_COLUMNS, sample_kind
from howsure.studies.exporting import declared_by, targets
from runs_to_look_at import make_runs
from scripted import Writer
from studies.on_paper import OnPaper, write
from studies.readers import Reader, put

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
SCREENS = str(files("howsure.data") / "demo_grounding.jsonl")


# -- every study ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_runs(tmp_path_factory.mktemp("all") / "runs", tmp_path_factory.mktemp("data"))
    howsure.export(folder)
    return folder


@pytest.mark.parametrize("name", ["mcq/before", "perplexity", "trajectories", "trust", "grounding"])
def test_what_a_study_writes_is_what_was_declared(name: str, runs: Path) -> None:
    """Every value of real samples in a column of its type; a field that is not declared would be noticed."""
    folder = runs / name
    found = pq.read_table(folder / "samples.parquet")
    declared = fields(sample_kind(declared_by([name.partition("/")[0]]).values()).type)
    assert found.schema.names == [*COMMON_COLUMNS, *(column for column, _ in declared)]
    assert json.loads(found.schema.metadata[b"howsure.json_text"]) == {}
    samples = howsure.Run(folder).samples()
    assert found["id"].to_pylist() == [sample["id"] for sample in samples]
    for row, sample in zip(found.to_pylist(), samples, strict=True):
        flat = dict(flattened(sample, found.schema.names))
        assert {column: row[column] for column in flat} == flat
        assert len(flat) > 5


def flattened(value: Any, names: list[str], place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a sample by the names of their columns, maps as pairs; each has a column."""
    if place in names:
        if not (isinstance(value, list) and any(isinstance(one, dict) for one in value)):
            yield place, list(value.items()) if isinstance(value, dict) else value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from flattened(one, names, joined(place, key))
    else:
        assert value is None, f"{place} is in no column"


def test_all_studies_are_read_together(runs: Path) -> None:
    query = "SELECT study, count(*) AS n FROM read_parquet(?, union_by_name = true) GROUP BY ALL ORDER BY ALL"
    counted = {row["study"]: row["n"] for row in asked(query, f"{runs}/**/samples.parquet")}
    assert counted == {"grounding": 30, "mcq": 120, "perplexity": 6, "trajectories": 40, "trust": 6}
    turns = asked(
        """SELECT id AS sample, unnest("result.turns", recursive := true) FROM read_parquet(?)""",
        str(runs / "trajectories" / "samples.parquet"),
    )
    assert len(turns) == sum(len(one["result"]["turns"]) for one in howsure.Run(runs / "trajectories").samples())
    assert turns[0]["normalized_entropy"] > 0
    (one,) = howsure.export(runs, runs.parent / "all.parquet")
    assert (one.runs, one.rows) == (6, 202)
    assert one.texts == {"result.confidence": "values of several kinds"}, "a number in mcq, several in grounding"
    assert polars.read_parquet(one.path)["study"].n_unique() == 5


# -- where files go ---------------------------------------------------------------------------------------------------


def test_where_files_go(runs: Path, tmp_path: Path) -> None:
    before, after = runs / "mcq" / "before", runs / "mcq" / "after"
    assert [one.path for one in targets([before])] == [before / "samples.parquet"]
    assert [one.path for one in targets([runs / "mcq", before])] == [
        after / "samples.parquet",
        before / "samples.parquet",
    ]
    assert [one.path.name for one in targets([runs / "mcq"], tmp_path / "t")] == ["after.parquet", "before.parquet"]
    (both,) = targets([howsure.Run(before), after], tmp_path / "x" / "both.parquet")
    assert len(both.runs) == 2
    assert both.write(evidence=False).rows == 120
    twins = [tmp_path / first / "run" for first in ("one", "two")]
    for twin in twins:
        twin.mkdir(parents=True)
        (twin / "run.json").write_bytes((before / "run.json").read_bytes())
    assert [one.path.name for one in targets(twins, tmp_path / "t")] == ["one-run.parquet", "two-run.parquet"]


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("")
    (tmp_path / "dir.parquet").mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{")
    for place, out, said in [
        (tmp_path / "dir.parquet", None, "holds none"),
        (tmp_path / "gone", None, "not a folder"),
        (run, tmp_path / "file.csv", "does not end in .parquet"),
        (run, tmp_path / "dir.parquet", "is a folder: name a file"),
    ]:
        with pytest.raises(InputError, match=said):
            howsure.export(place, out)
    with pytest.raises(InputError, match="no run to export"):
        howsure.export([])


# -- which runs got worse ---------------------------------------------------------------------------------------------

QUESTIONS = 40


class Forgetful(OnPaper):
    """Fails where a question holds its own word for that."""

    fails_at = "nothing"

    def _score(self, item: ScoreItem) -> Any:
        return Failure("too_long", "on paper") if self.fails_at in str(item.prefix) else super()._score(item)


def ask_questions(out: Path, data: Path, seed: int, fails_at: str) -> None:
    draw = random.Random(seed)
    lines = [
        {"id": f"q{i}", "question": f"q {i}." + " hard" * (i == 3) + " odd" * (i == 7), "answer_index": 0}
        | {"choices": [f"yes {i}", f"no {i}"]}
        for i in range(QUESTIONS)
    ]
    lead = (1.5, 0.0, 0.8)[seed - 1]
    scores = {f" {choice}": -draw.uniform(0.1, 3) - lead * place for line in lines
              for place, choice in enumerate(line["choices"])}  # fmt: skip
    model = Forgetful(scores, name=f"checkpoint-{seed}")
    model.fails_at = fails_at
    howsure.mcq(write(data, *lines), model, out=out)


def ask_for_clicks(out: Path, seed: int) -> None:
    """Some clicks hit, some miss, one cannot be read, one call fails."""
    draw = random.Random(seed)
    boxes = [json.loads(line)["target"]["coords"] for line in Path(SCREENS).read_text().splitlines()]

    def answer(_: list[Message], number: int) -> str | None:
        left, top, right, bottom = boxes[number] or (0, 0, 0, 0)
        if number in (seed, 5):
            return None if number == seed else "hm"
        away = 0 if draw.random() < 1 / seed else 300
        return json.dumps([round((left + right) / 2 + away) % 1000, round((top + bottom) / 2 + away) % 1000])

    model = Writer(answer)
    model.name = f"hf:checkpoint-{seed}"
    howsure.grounding(SCREENS, model, out=out)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs` in it: three of mcq, two of grounding, two of perplexity, and one of other questions."""
    base = tmp_path_factory.mktemp("many")
    folder = base / "runs"
    for number, fails_at in enumerate(("hard", "odd", "nothing"), 1):
        ask_questions(folder / "mcq" / f"{number}", base / "q.jsonl", number, fails_at)
    ask_for_clicks(folder / "clicks-1", 1)
    ask_for_clicks(folder / "clicks-2", 2)
    texts = put(base / "t.jsonl", "a a", "a a b", "b b")
    for number, probability in enumerate((0.5, 0.25), 1):
        howsure.perplexity(texts, Reader({"a": 0.5, "b": probability}, name=f"{number}"), out=folder / f"read-{number}")
    write(base / "other.jsonl", {"question": "q 1.", "choices": ["yes 1", "no 1"], "answer_index": 0})
    howsure.mcq(base / "other.jsonl", OnPaper({" yes 1": -1.0, " no 1": -2.0}), out=folder / "other")
    howsure.export(folder, evidence=False)
    howsure.export(folder / "mcq" / "2", folder / "copy" / "samples.parquet")  # the same run again, which counts once
    return base


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def asked(query: str, *places: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        found = connection.execute(query, places)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def by_duckdb() -> list[dict[str, Any]]:
    return asked(blocks("sql")[0])


def by_polars() -> list[dict[str, Any]]:
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(compile(code, "docs/export.md", "exec"), names)
    renamed = {"run": "run_after", "model": "model_after", "coverage": "coverage_after"}
    rows: list[dict[str, Any]] = names["worse"].rename(renamed).to_dicts()
    return rows


@pytest.mark.parametrize("ask", [by_duckdb, by_polars])
def test_which_runs_got_worse(ask: Any, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own words, run as they stand, against `howsure compare`."""
    monkeypatch.chdir(many)
    rows = ask()
    pairs = {(row["study"], row["run_before"], row["run_after"]): row for row in rows}
    assert set(pairs) == {("mcq", "1", "2"), ("mcq", "2", "3"), ("grounding", "clicks-1", "clicks-2")}
    assert [row["change"] for row in rows] == sorted(row["change"] for row in rows)
    assert min(row["change"] for row in rows) < 0 < max(row["change"] for row in rows)
    for (study, before, after), row in pairs.items():
        folder = Path("runs") / ("mcq" if study == "mcq" else "")
        found = howsure.compare(folder / before, folder / after)
        difference, test = found["difference"], found["difference"]["mcnemar"]
        paired = difference["paired_accuracy"] if study == "mcq" else difference["figures"]["hit_rate"]
        a, b, change = ("mean_a", "mean_b", "mean_difference") if study == "mcq" else ("a", "b", "difference")
        assert row["items"] == paired["items"]
        assert (row["before"], row["after"]) == (pytest.approx(paired[a]), pytest.approx(paired[b]))
        assert row["change"] == pytest.approx(paired[change])
        assert (row["lost"], row["won"]) == (test["only_a_correct"], test["only_b_correct"])
        assert row["p_value"] == pytest.approx(test["p_value"], rel=1e-9)
        for side, name in (("a", "before"), ("b", "after")):
            coverage = found[side]["coverage"]
            assert row[f"coverage_{name}"] == pytest.approx(coverage["scored"] / coverage["items"])
            assert row[f"model_{name}"] == found[side]["model"]
        assert row["same_options"] is True
    assert pairs["mcq", "1", "2"]["items"] == QUESTIONS - 2, "each left one out, and they are not the same"


def test_which_readings_got_worse(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(many)
    (row,) = asked(blocks("sql")[1])
    found = howsure.compare("runs/read-1", "runs/read-2")
    assert (row["run_before"], row["run_after"], row["documents"]) == ("read-1", "read-2", 3)
    assert row["bits_per_byte_before"] == pytest.approx(found["a"]["bits_per_byte"])
    assert row["bits_per_byte_after"] == pytest.approx(found["b"]["bits_per_byte"])
    assert row["change"] == pytest.approx(found["difference"]["bits_per_byte"])
    assert row["change"] > 0
    assert row["documents_with_fewer_bits"] == found["difference"]["documents_b_needs_less"]


def test_the_file_tells_what_run_it_is_of(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(many)
    (query,) = re.findall(r"`(SELECT decode\(value\).*?)`", PAGE, re.S)
    (told,) = asked(query.replace("runs/first", "runs/clicks-1"))
    assert json.loads(*told.values()) == howsure.Run("runs/clicks-1").summary
