"""A grounding run as it is printed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from howsure.models.images import Picture
from howsure.report.grounding import print_grounding
from howsure.runs import Run, Sample
from howsure.studies.grounding.judge import judge
from studies.grounding.clicks_on_paper import DELTA, about, answered, failed, run_of

HOSTILE = "\x1b[2Jclick [bold]here[/] [/] \u202e"


def picture(number: int) -> Picture:
    return Picture(f"/nowhere/{number}.png", 800, 400, f"{number:064d}")


def samples_of() -> list[Sample]:
    """Twelve items of two users, boxes and points; hits and misses, one answer in wrong format, one failure."""
    made = []
    for i in range(12):
        target = (480.0, 480.0, 520.0, 520.0) if i % 2 else (500.0, 500.0)
        item = about(picture(i), target, user=str(1 + i % 2), instruction=f"{i} {HOSTILE} {'and so on ' * 30}")
        item["labels"] |= {"type": [f"{HOSTILE} a kind of thing with a name that is far too long {i % 3}"]}
        if i == 4:
            unknown = dict.fromkeys(("coordinate_mean", "agreement", "spread"), "no_coordinates")
            more = {"confidence": dict.fromkeys(unknown), "confidence_missing": unknown}
            made.append(answered(f"s{i}", i, item, None, **more))
        elif i == 5:
            made.append(failed(f"s{i}", i, item, f"the server said {HOSTILE}"))
        else:
            sure = {"coordinate_mean": 0.5 + i / 30, "agreement": 1.0 - i / 40, "spread": 100.0 - i}
            made.append(answered(f"s{i}", i, item, (500.0 + 25.0 * i, 500.0), confidence=sure))
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("report") / "a run", samples_of())


def printed(samples: list[Sample], run: Run, width: int = 120, **changed: Any) -> str:
    stream = io.StringIO()
    summary = msgspec.structs.replace(judge(samples, delta=DELTA), **changed)
    print_grounding(Console(file=stream, width=width), summary, samples, run)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_fits_its_width_and_says_it_in_words(run: Run, width: int) -> None:
    shown = printed(samples_of(), run, width)
    lines = shown.splitlines()
    folder = next(i for i, line in enumerate(lines) if line.startswith("run folder"))
    assert max(map(len, lines[:folder])) <= width
    for words in (
        "point in target", "accuracy within 140", "mean L2", "median L2", "in wrong format", "scored 11 of 12",
        "1 missing: 1 no answer", "user", "type", "does it know?", "coordinate mean", "no numbers",
        "without coordinate mean and agreement and spread: 1 no answer, 1 no coordinates",
        "agreement, against clicks within δ", "ECE, 15 equal-mass bins", "a perfectly calibrated model",
        "farthest off", "surest misses", "note: ",
        "failed s5:", "in it, for 2 users: user_1/out.json and results.txt", "howsure grounding overlay '",
    ):  # fmt: skip
        assert words in " ".join(shown.split()), words


def test_a_narrow_terminal_cuts_neither_whose_figures_they_are_nor_the_figures(run: Run) -> None:
    samples = samples_of()
    for sample in samples:
        sample.result.labels.platform = (["windows", "web"][sample.index % 2],)
    lines = printed(samples, run, 60).splitlines()
    for name in ("1", "2", "windows", "web"):
        assert any(line.startswith(f"{name} ") for line in lines), name
    tables = lines[: next(i for i, line in enumerate(lines) if line.startswith("in wrong format because"))]
    assert max(map(len, tables)) <= 60
    assert not [line for line in tables if "…" in line[9:]]


def test_the_figures_of_each_user_stand_in_a_line(run: Run) -> None:
    """User 1: points, s4 unread, clicks 0, 50, 150, 200, 250 off; user 2: boxes, s5 failed, 25, 75, 175, 225, 275."""
    lines = printed(samples_of(), run).splitlines()
    first, second = (next(line for line in lines if line.startswith(f"{user}  ")) for user in (1, 2))
    assert first.split()[:5] == ["1", "6", "—", "33.3", "%"]
    assert first.split()[-3:] == ["130.0", "150.0", "1"]
    assert second.split()[:4] == ["2", "6", "0.0", "%"]
    assert second.split()[-3:] == ["155.0", "175.0", "0"]


def test_the_worst_and_the_surest_come_first(run: Run) -> None:
    lines = printed(samples_of(), run).splitlines()
    far = next(i for i, line in enumerate(lines) if line.startswith("farthest off"))
    assert [line.split()[:2] for line in lines[far + 1 : far + 6]] == [
        ["s11", "275.0"], ["s10", "250.0"], ["s9", "225.0"], ["s8", "200.0"], ["s7", "175.0"]
    ]  # fmt: skip
    sure = next(i for i, line in enumerate(lines) if line.startswith("surest misses"))
    assert "coordinate mean" in lines[sure]
    assert lines[sure + 1].split()[:3] == ["s11", "0.867", "275.0"]


def test_nothing_from_outside_is_obeyed(run: Run) -> None:
    shown = printed(samples_of(), run)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]here[/]" in shown, "markup is shown as it stands"


def test_nor_is_the_id_of_a_sample_that_failed(run: Run) -> None:
    shown = printed([failed(f"{HOSTILE}\r{'long' * 1000}", 0, about(picture(0)))], run)
    assert not {"\x1b", "\u202e", "\r"} & set(shown)
    assert len(shown) < 2500


def test_no_samples_at_all(run: Run) -> None:
    shown = printed([], run)
    assert "scored 0 of 0" in shown
    assert "nan" not in shown.lower()
    assert "overlay" not in shown


def test_one_sample_and_only_failures(run: Run) -> None:
    one = printed([answered("only", 0, about(picture(0)), (500.0, 510.0))], run)
    assert "100.0 %" in one
    assert "farthest off" not in one, "a hit is no example of what went wrong"
    assert "in it: out.json and results.txt" in one
    lost = printed([failed("a", 0, about(picture(0))), failed("b", 1, about(picture(0)))], run)
    assert "scored 0 of 2" in lost
    assert "does it know?" not in lost


def test_users_are_listed_in_order_and_not_without_end(run: Run) -> None:
    many = [answered(f"s{i}", i, about(picture(i), user=str(i)), (500.0, 500.0)) for i in range(40)]
    lines = printed(many, run).splitlines()
    shown = [line.split()[0] for line in lines if line.split()[1:2] == ["1"]]
    assert shown == [str(i) for i in range(30)]
    assert any(line.startswith("and 10 more") for line in lines)


def test_numbers_that_no_screen_has_room_for_do_not_break_the_table(run: Run) -> None:
    shown = printed([answered("far", 0, about(picture(0)), (1e300, 0.0))], run, 80)
    assert "1e+300" in shown
    assert "0" * 40 not in shown


def test_the_printed_folder_of_a_hostile_user_is_the_real_one(run: Run, tmp_path: Path) -> None:
    from howsure.studies.grounding.exports import UserFiles

    sample = answered("s", 0, about(picture(0), user=f"../{HOSTILE}"), (500.0, 500.0))
    UserFiles(tmp_path, [sample])
    (folder,) = (path.name for path in tmp_path.iterdir())
    assert f"in it: {folder}/out.json" in printed([sample], run, 200)


def test_screens_without_a_copy_are_counted(tmp_path: Path) -> None:
    pictures = [Picture(f"/nowhere/{i}.png", 800, 400, f"{i}" * 64) for i in range(2)]
    samples = [answered(f"s{i}", i, about(pictures[i % 2]), (500.0, 500.0)) for i in range(3)]
    run = run_of(tmp_path / "run", samples)
    (run.path / "pictures").mkdir()
    (run.path / "pictures" / f"{'0' * 24}.jpg").touch()
    assert "pictures/ holds copies of 1 of 2 screens" in printed(samples, run)
    (run.path / "pictures" / f"{'1' * 24}.jpg").touch()
    assert "holds copies" not in printed(samples, run)
