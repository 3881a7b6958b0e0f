"""Two grounding runs: the difference by hand, its doubt over screens, the flips, what is refused and what is noted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import howsure
from howsure.cli.app import app
from howsure.errors import InputError, RunDamaged
from howsure.measures import median_interval, paired_means, paired_shares
from howsure.models.images import Picture
from howsure.runs import Identity, RunWriter, Sample
from howsure.studies.comparing import Comparison
from howsure.studies.grounding.comparison import Cells
from howsure.studies.grounding.judge import judge
from howsure.studies.grounding.record import Labels
from report.rendered import printed
from studies.grounding.clicks_on_paper import DELTA, about, answered, failed, record

BOX = (400.0, 400.0, 600.0, 600.0)
SCREENS = [0, 0, 1, 1, 2, 3, 4, 5]


def on_screen(number: int) -> Picture:
    return Picture("/nowhere/screen.png", 800, 400, f"{number:064d}")


def item(index: int) -> dict[str, Any]:
    """Points, two boxes and a refusal; users 1 and 2, and one sample without a user."""
    target = {2: BOX, 3: BOX, 5: ()}.get(index, (500.0, 500.0))
    user = {0: "1", 1: "1", 5: "1", 6: "1", 7: None}.get(index, "2")
    return about(on_screen(SCREENS[index]), target, user=user, instruction=f"click {index}")


def sure(index: int, click: Sequence[float] | None, confidence: float | None, says: str | None = None) -> Sample:
    return answered(f"s{index}", index, item(index), click, says, confidence={"coordinate_mean": confidence})


BEFORE = [
    sure(0, (500, 500), 0.9),  # 0 away: hit
    sure(1, (700, 500), 0.3),  # 200 away: miss
    sure(2, (550, 500), 0.8),  # 50 away, in the box: hit
    sure(3, None, None),  # wrong format
    failed("s4", 4, item(4)),
    sure(5, (100, 100), 0.95),  # nothing is to be clicked: miss
    sure(6, (500, 530), 0.5),  # 30 away: hit
    sure(7, (500, 700), 0.1),  # 200 away: miss
]
AFTER = [
    sure(0, (800, 500), 0.6),  # 300 away: miss
    sure(1, (600, 500), 0.7),  # 100 away: hit
    sure(2, (620, 500), 0.65),  # 120 away, within δ, outside of the box: miss
    sure(3, (500, 500), 0.9),  # 0 away: hit
    sure(4, (500, 540), 0.8),  # 40 away: hit
    sure(5, None, None, "refusal"),  # rightly: hit
    sure(6, (500, 510), 0.5),  # 10 away: hit
    sure(7, None, None),  # wrong format
]


def finished(
    folder: Path,
    samples: Sequence[Sample],
    model: str = "on paper",
    /,
    fingerprint: str = "0",
    fields: dict[str, Any] | None = None,
    skipped: int = 0,
    **options: Any,
) -> Path:
    asked = {"delta": DELTA, "parser": "strict", "frame": "relative-1000", "prompt": "default", "samples": 0} | options
    asked = {name: value for name, value in asked.items() if value != "leave out"}
    identity = Identity(
        "grounding", asked, {"name": model} | (fields or {}), {"fingerprint": fingerprint, "skipped": skipped}, 0
    )
    with RunWriter(folder, identity, len(samples)) as writer:
        writer.append(samples)
        writer.finish(judge(samples, delta=DELTA, skipped=skipped))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return finished(folder / "before", BEFORE, "vanilla"), finished(folder / "after", AFTER, "tuned")


@pytest.fixture
def copies(runs: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The same runs, to be damaged."""
    before, after = (Path(shutil.copytree(run, tmp_path / run.name)) for run in runs)
    return before, after


