"""Pages of clicks: marks where they belong, words that say the same, and every kind of answer and target."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import htpy as h
import msgspec
import numpy as np
import pytest
from PIL import Image

from howsure.models.images import inspect_picture
from howsure.report.pages import grounding as pages
from howsure.report.pages import grounding_plots, grounding_screen
from howsure.report.views import Picks
from howsure.report.pages.grounding_screen import shown_size
from howsure.report.pages.grounding_words import came_of_it, direction, in_words, marks
from howsure.report.run_data import Embedded, Material
from howsure.report.pictures import left_out, source_of
from howsure.report.run_report import report_of
from howsure.runs import Identity, RunWriter, Sample
from howsure.runs.pictures import PictureKeeper, name_of
from howsure.studies.grounding.judge import GroundingSummary, judge
from scripted import with_logprobs
from studies.grounding import clicks_on_paper
from studies.grounding.clicks_on_paper import DELTA, about, as_written, record

HOSTILE = '</svg><script>alert(1)</script> "> <img src=x onerror=alert(1)> \u202e'
POLYGON = [400.0, 400.0, 600.0, 380.0, 620.0, 600.0, 420.0, 620.0]
BOX = [400.0, 450.0, 600.0, 550.0]


def answered(*given: Any, **more: Any) -> Sample:
    return as_written(clicks_on_paper.answered(*given, **more))


def failed(*given: Any) -> Sample:
    return as_written(clicks_on_paper.failed(*given))


def judged(samples: Sequence[Sample], skipped: int = 0) -> GroundingSummary:
    read = [msgspec.structs.replace(sample, result=record(sample.result)) for sample in samples]
    return judge(read, delta=DELTA, skipped=skipped)


def material_of(
    folder: Path, samples: Sequence[Sample], *, finished: bool = True, images: Sequence[Any] = (), **options: Any
) -> Material:
    identity = Identity("grounding", {"delta": DELTA} | options, {"name": "on paper"}, {"fingerprint": "0"}, 0)
    with RunWriter(folder, identity, len(samples)) as writer:
        writer.append(samples)
        with PictureKeeper(folder) as keeper:
            keeper.keep(images)
        if finished:
            writer.finish(judged(samples))
    return Material(folder, Embedded(folder, 10_000_000))


def drawn(sample: Sample, material: Material, *, large: bool = False) -> ElementTree.Element:
    """What is drawn, as a tree: it must be well formed, and so nothing from outside is markup."""
    return ElementTree.fromstring(str(h.div[grounding_screen.screen(sample, material, large=large)]))


def of_class(tree: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in tree.iter() if one.get("class") == kind]


def holder(tree: ElementTree.Element, kind: str) -> ElementTree.Element:
    """The little drawing that a mark of this class stands in, which says where it is."""
    return next(one for one in tree.iter("svg") if any(inner.get("class") == kind for inner in one))


def text_of(node: Any) -> str:
    return str(h.div[node])


def every_kind() -> list[Sample]:
    """Every kind of target with every kind of answer, and one that failed."""
    targets: list[Sequence[float] | None] = [(500.0, 500.0), BOX, POLYGON, None]
    samples: list[Sample] = []
    for target in targets:
        item = about(target=target, user=HOSTILE, instruction=HOSTILE)
        for name, click, says in (
            ("near", (510.0, 520.0), None),
            ("far", (900.0, 100.0), None),
            ("off", (-1e9, 1e12), None),
            ("refused", None, "refusal"),
            ("unreadable", None, None),
        ):
            told = {
                "pred_raw": HOSTILE,
                "pred_content": HOSTILE,
                "confidence": {"coordinate_mean": 0.5 if click else None},
            }
            samples.append(answered(f"{name} {len(samples)}", len(samples), item, click, says, **told))
        samples.append(failed(f"failed {len(samples)}", len(samples), item, HOSTILE))
    return samples


# -- columns ----------------------------------------------------------------------------------------------------------


def test_a_row_has_what_the_sample_says() -> None:
    item = about(target=BOX, user=["1", "2"]) | {"image_size": [1920, 1080]}
    sample = answered("s", 0, item, (520.0, 500.0), confidence={"coordinate_mean": 0.9, "agreement": None})
    row = pages.row(sample)
    assert row["user"] == "1, 2"
    assert (row["hit"], row["inside"], row["within_delta"], row["says"]) == (True, True, True, "point")
    assert row["l2"] == pytest.approx(20.0)
    assert (row["coordinate_mean"], row["agreement"], row["size"]) == (0.9, None, "1920 × 1080")
    assert {name for name in row if not name.startswith("_")} <= {column.name for column in pages.COLUMNS}


def test_names_in_a_sample_cannot_take_the_place_of_columns() -> None:
    item = about() | {"labels": {"hit": ["yes"], "platform": ["web"]}}
    row = pages.row(answered("s", 0, item, (900.0, 500.0), confidence={"says": "<b>", "match": 0.25}))
    assert (row["hit"], row["says"], row["platform"], row["match"]) == (False, "point", "web", 0.25)


def test_a_failed_sample_has_a_row_of_what_is_known() -> None:
    row = pages.row(failed("s", 0, about()))
    assert (row["instruction"], row["hit"], row["l2"], row["size"]) == ("open the menu", None, None, "800 × 400")


# -- the screen -------------------------------------------------------------------------------------------------------


def test_marks_lie_where_they_belong(tmp_path: Path) -> None:
    sample = answered(
        "s", 0, about(target=BOX), (700.0, 250.0), samples=drawn_clicks([[690.0, 240.0], [2000.0, 500.0]])
    )
    tree = drawn(sample, material_of(tmp_path, [sample]))
    (box,) = of_class(tree, "target")
    assert [box.get(name) for name in ("x", "y", "width", "height")] == ["40.00%", "45.00%", "20.00%", "10.00%"]
    ring = holder(tree, "click")
    assert (ring.get("x"), ring.get("y")) == ("70.00%", "25.00%")
    (link,) = of_class(tree, "link")
    ends = [link.get(name) for name in ("x1", "y1", "x2", "y2")]
    assert ends == ["54.00%", "45.00%", "70.00%", "25.00%"], "from the border of the box on the way to the click"
    assert [one.text for one in tree.iter("text")] == ["320"]
    places = [(one.get("x"), one.get("y")) for one in tree.iter("svg") if any(i.get("class") == "drawn" for i in one)]
    assert places == [("69.00%", "24.00%"), ("100.00%", "50.00%")]


def drawn_clicks(points: list[list[float]]) -> dict[str, Any]:
    return {"asked": len(points) + 1, "points": points, "wrong_format": 1, "refusals": 0, "failed": 0}


def test_a_point_has_a_cross_and_its_reach(tmp_path: Path) -> None:
    sample = answered("s", 0, about(target=(300.0, 600.0)), (310.0, 600.0))
    tree = drawn(sample, material_of(tmp_path, [sample]))
    (reach,) = of_class(tree, "reach")
    assert [reach.get(name) for name in ("cx", "cy", "rx", "ry")] == ["30.00%", "60.00%", "14.00%", "14.00%"]
    assert (holder(tree, "target").get("x"), holder(tree, "target").get("y")) == ("30.00%", "60.00%")
    assert not list(tree.iter("text")), "a hit's distance would cover it"


def test_a_polygon_is_drawn_through_its_corners(tmp_path: Path) -> None:
    sample = answered("s", 0, about(target=POLYGON), None)
    tree = drawn(sample, material_of(tmp_path, [sample]))
    (outline,) = of_class(tree, "target")
    assert outline.get("points") == "400.0,400.0 600.0,380.0 620.0,600.0 420.0,620.0"
    assert not of_class(tree, "click")


def test_every_mark_has_a_white_rim_below_it(tmp_path: Path) -> None:
    samples = every_kind()
    material = material_of(tmp_path, samples)
    for sample in samples:
        kinds = [one.get("class") or "" for one in drawn(sample, material).iter()]
        for place, kind in enumerate(kinds):
            if kind in ("target", "reach", "link", "click"):
                assert kinds[place - 1] == f"rim {kind}"


@pytest.mark.parametrize(
    ("click", "held", "turned"),
    [
        ((1500.0, 500.0), ("100.00%", "50.00%"), "rotate(0.0)"),
        ((500.0, -300.0), ("50.00%", "0.00%"), "rotate(-90.0)"),
        ((-200.0, 1100.0), ("0.00%", "100.00%"), "rotate(166.0)"),
    ],
)
def test_a_click_off_the_screen_is_at_its_edge_with_an_arrow(
    tmp_path: Path, click: tuple[float, float], held: tuple[str, str], turned: str
) -> None:
    """The screen is twice as wide as high, so that 200 across are four times 100 down."""
    sample = answered("s", 0, about(), click)
    tree = drawn(sample, material_of(tmp_path, [sample]))
    ring = holder(tree, "click")
    assert (ring.get("x"), ring.get("y")) == held
    (arrow,) = of_class(tree, "click arrow")
    assert arrow.get("transform") == turned
    assert "outside of the screen" in (of_class(tree, "marks")[0].get("aria-label") or "")


def test_the_kept_picture_lies_below_the_marks(tmp_path: Path) -> None:
    Image.new("RGB", (800, 400), "navy").save(tmp_path / "a.png")
    picture = inspect_picture(tmp_path / "a.png")
    samples = [answered("s", 0, about(picture), (510.0, 500.0)), answered("t", 1, about(), (510.0, 500.0))]
    material = material_of(tmp_path / "run", samples, images=[picture])
    (image,) = drawn(samples[0], material).iter("image")
    assert (image.get("href") or "").startswith("data:image/jpeg;base64,/9j/")
    assert left_out(material, "_digest").startswith("Of the 2 pictures of this run, 1 have a copy in its folder")
    bare = drawn(samples[1], material)
    assert not list(bare.iter("image"))
    assert "There is no copy of its picture here; it was at /nowhere/screen.png." in "".join(bare.itertext())
    assert of_class(bare, "picture")[0].get("viewBox") == "0 0 540 270", "an empty frame of the screen's proportions"


def test_only_digests_lead_to_pictures(tmp_path: Path) -> None:
    material = material_of(tmp_path, [failed("s", 0, about())])
    for digest in (None, 3, "", "../../secret", "g" * 64, "a" * 63):
        assert source_of({"image_sha256": digest}, material) is None
    assert name_of("a" * 64) == f"pictures/{'a' * 24}.jpg"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ([800, 400], (540.0, 270.0, False)),
        ([400, 800], (180.0, 360.0, False)),
        ([100_000, 2], (540.0, 45.0, True)),
        ([2, 100_000], (30.0, 360.0, True)),
        ([0, 5], (540.0, 337.5, False)),
        (["<b>", 5], (540.0, 337.5, False)),
        (None, (540.0, 337.5, False)),
    ],
)
def test_screens_of_every_shape_have_a_size(size: Any, expected: tuple[float, float, bool]) -> None:
    assert shown_size(size, (540, 360)) == expected


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dx", "dy", "words"),
    [
        (0, 56, "below"),
        (0, -1, "above"),
        (9, 1, "to the right of"),
        (-5, 5, "below and to the left of"),
        (5, -5, "above and to the right of"),
        (0, 0, "from"),
        (1.7e308, 1.7e308, "from"),
    ],
)
def test_directions(dx: float, dy: float, words: str) -> None:
    assert direction(dx, dy) == words


@pytest.mark.parametrize(
    ("target", "click", "says", "sentence", "verdict"),
    [
        ((500, 500), (500, 556), None, "The click is 56 thousandths below the place where it belongs, within δ = 140.",
         "hit, 56 off"),
        ((500, 500), (812, 500), None, "The click is 312 thousandths to the right of the place where it belongs, "
         "beyond δ = 140.", "missed, 312 off"),
        (BOX, (500, 500), None, "The click is inside the target, 0.0 thousandths from its middle.", "hit, 0.0 off"),
        (BOX, (500, 440), None, "The click is outside of the target, 60 thousandths above its middle.",
         "missed, 60 off"),
        (None, None, "refusal", "Nothing on this screen is to be clicked. The model says that there is nothing to "
         "click, which is right.", "refused rightly"),
        (None, (5, 5), None, "Nothing on this screen is to be clicked. The model clicks.",
         "clicked where there is nothing to click"),
        (BOX, None, "refusal", "The model says that there is nothing to click.", "refused wrongly"),
        (BOX, None, None, "No place can be read in the answer (no numbers).", "in wrong format"),
    ],
)  # fmt: skip
def test_what_is_seen_is_said(target: Any, click: Any, says: str | None, sentence: str, verdict: str) -> None:
    sample = answered("s", 0, about(target=target), click, says)
    assert in_words(sample, DELTA) == sentence
    assert came_of_it(sample) == verdict


def test_a_failed_call_is_said() -> None:
    sample = failed("s", 0, about())
    assert in_words(sample, DELTA) == "There is no answer."
    assert came_of_it(sample) == "no answer"


# -- the page of a run ------------------------------------------------------------------------------------------------


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
    section = pages.sections(material_of(tmp_path, spread_out()))[0]
    shown = text_of(section.body)
    rows = re.findall(r"<tr>((?:<td.*?</td>)+)</tr>", shown)
    cells = [[float(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)] for row in rows]
    assert sum(row[2] for row in cells) == 5
    assert sum(row[3] for row in cells) == 5
    assert all(row[2] == 0 for row in cells if row[1] > 140.01)
    assert all(row[3] == 0 for row in cells if row[0] < 139.99)
    assert "δ = 140" in shown
    assert section.lead == "Every sample has a distance."


def test_who_has_no_distance_is_counted(tmp_path: Path) -> None:
    lead = pages.sections(material_of(tmp_path, every_kind()))[0].lead
    assert lead == (
        "9 of 24 samples have a distance; the others do not: 5 with nothing to click, 4 failed, 3 refused, 3 in a "
        "wrong format."
    )


def test_the_sections_of_a_finished_run(tmp_path: Path) -> None:
    found = {section.title: section for section in pages.sections(material_of(tmp_path, spread_out()))}
    assert list(found) == ["How far off", "The figures", "Where it is good", "Does it know?", "Farthest off"]
    assert "5 of 10" in text_of(found["The figures"].body)
    assert "By platform" in text_of(found["Where it is good"].body)
    known = text_of(found["Does it know?"].body)
    assert "Is it as sure as it is right?" in known
    assert "By agreement: share of the answers drawn anew that do the same" in known
    assert text_of(found["Farthest off"].body).index("missed, 270 off") < text_of(found["Farthest off"].body).index(
        "240"
    )


def test_only_what_claims_to_be_a_probability_of_a_hit_is_calibrated(tmp_path: Path) -> None:
    coordinates, agreement = (
        text_of(grounding_plots.does_it_know({"knows": {kind: found}})[0].body)
        for kind, found in judged(spread_out()).knows.items()
    )
    for words in ("ECE, 15 equal-mass bins", "a perfectly calibrated model with these confidences", "Right is here"):
        assert words in agreement
        assert words not in coordinates
    for page in (coordinates, agreement):
        assert "AUROC (hit vs miss)" in page
        assert "surest first" in page, "the risk–coverage curve"


def test_bad_samples_have_the_other_figure_beside_them() -> None:
    table = text_of(grounding_plots.figures(judged(spread_out(), 2)).body)
    assert "5 of 12" in table
    assert "the same, without bad samples of the data" in table
    assert "5 of 10" in table
    assert "bad samples" not in text_of(grounding_plots.figures(judged(spread_out())).body)


def test_a_run_in_progress_shows_what_its_rows_allow(tmp_path: Path) -> None:
    material = material_of(tmp_path, spread_out(), finished=False)
    assert material.summary is None
    assert [section.title for section in pages.sections(material)] == ["How far off", "Farthest off"]
    assert made_picks(material, 2).surely_wrong


def made_picks(material: Material, most: int) -> Picks:
    found = pages.picks(material, most)
    assert found is not None
    return found


def test_the_surest_misses_and_the_least_sure_hits(tmp_path: Path) -> None:
    found = made_picks(material_of(tmp_path, spread_out()), 2)
    assert [(one.key, one.verdict, one.right) for one in found.surely_wrong] == [
        ("s5", "coordinate mean 65.0 %, missed, 150 off", False),
        ("s6", "coordinate mean 60.0 %, missed, 180 off", False),
    ]
    assert [(one.key, one.verdict, one.right) for one in found.doubtfully_right] == [
        ("s4", "coordinate mean 70.0 %, hit, 120 off", True),
        ("s3", "coordinate mean 75.0 %, hit, 90 off", True),
    ]
    assert "coordinate mean" in found.surely_words


def test_the_first_kind_that_has_a_value_decides(tmp_path: Path) -> None:
    """A server without log-probabilities: the coordinates' confidences are missing, agreement is there."""
    samples = [
        answered(
            f"s{i}", i, about(), (500.0 + 150 * i, 500.0), confidence={"coordinate_mean": None, "agreement": i / 4}
        )
        for i in range(4)
    ]
    found = made_picks(material_of(tmp_path, samples), 1)
    assert found.surely_wrong[0].verdict == "agreement 75.0 %, missed, 450 off"
    assert "agreement" in found.surely_words


