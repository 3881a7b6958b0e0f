"""Grounding as it is shown: a run in a terminal and on its page, the page of a click."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import htpy as h
import msgspec
import numpy as np
import pytest
from PIL import Image

from howsure.models.images import Picture, inspect_picture
from howsure.report import grounding
from howsure.report.document import Cards, Section
from howsure.report.grounding import ACROSS, bar_edges
from howsure.report.grounding_screen import screen, shown_size
from howsure.report.pictures import source_of
from howsure.report.run_data import Embedded, StoredRun
from howsure.report.run_report import report_of
from howsure.runs import Identity, Run, RunWriter, Sample
from howsure.runs.pictures import PictureKeeper, name_of
from howsure.studies.grounding.judge import judge
from report.rendered import about as about_page
from report.rendered import as_html, printed
from scripted import with_logprobs
from studies.grounding.clicks_on_paper import DELTA, about, answered, failed, run_of

HOSTILE = "\x1b[2Jclick [bold]here[/] [/] \u202e"
MARKUP = '</svg><script>alert(1)</script> "> <img src=x onerror=alert(1)> \u202e'
POLYGON = (400.0, 400.0, 600.0, 380.0, 620.0, 600.0, 420.0, 620.0)
BOX = (400.0, 450.0, 600.0, 550.0)


def picture(number: int) -> Picture:
    return Picture(f"/nowhere/{number}.png", 800, 400, f"{number:064d}")


def stored(
    folder: Path, samples: Sequence[Sample], *, finished: bool = True, images: Sequence[Any] = (), **options: Any
) -> StoredRun:
    identity = Identity("grounding", {"delta": DELTA} | options, {"name": "on paper"}, {"fingerprint": "0"}, 0)
    with RunWriter(folder, identity, len(samples)) as writer:
        writer.append(samples)
        with PictureKeeper(folder) as keeper:
            keeper.keep(images)
        if finished:
            writer.finish(judge(samples, delta=DELTA))
    return StoredRun(folder, Embedded(folder, 10_000_000))


def sections(run: StoredRun) -> dict[str, Section]:
    return {one.title: one for one in grounding.document(run.summary, run)}


def shown(run: StoredRun, title: str) -> str:
    return as_html([sections(run)[title]])


def cards(run: StoredRun) -> dict[str, list[tuple[str, str, bool | None]]]:
    (block,) = (block for block in sections(run)["Worth a look"].blocks if isinstance(block, Cards))
    return {side.title: [(one.title, one.verdict, one.right) for one in side.cards] for side in block.sides}


# -- in a terminal ----------------------------------------------------------------------------------------------------


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


def in_terminal(samples: list[Sample], run: Run, width: int = 120) -> str:
    result = SimpleNamespace(summary=judge(samples, delta=DELTA), samples=samples, run=run)
    return printed(result, width, cards=5)


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_fits_its_width_and_says_it_in_words(run: Run, width: int) -> None:
    text = in_terminal(samples_of(), run, width)
    lines = text.splitlines()
    folder = next(i for i, line in enumerate(lines) if line.startswith("run folder"))
    assert max(len(line) for line in lines[:folder] if "howsure grounding overlay" not in line) <= width
    for words in (
        "point in target", "accuracy within 140", "mean L2", "median L2", "in wrong format", "scored 11 of 12",
        "1 missing: 1 no answer", "user", "type", "Does it know?", "coordinate mean", "no numbers",
        "Without coordinate mean, agreement, spread: 1 no answer, 1 no coordinates.",
        "Agreement, set against clicks within δ", "ECE, 15 equal-mass bins", "a perfectly calibrated model",
        "Farthest off", "Confident but wrong", "Right but unsure", "note: ", "failed s5:",
        "user_1/out.json, user_1/results.txt, and so for 2 users", "howsure grounding overlay '",
    ):  # fmt: skip
        assert words in " ".join(text.split()), words


def test_the_figures_of_each_user_stand_in_a_line(run: Run) -> None:
    """User 1: points, s4 unread, clicks 0, 50, 150, 200, 250 off; user 2: boxes, s5 failed, 25, 75, 175, 225, 275."""
    lines = in_terminal(samples_of(), run).splitlines()
    first, second = (next(line for line in lines if line.startswith(f"{user}  ")) for user in (1, 2))
    assert first.split()[:5] == ["1", "6", "—", "33.3", "%"]
    assert first.split()[-3:] == ["130", "150", "1"]
    assert second.split()[:4] == ["2", "6", "0.0", "%"]
    assert second.split()[-3:] == ["155", "175", "0"]


def test_a_narrow_terminal_cuts_neither_whose_figures_they_are_nor_the_figures(run: Run) -> None:
    samples = samples_of()
    for sample in samples:
        sample.result.labels.platform = (["windows", "web"][sample.index % 2],)
    lines = in_terminal(samples, run, 80).splitlines()
    for name in ("1", "2", "windows", "web"):
        line = next(line for line in lines if line.startswith(f"{name} "))
        assert "…" not in line


def test_the_worst_and_the_surest_come_first(run: Run) -> None:
    lines = in_terminal(samples_of(), run).splitlines()
    far = lines.index("Farthest off")
    assert [line.split()[:2] for line in lines[far + 2 : far + 7]] == [
        ["s11", "275"], ["s10", "250"], ["s9", "225"], ["s8", "200"], ["s7", "175"]
    ]  # fmt: skip
    sure = lines.index("Confident but wrong")
    assert "coordinate mean" in lines[sure + 1]
    assert lines[sure + 2].split()[:4] == ["s11", "86.7", "%", "275"]


def test_nothing_from_outside_is_obeyed(run: Run) -> None:
    text = in_terminal(samples_of(), run)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]here[/]" in text, "markup is shown as it stands"
    lost = in_terminal([failed(f"{HOSTILE}\r{'long' * 1000}", 0, about(picture(0)))], run)
    assert not {"\x1b", "\u202e", "\r"} & set(lost)
    assert len(lost) < 2500


def test_no_samples_one_sample_and_only_failures(run: Run) -> None:
    nothing = in_terminal([], run)
    assert "scored 0 of 0" in nothing
    assert "nan" not in nothing.lower()
    assert "overlay" not in nothing
    one = in_terminal([answered("only", 0, about(picture(0)), (500.0, 510.0))], run)
    assert "100.0 %" in one
    assert "Farthest off" not in one, "a hit is no example of what went wrong"
    assert "out.json, results.txt\n" in one
    lost = in_terminal([failed("a", 0, about(picture(0))), failed("b", 1, about(picture(0)))], run)
    assert "scored 0 of 2" in lost
    assert "Does it know?" not in lost


def test_users_are_listed_in_order_and_not_without_end(run: Run) -> None:
    many = [answered(f"s{i}", i, about(picture(i), user=str(i)), (500.0, 500.0)) for i in range(40)]
    lines = in_terminal(many, run).splitlines()
    listed = [line.split()[0] for line in lines if line.split()[1:2] == ["1"]]
    assert listed == [str(i) for i in range(30)]
    assert any(line.startswith("and 10 more") for line in lines)


def test_numbers_that_no_screen_has_room_for_do_not_break_the_table(run: Run) -> None:
    text = in_terminal([answered("far", 0, about(picture(0)), (1e300, 0.0))], run, 80)
    assert "1e+300" in text
    assert "0" * 40 not in text


def test_the_printed_folder_of_a_hostile_user_is_the_real_one(run: Run, tmp_path: Path) -> None:
    from howsure.studies.grounding.exports import UserFiles

    sample = answered("s", 0, about(picture(0), user=f"../{HOSTILE}"), (500.0, 500.0))
    UserFiles(tmp_path, [sample])
    (folder,) = (path.name for path in tmp_path.iterdir())
    assert f"{folder}/out.json, {folder}/results.txt" in in_terminal([sample], run, 200)


def test_screens_without_a_copy_are_counted(tmp_path: Path) -> None:
    pictures = [Picture(f"/nowhere/{i}.png", 800, 400, f"{i}" * 64) for i in range(2)]
    samples = [answered(f"s{i}", i, about(pictures[i % 2]), (500.0, 500.0)) for i in range(3)]
    run = run_of(tmp_path / "run", samples)
    (run.path / "pictures").mkdir()
    (run.path / "pictures" / f"{'0' * 24}.jpg").touch()
    assert "Of the 2 pictures of this run, 1 have a copy" in in_terminal(samples, run)
    (run.path / "pictures" / f"{'1' * 24}.jpg").touch()
    assert "have a copy" not in in_terminal(samples, run)


# -- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_has_what_the_sample_says() -> None:
    item = about(target=BOX, user=["1", "2"]) | {"image_size": [1920, 1080]}
    row = grounding.row(answered("s", 0, item, (520.0, 500.0), confidence={"coordinate_mean": 0.9, "agreement": None}))
    assert row["user"] == "1, 2"
    assert (row["hit"], row["inside"], row["within_delta"], row["says"]) == (True, True, True, "point")
    assert row["l2"] == pytest.approx(20.0)
    assert (row["coordinate_mean"], row["agreement"], row["size"]) == (0.9, None, "1920 × 1080")
    assert {name for name in row if not name.startswith("_")} <= {column.name for column in grounding.COLUMNS}
    lost = grounding.row(failed("s", 0, about()))
    assert (lost["instruction"], lost["hit"], lost["l2"], lost["size"]) == ("open the menu", None, None, "800 × 400")


# -- the screen -------------------------------------------------------------------------------------------------------


def drawn(sample: Sample, run: StoredRun, *, large: bool = False) -> ElementTree.Element:
    """What is drawn, as a tree: it must be well formed, and so nothing from outside is markup."""
    return ElementTree.fromstring(str(h.div[screen(sample, run, DELTA, large=large)]))


def of_class(tree: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in tree.iter() if one.get("class") == kind]


def test_places_are_shares_of_the_screen_and_marks_are_in_pixels(tmp_path: Path) -> None:
    sample = answered("s", 0, about(target=(300.0, 600.0)), (700.0, 250.0))
    tree = drawn(sample, stored(tmp_path, [sample]))
    (reach,) = of_class(tree, "reach")
    assert [reach.get(name) for name in ("cx", "cy", "r")] == ["300", "600", "140"], "stretched over the screen"
    assert reach.get("vector-effect") == "non-scaling-stroke"
    holders = {
        inner.get("class"): (one.get("x"), one.get("y")) for one in tree.iter("svg") for inner in one if one.get("x")
    }
    assert holders["target"] == ("30.00%", "60.00%")
    assert holders["miss"] == ("70.00%", "25.00%")
    assert [one.text for one in tree.iter("text")] == ["532"]
    assert of_class(tree, "marks")[0].get("aria-label") == (
        "The click is 532 thousandths above and to the right of the place where it belongs, beyond δ = 140."
    )


def test_every_stroke_has_a_white_rim_below_it(tmp_path: Path) -> None:
    samples = every_kind()
    run = stored(tmp_path, samples)
    for sample in samples:
        kinds = ("rim", "target", "reach", "link", "hit", "miss")
        marks = [one for one in drawn(sample, run).iter() if one.get("class") in kinds]
        strokes = [one for one in marks if one.get("fill") is None]
        for below, above in zip(strokes[::2], strokes[1::2], strict=True):
            assert (below.get("class"), below.get("stroke")) == ("rim", "#ffffff")
            assert above.get("class") != "rim"
            assert {name: below.get(name) for name in ("d", "r")} == {name: above.get(name) for name in ("d", "r")}


def test_the_kept_picture_lies_below_the_marks(tmp_path: Path) -> None:
    Image.new("RGB", (800, 400), "navy").save(tmp_path / "a.png")
    kept = inspect_picture(tmp_path / "a.png")
    samples = [answered("s", 0, about(kept), (510.0, 500.0)), answered("t", 1, about(), (510.0, 500.0))]
    run = stored(tmp_path / "run", samples, images=[kept])
    (image,) = drawn(samples[0], run).iter("image")
    assert (image.get("href") or "").startswith("data:image/jpeg;base64,/9j/")
    assert "Of the 2 pictures of this run, 1 have a copy in its folder" in shown(run, "In the run folder")
    bare = drawn(samples[1], run)
    assert not list(bare.iter("image"))
    assert "There is no copy of its picture here; it was at /nowhere/screen.png." in "".join(bare.itertext())
    assert of_class(bare, "picture")[0].get("viewBox") == "0 0 540 270", "an empty frame of the screen's proportions"


def test_a_picture_that_there_is_no_room_for_is_not_said_to_be_missing(tmp_path: Path) -> None:
    Image.new("RGB", (80, 40), "navy").save(tmp_path / "a.png")
    kept = inspect_picture(tmp_path / "a.png")
    sample = answered("s", 0, about(kept), (500.0, 500.0))
    run = stored(tmp_path / "run", [sample], images=[kept])
    full = run.linked(Embedded(run.folder, 10))
    page = str(h.div[screen(sample, full, DELTA)])
    assert f"There is no room for more pictures in this file; the run folder has it as {name_of(kept.sha256)}" in page
    assert "There is no copy" not in page
    (run.folder / str(name_of(kept.sha256))).unlink()
    assert "There is no copy of its picture here" in str(h.div[screen(sample, full, DELTA)])


def test_only_digests_lead_to_pictures(tmp_path: Path) -> None:
    run = stored(tmp_path, [failed("s", 0, about())])
    for digest in (None, 3, "", "../../secret", "g" * 64, "a" * 63):
        assert source_of(SimpleNamespace(image_sha256=digest), run) is None
    assert name_of("a" * 64) == f"pictures/{'a' * 24}.jpg"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((800, 400), (540.0, 270.0, False)),
        ((400, 800), (180.0, 360.0, False)),
        ((100_000, 2), (540.0, 45.0, True)),
        ((2, 100_000), (30.0, 360.0, True)),
        ((0, 5), (540.0, 337.5, False)),
        ((-5, 10**9), (540.0, 337.5, False)),
    ],
)
def test_screens_of_every_shape_have_a_size(size: tuple[int, int], expected: tuple[float, float, bool]) -> None:
    assert shown_size(size, (540, 360)) == expected


# -- the page of a run ------------------------------------------------------------------------------------------------


def every_kind() -> list[Sample]:
    """Every kind of target with every kind of answer, and one that failed."""
    targets: list[Sequence[float] | None] = [(500.0, 500.0), BOX, POLYGON, None]
    samples: list[Sample] = []
    for target in targets:
        item = about(target=target, user=MARKUP, instruction=MARKUP)
        for name, click, says in (
            ("near", (510.0, 520.0), None),
            ("far", (900.0, 100.0), None),
            ("off", (-1e9, 1e12), None),
            ("refused", None, "refusal"),
            ("unreadable", None, None),
        ):
            told = {
                "pred_raw": MARKUP,
                "pred_content": MARKUP,
                "confidence": {"coordinate_mean": 0.5 if click else None},
            }
            samples.append(answered(f"{name} {len(samples)}", len(samples), item, click, says, **told))
        samples.append(failed(f"failed {len(samples)}", len(samples), item, MARKUP))
    return samples


def spread_out() -> list[Sample]:
    """Ten points, clicked 30 · i thousandths off: the first five are hits."""
    names = ["web", "desk"]
    return [
        answered(
            f"s{i}",
            i,
            about() | {"labels": {"platform": [names[i % 2]]}, "image_sha256": f"{i:064x}"},
            (500.0 + 30 * i, 500.0),
            confidence={"coordinate_mean": 0.9 - 0.05 * i, "agreement": 0.5},
        )
        for i in range(10)
    ]


def test_bars_count_hits_and_misses_and_none_straddles_delta(tmp_path: Path) -> None:
    run = stored(tmp_path, spread_out())
    page = shown(run, "How far off")
    rows = re.findall(r"<tr>((?:<td.*?</td>)+)</tr>", page)
    cells = [[float(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)] for row in rows]
    assert sum(row[2] for row in cells) == 5
    assert sum(row[3] for row in cells) == 5
    assert all(row[2] == 0 for row in cells if row[1] > 141)
    assert all(row[3] == 0 for row in cells if row[0] < 139)
    assert "δ = 140" in page
    assert "Every sample has a distance." in page


def test_who_has_no_distance_is_counted(tmp_path: Path) -> None:
    assert sections(stored(tmp_path, every_kind()))["How far off"].lead == (
        "9 of 24 samples have a distance; the others do not: 5 with nothing to click, 4 failed, 3 refused, 3 in a "
        "wrong format."
    )


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.3, 7.0, 14.0, 140.0, 141.3, 1414.9])
@pytest.mark.parametrize("farthest", [0.0, 20.0, 333.3, 5000.0])
def test_no_bar_lies_on_both_sides_of_delta(delta: float, farthest: float) -> None:
    edges = bar_edges(farthest, delta)
    assert delta in edges
    assert (np.diff(edges) > 0).all()
    assert 2 <= len(edges) <= 60, "a small δ does not make thousands of bars"
    assert edges[-1] >= min(farthest, ACROSS)


def test_a_click_that_is_off_by_delta_is_drawn_within_it(tmp_path: Path) -> None:
    clicks = [(500.0 + DELTA, 500.0), (500.0, 500.0 - DELTA), (500.0, 500.5 + DELTA)]
    samples = [answered(f"s{i}", i, about(), click) for i, click in enumerate(clicks)]
    run = stored(tmp_path / "run", samples)
    page = shown(run, "How far off")
    assert "<title>2 hit, 0 missed</title>" in page
    assert "<title>0 hit, 1 missed</title>" in page
    assert "the dashed line" in page
    far = grounding.document(msgspec.structs.replace(run.summary, delta=3000.0), run)
    assert "the dashed line" not in as_html(far), "there is none"


def test_the_sections_of_a_finished_run(tmp_path: Path) -> None:
    run = stored(tmp_path, spread_out())
    assert list(sections(run)) == [
        "Worth a look", "How far off", "The figures", "Where it is good", "Does it know?", "Farthest off",
        "In the run folder",
    ]  # fmt: skip
    assert "5 of 10" in shown(run, "The figures")
    good = shown(run, "Where it is good")
    assert "By platform" in good
    assert "<td>desk</td>" in good
    known = shown(run, "Does it know?")
    assert "Is it as sure as it is right?" in known
    assert "By agreement: share of the answers drawn again that do the same" in known
    far = shown(run, "Farthest off")
    assert far.index("missed, 270 off") < far.index("240")


def test_only_what_claims_to_be_a_probability_of_a_hit_is_calibrated(tmp_path: Path) -> None:
    run = stored(tmp_path, spread_out())
    pages = {}
    for kind, one in run.summary.knows.items():
        summary = msgspec.structs.replace(run.summary, knows={kind: one})
        pages[kind] = as_html([one for one in grounding.document(summary, None) if one.title == "Does it know?"])
    for words in ("ECE, 15 equal-mass bins", "a perfectly calibrated model with these confidences", "set against"):
        assert words in pages["agreement"]
        assert words not in pages["coordinate_mean"].replace("Confidence set against", "")
    for page in pages.values():
        assert "AUROC (hit vs miss)" in page
        assert "surest first" in page, "the risk–coverage curve"


def test_bad_samples_have_the_other_figure_beside_them() -> None:
    def figures(skipped: int) -> str:
        found = grounding.document(judge(spread_out(), delta=DELTA, skipped=skipped), None)
        return as_html([one for one in found if one.title == "The figures"])

    assert "5 of 12" in figures(2)
    assert "the same, without bad samples of the data" in figures(2)
    assert "5 of 10" in figures(2)
    assert "bad samples" not in figures(0)


def test_a_run_in_progress_shows_what_its_rows_allow(tmp_path: Path) -> None:
    run = stored(tmp_path, spread_out(), finished=False)
    assert run.summary is None
    assert list(sections(run)) == ["Worth a look", "How far off", "Farthest off", "In the run folder"]
    assert "δ = 140" in shown(run, "How far off")
    assert cards(run)["Confident but wrong"]


def test_the_surest_misses_and_the_least_sure_hits(tmp_path: Path) -> None:
    run = stored(tmp_path, spread_out())
    wrong, right = cards(run).values()
    assert wrong[:2] == [
        ("s5", "coordinate mean 65.0 %, missed, 150 off", False),
        ("s6", "coordinate mean 60.0 %, missed, 180 off", False),
    ]
    assert right[:2] == [
        ("s4", "coordinate mean 70.0 %, hit, 120 off", True),
        ("s3", "coordinate mean 75.0 %, hit, 90 off", True),
    ]
    assert "by coordinate mean" in shown(run, "Worth a look")


def test_the_first_kind_that_has_a_value_decides(tmp_path: Path) -> None:
    """A server without log-probabilities: the coordinates' confidences are missing, agreement is there."""
    samples = [
        answered(
            f"s{i}", i, about(), (500.0 + 150 * i, 500.0), confidence={"coordinate_mean": None, "agreement": i / 4}
        )
        for i in range(4)
    ]
    wrong, _ = cards(stored(tmp_path, samples)).values()
    assert wrong[0][1] == "agreement 75.0 %, missed, 450 off"