def many(count: int, per_screen: int, turned: Callable[[int], bool] = lambda i: False) -> list[Sample]:
    """Samples at 100, so many on each screen; those that turned at 200, beyond δ."""
    found = []
    for i in range(count):
        known = about(on_screen(i // per_screen))
        found.append(answered(f"m{i}", i, known, (500 + (200 if turned(i) else 100), 500)))
    return found


# -- the difference -------------------------------------------------------------------------------------------------


def test_shares_by_hand_over_the_same_samples_in_both(runs: tuple[Path, Path]) -> None:
    found = howsure.compare(*runs)
    a, b, difference = found["a"], found["b"], found["difference"]
    assert (found["study"], found["delta"], a["model"], b["model"]) == ("grounding", 140.0, "vanilla", "tuned")
    assert (a["accuracy"], b["accuracy"]) == (3 / 7, 5 / 7), (
        "failed and unreadable are misses, of all that have a place"
    )
    assert difference["accuracy"] == pytest.approx(2 / 7)
    assert difference["point_in_target"] == 0.0
    assert difference["hit_rate"] == pytest.approx(2 / 8)
    assert (difference["refused_rightly"], difference["refused_wrongly"]) == (1.0, 0.0)
    items = {
        name: (one["a"], one["b"], one["items"])
        for name in difference["figures"]
        if (one := difference["figures"][name])
    }
    assert items["accuracy"] == (3 / 7, 5 / 7, 7)
    assert items["point_in_target"] == (1 / 2, 1 / 2, 2)
    assert items["hit_rate"] == (3 / 8, 5 / 8, 8)
    assert (a["wrong_format_count"], b["wrong_format_count"], a["failed_count"], b["failed_count"]) == (1, 1, 1, 0)
    assert msgspec.to_builtins(difference["wrong_format"]) == {
        "both": 0,
        "only_a": 1,
        "only_b": 1,
        "neither": 6,
        "of": 8,
    }
    assert (a["coverage"]["text"], b["coverage"]["text"]) == ("scored 7 of 8; 1 missing: 1 no answer", "scored 8 of 8")


def test_distances_by_hand_where_both_have_one(runs: tuple[Path, Path]) -> None:
    """0 to 300, 200 to 100, 50 to 120, 30 to 10: changes of 300, -100, 70 and -20."""
    difference = howsure.compare(*runs)["difference"]
    figure = difference["figures"]["mean_l2"]
    assert (figure["a"], figure["b"], figure["items"], figure["images"]) == (70.0, 132.5, 4, 3)
    assert difference["mean_l2"] == figure["difference"] == pytest.approx(62.5)
    assert difference["median_change_l2"] == pytest.approx(25.0), "not the difference of the medians, 70"
    assert difference["distances"] == Cells(both=4, only_a=1, only_b=2, neither=0, of=7)


def test_intervals_are_over_screens(runs: tuple[Path, Path], tmp_path: Path) -> None:
    figures = howsure.compare(*runs)["difference"]["figures"]
    hits = [[1, 0, 1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 1, 1, 1, 0]]
    paired = paired_shares(*hits, clusters=SCREENS)
    assert paired is not None
    assert paired.interval is not None
    found = figures["hit_rate"]
    assert (found["low"], found["high"]) == (paired.interval.low, paired.interval.high)
    assert (found["level"], found["approximate"], found["note"]) == (0.95, True, None)
    assert figures["median_change_l2"]["low"] is None
    assert figures["median_change_l2"]["note"] == "no interval: 3 screens, and it takes at least 5"
    sides, known = [], [about(on_screen(i // 3)) for i in range(36)]
    rng = np.random.default_rng(2)
    distances = rng.uniform(0.0, 300.0, (2, 36))
    for name, off in zip("ab", distances, strict=True):
        rows = [answered(f"s{i}", i, one, (500 + float(off[i]), 500)) for i, one in enumerate(known)]
        sides.append(finished(tmp_path / name, rows, name))
    figures = howsure.compare(*sides)["difference"]["figures"]
    mean, median = (
        paired_means(*distances, clusters=np.arange(36) // 3),
        median_interval(distances[1] - distances[0], clusters=np.arange(36) // 3),
    )
    assert mean is not None
    assert mean.interval is not None
    assert median is not None
    assert figures["mean_l2"]["low"] == pytest.approx(mean.interval.low)
    assert figures["median_change_l2"]["high"] == pytest.approx(median.high)
    assert "over 12 clusters" in figures["mean_l2"]["method"]


def test_copies_of_a_screen_are_not_as_many_screens(tmp_path: Path) -> None:
    """Every fourth screen turns with all its 25 samples: the interval is five times as wide as if all were apart."""
    widths = []
    for name, per_screen in (("together", 25), ("apart", 1)):
        a = finished(tmp_path / f"{name} a", many(1000, per_screen))
        b = finished(tmp_path / f"{name} b", many(1000, per_screen, lambda i: i // 25 % 4 == 0))
        figure = howsure.compare(a, b)["difference"]["figures"]["hit_rate"]
        assert figure["difference"] == -0.25
        assert figure["images"] == 1000 // per_screen
        widths.append(figure["high"] - figure["low"])
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(25), rel=0.15)


def test_mcnemar_by_hand(runs: tuple[Path, Path]) -> None:
    test = howsure.compare(*runs)["difference"]["mcnemar"]
    assert (test["both_correct"], test["only_a_correct"], test["only_b_correct"], test["both_wrong"]) == (1, 2, 4, 1)
    assert test["p_value"] == pytest.approx(2 * (1 + 6 + 15) / 64), "of six coins at most two heads, both tails"


def test_whether_each_knows(runs: tuple[Path, Path], tmp_path: Path) -> None:
    knows = howsure.compare(*runs)["difference"]["knows"]
    assert list(knows) == ["coordinate_mean"]
    found = knows["coordinate_mean"]
    assert (found["a"]["value"], found["b"]["value"]) == (pytest.approx(6 / 9), pytest.approx(6 / 8))
    assert (found["a"].answers, found["b"].answers) == (6, 6)
    summaries = [howsure.Run(run).summary for run in runs]
    told = [one["knows"]["coordinate_mean"]["auroc"] for one in summaries if one is not None]
    assert [one | {"answers": 6} for one in told] == msgspec.to_builtins([found["a"], found["b"]]), "value and interval"


def test_a_spread_is_surer_the_less_it_is(tmp_path: Path) -> None:
    def spread(hit: float, miss: float) -> list[Sample]:
        places = [((500, 500), hit), ((900, 900), miss)]
        return [
            answered(f"s{i}", i, about(on_screen(i)), click, confidence={"spread": value})
            for i, (click, value) in enumerate(places)
        ]

    a, b = finished(tmp_path / "a", spread(9.0, 1.0)), finished(tmp_path / "b", spread(1.0, 9.0))
    found = howsure.compare(a, b)["difference"]["knows"]["spread"]
    assert (found["a"]["value"], found["b"]["value"]) == (0.0, 1.0)


def test_users_by_hand(runs: tuple[Path, Path]) -> None:
    splits = howsure.compare(*runs)["difference"]["splits"]
    assert list(splits) == ["user"]
    first, second, nobody = splits["user"]
    assert [(row["value"], row["count"]) for row in splits["user"]] == [("1", 4), ("2", 3), (None, 1)]
    assert (first["hit_rate"], first["mean_l2"], first["distances"]["both"]) == (1 / 4, pytest.approx(60.0), 3)
    assert (second["hit_rate"], second["mean_l2"]) == (pytest.approx(1 / 3), 70.0)
    assert (second["accuracy"], second["point_in_target"]) == (pytest.approx(2 / 3), 0.0)
    assert (nobody["hit_rate"], nobody["mean_l2"], nobody["point_in_target"]) == (0.0, None, None)
    assert (nobody["wrong_format"]["only_b"], first["wrong_format"]["only_b"]) == (1, 0)


def test_a_sample_with_several_labels_is_in_each(tmp_path: Path) -> None:
    sides = []
    for name, click in (("a", (500, 500)), ("b", (900, 900))):
        known = [about(on_screen(0), user=["2", "10"]), about(on_screen(1), user="10")]
        rows = [answered(f"s{i}", i, one, click if i == 0 else (500, 500)) for i, one in enumerate(known)]
        sides.append(finished(tmp_path / name, rows))
    rows = howsure.compare(*sides)["difference"]["splits"]["user"]
    assert [(row["value"], row["count"], row["hit_rate"]) for row in rows] == [("2", 1, -1.0), ("10", 2, -0.5)]


# -- flips ----------------------------------------------------------------------------------------------------------


def test_flips_are_sorted_by_how_far_the_distance_moved(runs: tuple[Path, Path]) -> None:
    flips = howsure.compare(*runs)["difference"]["flips"]
    assert [(one["id"], one["moved_l2"]) for one in flips["hit_to_miss"]] == [("s0", 300.0), ("s2", 70.0)]
    moved = [(one["id"], one["moved_l2"], one["says_a"], one["says_b"]) for one in flips["miss_to_hit"]]
    assert moved == [
        ("s1", -100.0, "point", "point"),
        ("s3", None, "wrong_format", "point"),
        ("s4", None, "failed", "point"),
        ("s5", None, "point", "refusal"),
    ], "those without a distance in both come last, in the order of the data"
    first = flips["hit_to_miss"][0]
    assert (first["instruction"], first["l2_a"], first["l2_b"]) == ("click 0", 0.0, 300.0)
    assert (first["pred_coord_a"], first["pred_coord_b"]) == ((500, 500), (800, 500))
    assert first["labels"] == Labels(user=("1",))
    assert flips["miss_to_hit"][1]["l2_a"] is None


# -- what makes no difference, and what is missing ------------------------------------------------------------------


def test_the_order_of_the_samples_makes_no_difference(runs: tuple[Path, Path], tmp_path: Path) -> None:
    written = finished(tmp_path / "written backwards", AFTER[::-1], "tuned")
    moved = [msgspec.structs.replace(sample, index=7 - sample.index) for sample in AFTER]
    numbered = finished(tmp_path / "numbered backwards", moved, "tuned")
    expected = howsure.compare(*runs)["difference"]
    assert howsure.compare(runs[0], written)["difference"] == expected
    assert howsure.compare(runs[0], numbered)["difference"] == expected


def test_turned_round_every_difference_has_the_other_sign(runs: tuple[Path, Path]) -> None:
    there, back = howsure.compare(*runs)["difference"], howsure.compare(*runs[::-1])["difference"]
    for name in there["figures"]:
        figure = there["figures"][name]
        assert back[name] == -there[name] or there[name] == back[name] == 0.0
        if figure["low"] is not None:
            assert back["figures"][name]["low"] == pytest.approx(-figure["high"], rel=1e-6)
    ids = [[[one["id"] for one in side["flips"][kind]] for kind in ("hit_to_miss", "miss_to_hit")] for side in
           (there, back)]  # fmt: skip
    assert ids[0] == ids[1][::-1]
    assert back["mcnemar"]["p_value"] == there["mcnemar"]["p_value"]


def test_a_run_against_itself_differs_by_nothing_which_is_no_certainty(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """A share has an interval with width all the same; of distances that all changed alike nothing is known."""
    found = howsure.compare(runs[1], runs[1])
    difference = found["difference"]
    assert found["notes"][0] == "both are the same run"
    assert difference["hit_rate"] == difference["mean_l2"] == difference["median_change_l2"] == 0.0
    for name in ("accuracy", "hit_rate"):
        figure = difference["figures"][name]
        assert figure["low"] < -0.1 < 0.1 < figure["high"]
    apart = finished(tmp_path / "apart", many(12, 1))
    alike = howsure.compare(apart, apart)["difference"]["figures"]["mean_l2"]
    assert (alike["low"], alike["high"], alike["note"]) == (None, None, "no interval: all changed alike")
    assert msgspec.to_builtins(difference["flips"]) == {"hit_to_miss": [], "miss_to_hit": []}
    assert difference["mcnemar"]["p_value"] == 1.0


def test_what_is_missing_becomes_no_number(tmp_path: Path) -> None:
    known = [about(on_screen(i)) for i in range(3)]
    none = [answered(f"s{i}", i, one, None) for i, one in enumerate(known)]
    hits = [answered(f"s{i}", i, one, (500, 500)) for i, one in enumerate(known)]
    found = howsure.compare(finished(tmp_path / "a", none), finished(tmp_path / "b", hits))
    difference = found["difference"]
    assert difference["accuracy"] == 1.0
    assert difference["point_in_target"] is difference["refused_rightly"] is None
    assert difference["mean_l2"] is difference["median_change_l2"] is None
    assert found["a"]["mean_l2"] is None
    empty = difference["figures"]["mean_l2"]
    assert (empty["a"], empty["b"], empty["low"], empty["items"], empty["images"]) == (None, None, None, 0, 0)
    assert difference["distances"] == Cells(both=0, only_a=0, only_b=3, neither=0, of=3)
    knows = difference["knows"]["coordinate_mean"]
    assert (knows["a"]["value"], knows["b"]["value"]) == (None, None)
    assert [one["moved_l2"] for one in difference["flips"]["miss_to_hit"]] == [None, None, None]
    lines = [line.split() for line in printed(found).splitlines()]
    assert ["mean", "L2", "—", "—", "—"] in lines
    assert "No sample has a distance in both runs." in printed(found)


def test_one_screen_has_no_interval(tmp_path: Path) -> None:
    a, b = finished(tmp_path / "a", many(4, 4)), finished(tmp_path / "b", many(4, 4, lambda i: i == 0))
    found = howsure.compare(a, b)
    assert found["difference"]["hit_rate"] == -0.25
    assert found["difference"]["figures"]["hit_rate"]["low"] is None
    assert found["notes"][-1] == "no interval: 1 screen, and it takes at least 5"


def test_bad_samples_are_misses_in_both_by_the_rule_of_a_run(tmp_path: Path) -> None:
    """Ten samples, two that could not be read: 10 of 12 and 7 of 12, and the difference is over the same 12."""
    a = finished(tmp_path / "a", many(10, 1), "a", skipped=2)
    b = finished(tmp_path / "b", many(10, 1, lambda i: i < 3), "b", skipped=2)
    found = howsure.compare(a, b)
    figure = found["difference"]["figures"]["accuracy"]
    assert (found["a"]["accuracy"], found["b"]["accuracy"]) == (10 / 12, 7 / 12)
    summary = howsure.Run(a).summary
    assert summary is not None
    assert found["a"]["accuracy"] == summary["accuracy"] == summary["headline"][0]["value"]
    assert (figure["a"], figure["b"], figure["items"]) == (10 / 12, 7 / 12, 12)
    assert found["difference"]["accuracy"] == pytest.approx(-3 / 12)
    paired = paired_shares([1] * 10 + [0] * 2, [0] * 3 + [1] * 7 + [0] * 2)
    assert paired is not None
    assert paired.interval is not None
    assert (figure["low"], figure["high"]) == (paired.interval.low, paired.interval.high)
    assert found["difference"]["figures"]["mean_l2"]["items"] == 10
    assert found["notes"] == ["2 bad samples of the data count as misses in both"]
    mended = howsure.compare(a, finished(tmp_path / "mended", many(10, 1), "b"))["notes"]
    assert mended == [
        "2 samples of the data were bad in A, and 0 in B: the shares compared count 2 misses in both for them"
    ]


# -- refused --------------------------------------------------------------------------------------------------------


def changed(**fields: Any) -> list[Sample]:
    first = msgspec.structs.replace(AFTER[0], result=record(msgspec.to_builtins(AFTER[0].result) | fields))
    return [first, *AFTER[1:]]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (AFTER[:6], "2 samples are in the first alone and 0 in the second alone; compare runs of the same data"),
        ([*AFTER[:7], msgspec.structs.replace(AFTER[7], id="new")], "1 samples are in the first alone and 1 in the"),
        (changed(target={"kind": "point", "coords": [1.0, 2.0]}), "target of 's0' differs;"),
        (changed(instruction="another"), "instruction of 's0' differs;"),
        (changed(image_sha256="f" * 64), "image_sha256 of 's0' differs;"),
        (changed(labels={"user": ["3"]}), "labels of 's0' differs;"),
        (changed(gt_content="another"), "gt_content of 's0' differs;"),
    ],
    ids=["fewer", "other id", "target", "instruction", "image", "labels", "content"],
)
def test_other_data_is_refused(runs: tuple[Path, Path], tmp_path: Path, samples: list[Sample], words: str) -> None:
    other = finished(tmp_path / "other", samples, fingerprint="1")
    with pytest.raises(InputError, match=f"before and .*other are over different data: {words}"):
        howsure.compare(runs[0], other)
    same_fingerprint = finished(tmp_path / "same", samples)
    with pytest.raises(InputError, match=f"before and .*same are over different data: {words}"):
        howsure.compare(runs[0], same_fingerprint)


def test_other_data_is_refused_where_only_the_fingerprint_tells(runs: tuple[Path, Path], tmp_path: Path) -> None:
    prompts = finished(tmp_path / "prompts", AFTER, fingerprint="1")
    with pytest.raises(InputError, match="over different data: the prompts of the data differ"):
        howsure.compare(runs[0], prompts)
    moved = [msgspec.structs.replace(sample, index=7 - sample.index) for sample in AFTER]
    with pytest.raises(InputError, match="over different data: their order differs, from 's0' on"):
        howsure.compare(runs[0], finished(tmp_path / "order", moved, fingerprint="1"))


def test_right_answers_that_another_parser_read_are_told_apart(tmp_path: Path) -> None:
    a = finished(tmp_path / "a", AFTER, decided={"parser": "strict"})
    b = finished(tmp_path / "b", changed(target={"kind": "point", "coords": [1.0, 2.0]}), decided={"parser": "compat"})
    with pytest.raises(InputError, match=r"'s0' differs \(right answers .* were read by the parsers strict and compat"):
        howsure.compare(a, b)


def test_another_delta_is_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = finished(tmp_path / "other", AFTER, delta=70)
    with pytest.raises(InputError, match=r"before was judged with --delta 140, .*other with 70, .*count hits diff"):
        howsure.compare(runs[0], other)


def rewrite(run: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((run / name).read_text())
    change(content)
    (run / name).write_text(json.dumps(content))


@pytest.mark.parametrize(("status", "said"), [("interrupted", "interrupted"), ("running", "stopped"), ("failed",) * 2])
def test_unfinished_runs_are_refused(copies: tuple[Path, Path], status: str, said: str) -> None:
    rewrite(copies[1], "run.json", lambda manifest: manifest.update(status=status))
    with pytest.raises(InputError, match=rf"after is not finished \({said}, 8 of 8 samples\): run the command"):
        howsure.compare(*copies)


def test_a_run_without_all_its_samples_or_its_summary_is_not_finished(copies: tuple[Path, Path]) -> None:
    rewrite(copies[1], "run.json", lambda manifest: manifest.update(items=9))
    with pytest.raises(InputError, match=r"after is not finished \(finished, 8 of 9 samples\)"):
        howsure.compare(*copies)
    (copies[0] / "summary.json").unlink()
    with pytest.raises(InputError, match=r"before is not finished"):
        howsure.compare(*copies)


def test_damaged_runs_are_refused_in_one_sentence(copies: tuple[Path, Path], tmp_path: Path) -> None:
    lacking = finished(tmp_path / "lacking", AFTER)
    lines = (lacking / "samples.jsonl").read_text().replace('"instruction":"click 3",', "")
    (lacking / "samples.jsonl").write_text(lines)
    with pytest.raises(RunDamaged, match="lacking/samples.jsonl, line 4: Object missing required field `instruction`"):
        howsure.compare(copies[0], lacking)
    without = finished(tmp_path / "without", AFTER)
    rewrite(without, "summary.json", lambda summary: summary.pop("headline"))
    with pytest.raises(
        RunDamaged,
        match=r"without/summary.json .* missing required field `headline`; run the same command again",
    ):
        howsure.compare(copies[0], without)
    for wrong in ("140", None, True):
        rewrite(
            copies[1], "run.json", lambda manifest, wrong=wrong: manifest["identity"]["options"].update(delta=wrong)
        )
        with pytest.raises(RunDamaged, match="the manifest of .*after has no delta to judge by"):
            howsure.compare(*copies)


def test_runs_of_other_studies_are_refused(copies: tuple[Path, Path]) -> None:
    rewrite(copies[1], "run.json", lambda manifest: manifest["identity"].update(study="mcq"))
    with pytest.raises(InputError, match="before is a run of grounding, .*after one of mcq: compare runs of the same"):
        howsure.compare(*copies)
    rewrite(copies[1], "run.json", lambda manifest: manifest["identity"].update(study="trust coherent"))
    with pytest.raises(InputError, match="of 'trust coherent', and only mcq, .* runs can be compared"):
        howsure.compare(*copies)


# -- noted ----------------------------------------------------------------------------------------------------------


def noted(tmp_path: Path, a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """The notes of two runs of twelve hits on as many screens, asked like this."""
    sides = [finished(tmp_path / name, many(12, 1), name, **options) for name, options in (("a", a), ("b", b))]
    found: list[str] = howsure.compare(*sides)["notes"]
    return found


def test_runs_that_differ_by_their_model_alone_need_no_note(tmp_path: Path) -> None:
    assert noted(tmp_path, {}, {}) == []


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ({}, {"parser": "compat"}, "parser strict in A, compat in B"),
        ({}, {"frame": "pixels"}, "frame relative-1000 in A, pixels in B"),
        ({"prompt": "Where?\n{instruction}"}, {}, "prompt Where? {instruction} in A, default in B"),
        ({}, {"prompt": "x" * 90}, f"prompt default in A, {'x' * 59}… in B"),
        ({}, {"max_new_tokens": 64}, "max_new_tokens not set in A, 64 in B"),
        ({"logprobs": True}, {"logprobs": False}, "logprobs True in A, False in B"),
        ({}, {"samples": 8, "temperature": 0.7}, "samples 0 in A, 8 in B; temperature not set in A, 0.7 in B"),
        ({"fields": {"max_pixels": 1003520}}, {}, "max_pixels 1003520 in A, not set in B"),
        ({"server_max_pixels": 5000}, {"server_max_pixels": None}, "max_pixels 5000 in A, not set in B"),
        ({}, {"parser": "compat", "frame": "pixels"}, "parser strict in A, compat in B; frame relative-1000 in A, pix"),
    ],
    ids=["parser", "frame", "prompt", "long", "tokens", "logprobs", "samples", "pixels", "server", "two"],
)
def test_another_way_of_asking_is_noted_not_refused(
    tmp_path: Path, a: dict[str, Any], b: dict[str, Any], words: str
) -> None:
    (note,) = noted(tmp_path, a, b)
    assert note.startswith(f"asked or read in another way, which is part of the difference: {words}")


def test_a_model_that_clicks_has_no_frame_to_differ_by(tmp_path: Path) -> None:
    silent = dict.fromkeys(("parser", "frame", "prompt", "samples"), "leave out")
    assert noted(tmp_path / "1", silent, {}) == ["A clicks without words: frame, parser and prompt are B's alone"]
    assert noted(tmp_path / "2", {}, silent) == ["B clicks without words: frame, parser and prompt are A's alone"]
    assert noted(tmp_path / "3", silent, silent) == []


def test_what_the_data_and_the_answers_make_worth_a_note(runs: tuple[Path, Path]) -> None:
    assert howsure.compare(*runs)["notes"] == [
        "of 8 samples 1 failed in A and 0 in B, and count as misses there: --retry-failed on the run's command asks "
        "them again",
        "distances are compared over the 4 of 7 samples that have one in both (1 have one in A alone, 2 in B alone, 0 "
        "in neither)",
        "McNemar's test takes samples as independent, and these 8 are on 6 screens: the intervals, which are over "
        "screens, are the safer guide",
    ]


def test_the_same_model_twice_is_noted(runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert (
        "both runs are of the same model"
        in howsure.compare(runs[0], finished(tmp_path / "c", AFTER, "vanilla"))["notes"]
    )


def test_confidence_of_another_kind_is_noted(tmp_path: Path) -> None:
    sides = []
    for name, kinds in (("a", ("coordinate_mean", "agreement")), ("b", ("coordinate_mean", "match"))):
        rows = [
            answered(f"s{i}", i, about(on_screen(i)), (500, 500), confidence=dict.fromkeys(kinds, 0.5))
            for i in range(12)
        ]
        sides.append(finished(tmp_path / name, rows, name))
    found = howsure.compare(*sides)
    assert found["notes"] == ["only confidence of the same kind is compared: A alone has agreement; B alone has match"]
    assert list(found["difference"]["knows"]) == ["coordinate_mean"]


def test_screens_that_repeat_are_noted_only_where_something_turned(tmp_path: Path) -> None:
    a, same = finished(tmp_path / "a", many(40, 2), "a"), finished(tmp_path / "same", many(40, 2), "b")
    turned = finished(tmp_path / "turned", many(40, 2, lambda i: i < 3), "b")
    apart = [finished(tmp_path / f"{n}", many(40, 1, lambda i, n=n: i < n), str(n)) for n in (0, 3)]
    assert howsure.compare(a, same)["notes"] == []
    assert howsure.compare(*apart)["notes"] == []
    (note,) = howsure.compare(a, turned)["notes"]
    assert "these 40 are on 20 screens" in note


# -- printed --------------------------------------------------------------------------------------------------------


def test_the_table_by_hand(runs: tuple[Path, Path]) -> None:
    shown = printed(howsure.compare(*runs), 160, cards=5)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    figures = howsure.compare(*runs)["difference"]["figures"]

    def interval(name: str) -> str:
        return f"(about {figures[name]['low'] * 100:+.1f} to {figures[name]['high'] * 100:+.1f})"

    for line in (
        "model vanilla tuned",
        "point in target 50.0 % 50.0 % +0.0 points",
        f"accuracy within 140 42.9 % 71.4 % +28.6 points {interval('accuracy')}",
        f"hit rate 37.5 % 62.5 % +25.0 points {interval('hit_rate')}",
        "refused rightly 0.0 % 100.0 % +100.0 points",
        "mean L2 70.0 132.5 +62.5",
        "median change of L2 +25.0",
        "wrong format 1 1 +0",
        "refused 0 1 +1",
        "L2 in thousandths of the screen, over the 4 of 7 samples that both clicked on.",
        "4 samples became hits and 2 became misses; McNemar's exact p = 0.688: chance alone could do this.",
        "(none) 1 0.0 % 0.0 % +0.0 points — +1",
        "hit in A, missed in B: 2",
        "s0 +300 0.0 300 click 0",
        "missed in A, hit in B: 4",
        "s1 -100 200 100 click 1",
        "s3 — wrong format 0.0 click 3",
        "s4 — failed 40 click 4",
        "s5 — point refusal click 5",
    ):
        assert line in lines, line
    assert any(line.startswith("coordinate mean 0.67 (about 0.04 to 0.99) 0.75") for line in lines)


def test_figures_that_say_the_same_are_not_shown_twice(tmp_path: Path) -> None:
    sides = [finished(tmp_path / name, many(12, 1, lambda i, n=name: i < 3 and n == "b"), name) for name in "ab"]
    shown = printed(howsure.compare(*sides))
    assert "accuracy within 140" in shown
    for words in ("hit rate ", "point in target", "refused", "wrong format"):
        assert words not in shown, words
    regions = [
        finished(tmp_path / f"box {name}", [answered("s0", 0, about(target=BOX), (500, 500))], name) for name in "ab"
    ]
    shown = printed(howsure.compare(*regions))
    assert "point in target" in shown
    assert "hit rate " not in shown


def hostile_pair(tmp_path: Path) -> Comparison:
    """Texts that would clear the screen and colour it, and names that no table has room for."""
    hostile = "\x1b[2J\u202e[bold]open[/] "
    sides = []
    for name in ("a", "b"):
        rows = []
        for i in range(40):
            known = about(on_screen(i // 2), user=f"{hostile}{'long ' * 30}{i}", instruction=f"{hostile}{'menu ' * 90}")
            known["labels"]["platform"] = [f"{hostile} {i % 2}"]
            far = (i % 2 == 0) == (name == "a")
            rows.append(answered(f"{hostile}{i}" * 5, i, known, (1e9, -1e9) if far else (500, 500)))
        model = f"{hostile}hf:{'x' * 100}"
        sides.append(finished(tmp_path / name, rows, model, prompt=f"{hostile}{name}"))
    return howsure.compare(*sides)


@pytest.mark.parametrize("width", [80, 120])
def test_hostile_text_fits_and_is_not_obeyed(tmp_path: Path, width: int) -> None:
    found = hostile_pair(tmp_path)
    shown = printed(found, width)
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown
    coloured = printed(found, 200, is_terminal=True)
    for words in ("\x1b[2J", "\u202e"):
        assert words not in shown
        assert words not in coloured
    assert "[bold]open[/]" in coloured
    assert "and 10 more" in shown, "30 of 40 users"
    assert "and 17 more: `howsure compare --flips 20` lists all" in shown
    assert "hit in A" not in printed(found, width, cards=0)


# -- the command ----------------------------------------------------------------------------------------------------


def cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def test_the_command_prints_the_table_and_as_data_everything(runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = cli("compare", *runs, "--flips", "1")
    assert done.exit_code == 0, done.stderr
    for words in ("vanilla", "tuned", "accuracy within 140", "hit in A, missed in B: 2", "--flips 4` lists all"):
        assert words in done.stdout, words
    assert "hit in A" not in cli("compare", *runs, "--quiet").stdout
    data = cli("compare", *runs, "--json", "--output-json", tmp_path / "out.json")
    assert json.loads(data.stdout) == json.loads(msgspec.json.encode(howsure.compare(*runs)))
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(data.stdout)
    assert "16 items, 0 model calls" in cli("compare", *runs, "--dry-run").stdout


def test_the_command_refuses_in_one_sentence(runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = cli("compare", runs[0], finished(tmp_path / "other", AFTER, delta=70))
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "--delta 140" in done.stderr