def test_a_score_that_is_no_probability_is_no_percentage(tmp_path: Path) -> None:
    samples = [answered("s0", 0, about(), (900.0, 500.0), confidence={"match": 0.463})]
    material = material_of(tmp_path, samples)
    assert made_picks(material, 1).surely_wrong[0].verdict == "match 0.463, missed, 400 off"
    page = "".join(text_of(one.body) for one in pages.about(material.sample(0), material))
    assert "0.463" in page
    assert "46.3 %" not in page


def test_without_confidence_distance_chooses_and_that_is_said(tmp_path: Path) -> None:
    samples = [answered(f"s{i}", i, about(), (500.0 + 60 * i, 500.0), confidence={}) for i in range(6)]
    material = material_of(tmp_path, samples)
    found = made_picks(material, 2)
    assert found.titles == ("Farthest off", "Barely hit")
    assert [one.key for one in found.surely_wrong] == ["s5", "s4"]
    assert [one.key for one in found.doubtfully_right] == ["s2", "s1"]
    assert found.lead.startswith("The model gave no confidence")
    assert "Farthest off" not in [section.title for section in pages.sections(material)], "not shown twice"


@pytest.mark.parametrize("chosen", [slice(0, 0), slice(0, 1), slice(1, 3), slice(3, 6), slice(18, 24), slice(0, 24)])
@pytest.mark.parametrize("finished", [True, False])
def test_reports_of_odd_runs_can_be_made_and_hold_no_markup_of_others(
    tmp_path: Path, chosen: slice, finished: bool
) -> None:
    samples = every_kind()[chosen]
    page = report_of([material_of(tmp_path, samples, finished=finished).folder])
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "style=" not in page.partition("</style>")[2]
    assert "cannot be made" not in page