def test_a_score_that_is_no_probability_is_no_percentage(tmp_path: Path) -> None:
    run = stored(tmp_path, [answered("s0", 0, about(), (900.0, 500.0), confidence={"match": 0.463})])
    assert cards(run)["Confident but wrong"][0][1] == "match 0.463, missed, 400 off"
    page = about_page(run)
    assert "0.463" in page
    assert "46.3 %" not in page


def test_without_confidence_distance_chooses_and_that_is_said(tmp_path: Path) -> None:
    samples = [answered(f"s{i}", i, about(), (500.0 + 60 * i, 500.0), confidence={}) for i in range(6)]
    run = stored(tmp_path, samples)
    found = cards(run)
    assert list(found) == ["Farthest off", "Barely hit"]
    assert [one[0] for one in found["Farthest off"]] == ["s5", "s4", "s3"]
    assert [one[0] for one in found["Barely hit"]] == ["s2", "s1", "s0"]
    assert sections(run)["Worth a look"].lead.startswith("The model gave no confidence")
    assert "Farthest off" not in sections(run), "not shown twice"


@pytest.mark.parametrize("chosen", [slice(0, 0), slice(0, 1), slice(1, 3), slice(3, 6), slice(18, 24), slice(0, 24)])
@pytest.mark.parametrize("finished", [True, False])
def test_reports_of_odd_runs_can_be_made_and_hold_no_markup_of_others(
    tmp_path: Path, chosen: slice, finished: bool
) -> None:
    page = report_of([stored(tmp_path, every_kind()[chosen], finished=finished).folder])
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "style=" not in page.partition("</style>")[2]
    assert "cannot be shown" not in page


