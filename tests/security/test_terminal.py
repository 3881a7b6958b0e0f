"""What is printed: no name, text or fault of somebody else steers the terminal that it appears on."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

import howsure
from howsure.cli import common
from howsure.report.progress import progress_for
from howsure.report.terminal import output, plain_table, remarks, where_it_lies
from howsure.report.text import printable, printable_json
from howsure.report.viewer import library
from howsure.runs import Run, Sample
from report.viewer.asking import Browser, write_run

SOURCES = Path(howsure.__file__).parent
STEERING = {
    *map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
}
NAME = "a\x1b]0;owned\x07\x1b[31m\u009b2J\u202e[red]:smile:b"
"""Sets the title, colours, clears the screen (by a single C1 character), turns text around; then markup of Rich."""
NASTY = f"{NAME}[/]"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "howsure", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """The name of a run folder that holds everything that a name of a file may."""
    name = f"{NAME}\nhowsure: forged"
    (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / name / "run.json").write_text("{bad")
    return name


def test_every_character_that_steers_is_shown_instead() -> None:
    assert not STEERING & set(printable("".join(sorted(STEERING))))
    assert printable("a\tb\nc é 猫 👩‍🚀 עברית") == "a\tb\nc é 猫 👩‍🚀 עברית"
    assert printable("a\tb\nc\u2028d", one_line=True) == "a␉b⏎c\\u2028d"


def test_json_is_the_same_and_steers_nothing() -> None:
    text = json.dumps({"name": "".join(sorted(STEERING))}, ensure_ascii=False, indent=2)
    assert STEERING & set(text)
    assert not STEERING & set(printable_json(text))
    assert json.loads(printable_json(text)) == json.loads(text)


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)])
def test_the_name_of_a_folder(tmp_path: Path, damaged: str, options: tuple[str, ...]) -> None:
    done = run("runs", *options, "runs", folder=tmp_path)
    assert done.returncode == 1
    assert not STEERING & set(done.stdout + done.stderr)
    assert "forged" in done.stdout
    assert not any(line.startswith("howsure: forged") for line in done.stdout.splitlines())
    if "--json" in options:
        assert json.loads(done.stdout)[0]["path"] == f"runs/{damaged}"


def test_where_a_run_lies_is_a_line_each(tmp_path: Path) -> None:
    run_folder = write_run(tmp_path / "finished" / f"{NAME}\nforged")
    for line in where_it_lies(Run(run_folder)):
        assert not STEERING & set(line)
        assert "\n" not in line


def test_a_traceback(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.jsonl").write_text("{}")
    done = run("mcq", f"{NAME}.jsonl", "--model", "smollm2", "--debug", folder=tmp_path)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert not STEERING & set(done.stdout + done.stderr)


def test_a_line_break_in_a_name_forges_no_line_of_a_traceback(tmp_path: Path) -> None:
    done = run("runs", "a\nforged: all is well", "--debug", folder=tmp_path)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert not any(line.startswith("forged") for line in done.stderr.splitlines())


def run_instead(code: str) -> subprocess.CompletedProcess[str]:
    """The command with another body."""
    before = f"import logging, warnings\nfrom howsure.cli import app\nNASTY = {NASTY!r}"
    program = f"{before}\n{code}\napp.app = body\napp.main()"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_fault_of_ours() -> None:
    done = run_instead("def body():\n    raise KeyError('broken') from ValueError(NASTY)")
    assert done.returncode == 1
    assert "ValueError: a␛]0;owned" in done.stderr
    assert not STEERING & set(done.stdout + done.stderr)


def test_what_packages_warn_of_and_log() -> None:
    done = run_instead("def body():\n    warnings.warn(NASTY)\n    logging.getLogger('x').warning(NASTY)")
    assert done.returncode == 0
    assert done.stderr.count("owned") == 2
    assert not STEERING & set(done.stderr)


@pytest.mark.parametrize("terminal", ["", "1"])
def test_tables_and_lines_on_a_console(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)  # Rich takes any text in it for a terminal
    for console, text in ((output(), NASTY), (remarks(), Text(NASTY))):
        table = plain_table("name")
        table.add_row(NASTY)
        console.print(table)
        console.print(text)
    told = capsys.readouterr()
    for shown in (told.out, told.err):
        assert "]0;owned" in shown
        assert "\x1b]" not in shown
        assert "\x1b[31m" not in shown
        assert "\u009b" not in shown
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)  # Rich's own colours
        assert plain.count("[red]:smile:b[/]") == 2


@pytest.mark.parametrize("terminal", ["", "1"])
def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)
    shown = progress_for(remarks(), quiet=False)
    shown.start(f"[/]{NASTY}", 1, [])
    shown.advance([Sample(id="a", index=0, reason="failed")])
    shown.stop()
    err = capsys.readouterr().err
    assert "[/]a" in err
    assert "\x1b]" not in err
    assert "\u009b" not in err


def test_remarks_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    common.say(f"{NASTY}\nhowsure: forged")
    common.print_line(f"{NASTY}\nforged")
    common.print_json({"name": NASTY})
    told = capsys.readouterr()
    assert not STEERING & set(told.out + told.err)
    assert len(told.err.splitlines()) == 1


def test_a_fault_of_the_viewer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> None:
        raise ValueError(f"{NASTY}\nforged")

    monkeypatch.setattr(library.Listing, "look", broken)
    assert Browser(tmp_path).get("/").status == 500
    (record,) = [record for record in caplog.records if record.name == "howsure.viewer"]
    assert "owned" in record.getMessage()
    assert not STEERING & set(record.getMessage())
    assert "\n" not in record.getMessage()


def test_everything_is_printed_in_one_place() -> None:
    for path in SOURCES.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                where = f"{path.relative_to(SOURCES)}, line {call.lineno}"
                assert call.func.id != "print" or path.name in ("common.py", "app.py"), where
                assert call.func.id != "Console", f"{where}: howsure.report.terminal makes them"