# -- the page of a sample ---------------------------------------------------------------------------------------------


def test_every_kind_of_sample_has_a_page_without_markup_of_others(tmp_path: Path) -> None:
    samples = every_kind()
    material = material_of(tmp_path, samples)
    for place, sample in enumerate(samples):
        page = "".join(
            f"{one.title} {one.lead} {text_of(one.body)}" for one in pages.about(material.sample(place), material)
        )
        assert "<script>" not in page
        assert "<img" not in page
        assert "style=" not in page
        assert f"&#34;id&#34;: &#34;{sample.id}&#34;" in page, "the line as it was written"


def test_the_answer_is_shown_token_by_token(tmp_path: Path) -> None:
    text = "click (812, 500)"
    sample = answered(
        "s", 0, about(), (812.0, 500.0), pred_raw=text, confidence={"coordinate_mean": 0.8, "spread": None}
    )
    sample.result["confidence_missing"] = {"spread": "no_samples"}
    sample.evidence["answer"] = with_logprobs(text).to_dict()
    sample.evidence["samples"] = [{"text": "<b>(1, 2)</b>", "failure": None}, {"text": None, "failure": "gave up"}]
    sample.result["samples"] = drawn_clicks([[1.0, 2.0]]) | {"wrong_format": 0, "failed": 1}
    material = material_of(tmp_path, [sample], frame="percent", frame_because="asked for", prompt="Find {instruction}!")
    found = {one.title: one for one in pages.about(material.sample(0), material)}
    assert list(found) == [
        "What was to be clicked", "How it was asked", "The answer", "How sure it was", "Asked again",
        "Raw record",
    ]  # fmt: skip
    answer = text_of(found["The answer"].body)
    assert answer.count('class="tok u0"') == len(with_logprobs(text).tokens) + 1, "and one in the legend"
    assert "«zebra» 10.0 %" in answer
    assert "hundredths of the image&#39;s width and height (percent, asked for)" in answer
    assert "Find open the menu!" in text_of(found["How it was asked"].body)
    sureness = text_of(found["How sure it was"].body)
    assert "80.0 %" in sureness
    assert "missing: no samples" in sureness
    assert found["Asked again"].lead == "2 more answers were drawn: 1 clicks, 1 failed."
    assert "&lt;b&gt;(1, 2)&lt;/b&gt;" in text_of(found["Asked again"].body)
    assert "failed: gave up" in text_of(found["Asked again"].body)