def test_a_report_holds_a_screen_once_however_many_samples_are_on_it(tmp_path: Path) -> None:
    Image.effect_noise((800, 400), 90).save(tmp_path / "a.png")
    kept = inspect_picture(tmp_path / "a.png")
    samples = [answered(f"s{i}", i, about(kept), (500.0 + 40 * i, 500.0)) for i in range(10)]
    stored(tmp_path / "run", samples, images=[kept])
    page = report_of([tmp_path / "run"])
    (name,) = re.findall(r'<image[^>]* id="(screen-[^"]*)"', page)
    assert page.count("data:image/jpeg") == 1
    assert page.count(f'href="#{name}"') == page.count('class="card"') - 1 >= 9
    assert page.index(f'id="{name}"') < page.index(f'href="#{name}"')


# -- the page of a click ----------------------------------------------------------------------------------------------


def test_every_kind_of_sample_has_a_page_without_markup_of_others(tmp_path: Path) -> None:
    samples = every_kind()
    run = stored(tmp_path, samples)
    for place, sample in enumerate(samples):
        page = about_page(run, place)
        assert "<script>" not in page
        assert "<img" not in page
        assert "style=" not in page
        assert f"&#34;id&#34;: &#34;{sample.id}&#34;" in page, "the line as it was written"