def test_a_model_that_only_clicks_has_no_prompt_and_writes_nothing(tmp_path: Path) -> None:
    sample = answered("s", 0, about(), (510.0, 500.0), pred_raw=None, form="exact", confidence={"match": 0.5})
    material = material_of(tmp_path, [sample])
    found = {one.title: one for one in pages.about(material.sample(0), material)}
    assert found["How it was asked"].lead == "The model clicks by itself: there is no prompt around it."
    assert found["The answer"].lead == "The model clicks and writes nothing."
    assert "exact" in text_of(found["The answer"].body)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.3, 7.0, 14.0, 140.0, 141.3, 1414.9])
@pytest.mark.parametrize("farthest", [0.0, 20.0, 333.3, 5000.0])
def test_no_bar_lies_on_both_sides_of_delta(delta: float, farthest: float) -> None:
    edges = grounding_plots._edges(farthest, delta)
    assert delta in edges
    assert (np.diff(edges) > 0).all()
    assert 2 <= len(edges) <= 60, "a small δ does not make thousands of bars"
    assert edges[-1] >= min(farthest, grounding_plots.ACROSS)
    offs = np.array([0.0, delta, min(np.nextafter(delta, 2000.0), edges[-1]), 1e9])
    counts = grounding_plots._counts(offs, edges)
    assert counts.sum() == 4
    within = int(np.flatnonzero(edges == delta)[0])
    assert counts[:within].sum() == (2 if delta and delta < edges[-1] else 4 if delta else 0)


def test_a_click_that_is_off_by_delta_is_drawn_within_it(tmp_path: Path) -> None:
    clicks = [(500.0 + DELTA, 500.0), (500.0, 500.0 - DELTA), (500.0, 500.5 + DELTA)]
    made = material_of(tmp_path / "run", [answered(f"s{i}", i, about(), click) for i, click in enumerate(clicks)])
    page = re.sub(r"<[^>]+>", " ", text_of(grounding_plots.how_far(made).body))
    assert re.search(rf"to {DELTA:g}: 2 hits, 0 missed", page)
    assert "the dashed line" in page
    made.run.manifest.identity.options["delta"] = 3000.0
    assert "the dashed line" not in text_of(grounding_plots.how_far(made).body), "there is none"


def test_a_picture_that_there_is_no_room_for_is_not_said_to_be_missing(tmp_path: Path) -> None:
    Image.new("RGB", (80, 40), "navy").save(tmp_path / "a.png")
    picture = inspect_picture(tmp_path / "a.png")
    sample = answered("s", 0, about(picture), (500.0, 500.0))
    made = material_of(tmp_path / "run", [sample], images=[picture])
    full = made.linked(Embedded(made.folder, 10))
    page = text_of(grounding_screen.screen(sample, full))
    assert (
        f"There is no room for more pictures in this file; the run folder has it as {name_of(picture.sha256)}" in page
    )
    assert "There is no copy" not in page
    (made.folder / str(name_of(picture.sha256))).unlink()
    assert "There is no copy of its picture here" in text_of(grounding_screen.screen(sample, full))