def test_the_answer_is_shown_token_by_token(tmp_path: Path) -> None:
    text = "click (812, 500)"
    sample = answered(
        "s", 0, about(), (812.0, 500.0), pred_raw=text, confidence={"coordinate_mean": 0.8, "spread": None},
        confidence_missing={"spread": "no_samples"},
        samples={"asked": 2, "points": [[1.0, 2.0]], "wrong_format": 0, "refusals": 0, "failed": 1},
    )  # fmt: skip
    sample.evidence["answer"] = with_logprobs(text).to_dict()
    sample.evidence["samples"] = [{"text": "<b>(1, 2)</b>", "failure": None}, {"text": None, "failure": "gave up"}]
    run = stored(tmp_path, [sample], frame="percent", frame_because="asked for", prompt="Find {instruction}!")
    found = {one.title: one for one in grounding.about(run.sample(0), run)}
    assert list(found) == [
        "What was to be clicked", "How it was asked", "The answer", "How sure it was", "Asked again", "Raw record",
    ]  # fmt: skip
    answer = as_html([found["The answer"]])
    assert answer.count('class="tok u0"') == len(with_logprobs(text).tokens) + 1, "and one in the legend"
    assert "«zebra» 10.0 %" in answer
    assert "hundredths of the image&#39;s width and height (percent, asked for)" in answer
    assert "Find open the menu!" in as_html([found["How it was asked"]])
    sureness = as_html([found["How sure it was"]])
    assert "80.0 %" in sureness
    assert "missing: no samples" in sureness
    again = as_html([found["Asked again"]])
    assert "1 clicks of 2 more answers, 1 failed." in again
    assert "&lt;b&gt;(1, 2)&lt;/b&gt;" in again
    assert "failed: gave up" in again


def test_a_model_that_only_clicks_has_no_prompt_and_writes_nothing(tmp_path: Path) -> None:
    sample = answered("s", 0, about(), (510.0, 500.0), pred_raw=None, form="exact", confidence={"match": 0.5})
    page = about_page(stored(tmp_path, [sample]))
    assert "The model clicks by itself: there is no prompt around it." in page
    assert "The model clicks and writes nothing." in page
    assert "<dd>exact</dd>" in page


def test_a_place_far_away_is_two_numbers(tmp_path: Path) -> None:
    assert "(-500, 2500)" in about_page(stored(tmp_path, [answered("s", 0, about(), (-500.0, 2500.0))]))