def test_only_the_marks_that_are_drawn_are_explained() -> None:
    for click, number in (((510.0, 500.0), False), ((900.0, 2500.0), True)):
        sample = answered("s", 0, about(), click)
        assert ("the number: how far off" in marks(sample, DELTA)) == number, "a hit has none beside it"


def test_a_place_far_away_is_two_numbers(tmp_path: Path) -> None:
    sample = answered("s", 0, about(), (-500.0, 2500.0))
    made = material_of(tmp_path / "run", [sample])
    assert "(-500, 2500)" in text_of([one.body for one in pages.about(sample, made)])


def test_a_report_holds_a_screen_once_however_many_samples_are_on_it(tmp_path: Path) -> None:
    Image.effect_noise((800, 400), 90).save(tmp_path / "a.png")
    picture = inspect_picture(tmp_path / "a.png")
    samples = [answered(f"s{i}", i, about(picture), (500.0 + 40 * i, 500.0)) for i in range(10)]
    material_of(tmp_path / "run", samples, images=[picture])
    page = report_of([tmp_path / "run"])
    (name,) = re.findall(r'<image[^>]* id="(screen-[^"]*)"', page)
    assert page.count("data:image/jpeg") == 1
    assert page.count(f'href="#{name}"') == page.count('class="card"') - 1 >= 9
    assert page.index(f'id="{name}"') < page.index(f'href="#{name}"')
