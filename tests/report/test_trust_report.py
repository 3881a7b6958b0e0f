"""Pages of trust: rows, T in words, plots with gaps, the replay, steps worth a look, the page of a step."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.models.contract import Message
from howsure.report import trust, trust_steps
from howsure.report.run_data import NoLinks, StoredRun
from howsure.report.trust_steps import changed, worked_out
from howsure.runs import Sample
from howsure.studies.trust import Told
from howsure.studies.trust import trust as run_trust
from howsure.studies.trust.record import ConditionRecord, Conditions, TrustRecord
from report.rendered import about as page_of_a_step
from report.rendered import as_html, body, cards, page, printed, stored
from scripted import Scorer, Writer, action_json, condition_of, verbalized_json

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")

WORLD = "MiniGrid-Empty-8x8-v0"
EVIL = "<script>alert(1)</script>"
TOLD_BITS = -(0.125 * math.log2(0.125) + 0.875 * math.log2(0.875))


def on_paper(condition: str, _: str) -> list[float]:
    """up, down, left, right: 2 bits, 1 bit, and 0.5436 bits with down ahead."""
    chances = {"X": [0.25] * 4, "X|S": [0.5, 0.5, 0.0, 0.0], "X|L,S": [0.125, 0.875, 0.0, 0.0]}[condition]
    return [math.log(p) if p else -math.inf for p in chances]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs of every kind of evidence, on models whose answers are written here."""
    folder = tmp_path_factory.mktemp("runs")
    grounding = folder / "grounding.txt"
    grounding.write_text("Velvet curtains hide the way.\n")
    told = f"Go to the green square {EVIL}"
    common: dict[str, Any] = {"grounding": grounding, "instruction": told}
    run_trust(WORLD, Scorer(on_paper), out=folder / "scored", max_steps=7, **common)
    run_trust(WORLD, Scorer(_far()), out=folder / "far", max_steps=3, episodes=5, frames=False, **common)
    lacking = Scorer(lambda condition, text: None if condition == "X|S" else on_paper(condition, text))
    run_trust(WORLD, lacking, out=folder / "lacking", max_steps=2, **common)
    turned = {"X": "X|L,S", "X|S": "X|S", "X|L,S": "X"}
    lost = Scorer(lambda condition, text: on_paper(turned[condition], text))
    run_trust(WORLD, lost, out=folder / "lost", max_steps=2, frames=False, **common)
    some = Scorer(_varied())
    run_trust(WORLD, some, out=folder / "several", max_steps=3, episodes=6, act="sample", frames=False, **common)
    flat = Scorer(lambda condition, text: [math.log(0.25)] * 4)
    run_trust(WORLD, flat, out=folder / "flat", max_steps=1, frames=False, **common)
    listen = _listener()
    run_trust(
        WORLD, Writer(_write), out=folder / "logprobs", evidence="logprobs", max_steps=2, own_grounding=True,
        listen=lambda episode: next(listen), **common,
    )  # fmt: skip
    run_trust(WORLD, Writer(_say), out=folder / "verbalized", evidence="verbalized", max_steps=1, **common)
    return folder


def _varied() -> Any:
    """Entropies that differ a little from step to step, in order."""
    asked = iter(range(1000))

    def table(condition: str, _: str) -> list[float]:
        more = 0.02 * (next(asked) % 7)
        ahead = {"X": 0.3, "X|S": 0.6, "X|L,S": 0.8}[condition] + more
        return [math.log(p) for p in (ahead, *[(1 - ahead) / 3] * 3)]

    return table


def _far() -> Any:
    """Every third step T is about 100, since the instruction takes hardly anything off; X|S is missing once."""
    asked = iter(range(1000))

    def table(condition: str, _: str) -> list[float] | None:
        number = next(asked)
        step = number // 3
        if condition == "X|S" and step == 1:
            return None
        if condition == "X|L,S" and step % 3 == 2:
            return [math.log(p) for p in (0.28, 0.28, 0.22, 0.22)]
        return on_paper(condition, "")

    return table


def _write(messages: list[Message], number: int) -> str:
    memory = {"task_process": {"status": "on my way"}, "previous_action": "none"}
    return action_json("down" if number < 3 else "right", grounding=f"Fact {number} {EVIL}", memory=memory)


def _listener() -> Iterator[Told]:
    yield Told(feedback=f"The carpet is slow {EVIL}")
    yield Told(instruction="Leave by the window")


def _say(messages: list[Message], number: int) -> str:
    if number == 0:
        return f"no JSON {EVIL}"
    return verbalized_json([0.1, 0.7, 0.1, 0.1] if condition_of(messages) == "X|L,S" else [0.25] * 4)


def run_of(folder: Path, picture_bytes: int = 4_000_000) -> StoredRun:
    return stored(folder, picture_bytes)


def part(run: StoredRun, title: str) -> str:
    """One section of a run's page."""
    return as_html([one for one in run.view.document(run.summary, run) if one.title == title])


def overall(run: StoredRun) -> str:
    return text(part(run, "How much comes from what it knows?"))


def text(page: str) -> str:
    """What a reader sees."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


# -- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_holds_what_was_done_and_how_sure_it_was(runs: Path) -> None:
    row = run_of(runs / "scored").table.row(0)
    assert (row["episode"], row["step"], row["action"], row["moved"], row["correct"]) == (1, 1, "down", True, True)
    assert row["action_probability"] == pytest.approx(0.875)
    assert [row["h_x"], row["h_x_given_s"]] == pytest.approx([2.0, 1.0])
    assert row["h_x_given_ls"] == pytest.approx(TOLD_BITS)
    assert row["trust"] == pytest.approx(1.0 / (2.0 - TOLD_BITS))
    assert row["best"] == "down, right"
    assert row["missing"] is None
    assert row["repeated"] is False


def test_what_is_missing_says_which_and_why(runs: Path) -> None:
    row = run_of(runs / "lacking").table.row(0)
    assert row["h_x_given_s"] is None
    assert row["trust"] is None
    assert row["missing"] == "H(X|S): too long"
    assert run_of(runs / "flat").table.row(0)["missing"] == "T: ΔH_L,S is below 0.01 bits"


def test_every_row_fits_its_columns(runs: Path) -> None:
    named = {column.name for column in trust.COLUMNS}
    for folder in ("scored", "lacking", "logprobs", "verbalized"):
        made = run_of(runs / folder)
        row = trust.row(made.sample(0))
        assert {name for name in row if not name.startswith("_")} == named
        assert "unreadable_sample" not in made.table.values("reason")


# -- T in words -------------------------------------------------------------------------------------------------------


def step(*bits: float | None) -> TrustRecord:
    answers = (
        ConditionRecord(entropy_bits=one, entropy_missing=None if one is not None else "no_json") for one in bits
    )
    return TrustRecord(episode=1, step=1, instruction="go", knowledge_count=1, conditions=Conditions(*answers))


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (
            (2.0, 1.5, 1.0),
            "= (2.0000 − 1.5000) / (2.0000 − 1.0000) = 0.5000 / 1.0000 = 0.5000, the share of all that was",
        ),
        ((1.0, 1.25, 1.5), "= −0.2500 / −0.5000: told everything it was less sure, so there is no gain"),
        ((1.0, 0.5, 1.0 - 2.0**-20), "= 0.5000 / 9.5e-07: less than 0.01 bits, too little for T"),
        ((1.0, 0.5, 1.0), "which divides by zero"),
        ((1.0, None, 0.5), "T is missing, since it takes all three entropies. H(X|S): no json."),
        ((2.0, 2.1, 1.0), "= −0.1000: below 0, since knowledge alone made it less sure."),
        ((2.0, 0.5, 1.0), "= 1.5000: above 1, since knowledge alone made it surer than both together."),
        ((2.0, 2.0 + 1e-16, 1.6), "= 0.0000, the share of all"),
        ((2.0, 1.6 - 1e-15, 1.6), "= 1.0000, the share of all"),
    ],
)
def test_t_is_worked_out_with_its_numbers_and_what_they_mean(bits: tuple[float | None, ...], said: str) -> None:
    assert said in worked_out(step(*bits)), "what T means depends on the signs"


def test_prompts_that_are_the_same_make_no_t() -> None:
    alike = step(1.0, 1.0, 0.5)
    alike.knowledge_count = 0
    assert worked_out(alike).endswith("X and X|S are the same prompt, so T says nothing.")


def test_a_difference_in_words() -> None:
    assert changed(0.25) == "surer by 0.2500 bits"
    assert changed(-0.00002) == "less sure by 2e-05 bits"
    assert changed(0.0) == "neither surer nor less sure"


# -- plots ------------------------------------------------------------------------------------------------------------


def test_a_report_explains_its_letters_and_what_was_gained(runs: Path) -> None:
    said = overall(run_of(runs / "far"))
    assert "told S, what is known about the place (X|S); told L, the instruction, too (X|L,S)" in said
    assert "T is the share" not in said, "of one episode, four copies aside"
    assert "independent episodes 1 of 5" in said
    said = overall(run_of(runs / "several"))
    assert "Told what is known about the place, the model became surer by" in said
    assert "That is the mean of 18 complete steps. T is the share of all that was gained" in said
    assert "independent episodes 6 of 6" in said
    assert "H(X) ≥ H(X|S) ≥ H(X|L,S) 18 of 18, 100.0 % (about" in said
    assert re.search(r"T of a step, median 0\.\d{3} \(quartiles 0\.\d{3} and 0\.\d{3}\)", said)
    assert "Fieller" not in said
    assert "bootstrap" not in said


def test_t_that_is_not_identified_has_no_number_and_no_meaning(runs: Path) -> None:
    run = run_of(runs / "flat")
    assert run.summary.headline[0].note == "not identified: 1 episode, and T takes at least 5"
    said = overall(run)
    assert "T is" not in said
    assert "95 % interval" not in said, "one episode has none"


def test_a_step_that_lost_has_no_t(runs: Path) -> None:
    """Told everything the model was less sure: neither the table nor the plot shows a share of that."""
    made = run_of(runs / "lost")
    row = made.table.row(0)
    assert row["trust"] is None
    assert row["missing"] == "T: less sure when told everything"
    assert "No step of episode 1 has a T" in text(part(made, "Step by step"))
    assert "told everything it was less sure, so there is no gain" in text(part(made, "Replay"))
    assert "steps that lost 2 steps with ΔH_L,S below 0" in overall(made)


def test_t_beyond_the_axis_is_drawn_at_its_edge_and_stays_in_the_table(runs: Path) -> None:
    made = run_of(runs / "far")
    far = [value for value in made.table.values("trust") if value is not None and value > 2]
    shown = part(made, "Step by step")
    first = made.table.values("trust")[2]
    assert len(far) == 5
    assert first > 50
    assert "1 step beyond -1 to 2, drawn at the edge." in text(shown)
    assert f">{first:.4g}</td>" in shown


def test_a_missing_entropy_breaks_the_line_and_is_counted(runs: Path) -> None:
    episode = part(run_of(runs / "far"), "Step by step").partition("Episode 2")[0]
    assert "An entropy is missing at 1 step." in text(episode)
    assert "There is no T at 1 step." in text(episode)
    lines = re.findall(r'<path class="line s(\d)" d="([^"]*)"', episode.partition("</svg>")[0])
    assert [series for series, _ in lines] == ["0", "1", "1", "2"], "H(X|S) in two parts"
    assert all("L" not in d for series, d in lines if series == "1")


def test_a_few_episodes_are_drawn_and_all_by_their_means(runs: Path) -> None:
    run = run_of(runs / "far")
    shown = part(run, "Step by step")
    assert "The first 3 episodes are drawn; all 5 are below" in text(shown)
    assert "Episode 3: entropy" in shown
    assert "Episode 4: entropy" not in shown
    plot, _, table = part(run, "Episode by episode").partition("</figure>")
    for body_, cells in ((plot, ["1", "2", "3"]), (table, ["1", "2", "of"])):
        rows = re.findall(r"<tr>(.*?)</tr>", body_.partition("<tbody>")[2])
        assert [text(row).split()[0] for row in rows] == ["1", "2", "3", "4", "5"]
        assert text(rows[0]).split()[:3] == cells, "the first lacks a step"


def test_a_run_without_any_complete_step_says_why(runs: Path) -> None:
    said = text(page(run_of(runs / "lacking")))
    assert "nothing can be said about T. H(X|S) missing 2 too long" in said
    assert "No step of episode 1 has a T" in said
    assert "missing: too long" in said
    assert "X|S 2 0 0 2 too long" in said, "how the answers could be used"


def test_a_run_in_progress_gives_what_its_rows_allow(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text()) | {"status": "interrupted"}
    (folder / "run.json").write_text(json.dumps(manifest))
    made = run_of(folder)
    assert made.summary is None
    said = text(page(made))
    assert "T over all steps is worked out when the run is finished" in said
    assert "Episode 1: entropy" in said
    assert "Actions on a shortest path to the goal: 5 of 7." in said
    (folder / "samples.jsonl").write_text("")
    assert "No step was taken yet." in text(page(run_of(folder)))


def test_sureness_is_drawn_where_the_summary_has_it(runs: Path) -> None:
    shown = part(run_of(runs / "scored"), "Should it be so sure?")
    assert "How sure was it of what it did?" in shown
    assert "Is it as sure as it is right?" in shown
    assert "ECE, 15 equal-width bins" in shown
    assert "too few independent answers to tell it from chance" in shown, "one episode"
    assert "AUROC (on vs off the path)" in shown
    assert "Risk–coverage: abstaining when unsure" in shown
    assert "Actions on a shortest path to the goal: 5 of 7, 71.4 %." in text(shown)


# -- the replay -------------------------------------------------------------------------------------------------------


def test_the_replay_goes_through_all_steps_and_holds_each_frame_once(runs: Path) -> None:
    page = part(run_of(runs / "scored"), "Replay")
    assert page.count('class="step"') == 8, "seven steps and the end"
    frames = {path.read_bytes() for path in (runs / "scored" / "frames").iterdir()}
    assert len(frames) < 8, "a robot at a wall sees the same twice"
    assert page.count("data:image/png") == len(frames)
    named = set(re.findall(r'<image id="([^"]+)"', page))
    used = re.findall(r'<use href="#([^"]+)"', page)
    assert len(used) == 8 - len(frames)
    assert set(used) <= named
    assert "Episode 1, the end" in page
    assert "After step 7: the goal was not reached." in text(page)
    first = text(page.partition('class="step"')[2].partition('class="step"')[0])
    assert "down (87.5 %). You moved down." in first
    assert "on a shortest path yes best actions down or right; the goal is 10 actions away" in first
    assert "2.0000 bits 1.0000 bits 0.5436 bits" in first
    assert "down: taken, best 25.0 % 50.0 % 87.5 %" in first


def test_a_long_replay_is_cut_and_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_steps, "MOST_STEPS", 2)
    shown = part(run_of(runs / "scored"), "Replay")
    assert shown.count('class="step"') == 2, "no end of an episode that is not shown to its end"
    assert "The first 2 of 7 steps are here; samples.jsonl has all." in text(shown)


def test_frames_that_cannot_be_shown_are_said_in_words(runs: Path, tmp_path: Path) -> None:
    crowded = text(part(run_of(runs / "scored", picture_bytes=10), "Replay"))
    assert "no room for more pictures in this file; the run folder has it as frames/e0001-s0001.png" in crowded
    assert "No frames were kept in this run (--no-frames)." in text(part(run_of(runs / "far"), "Replay"))
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    shutil.rmtree(folder / "frames")
    assert "The frame frames/e0001-s0001.png is not in the run folder." in text(part(run_of(folder), "Replay"))


def test_in_the_viewer_frames_have_addresses(runs: Path) -> None:
    class Served(NoLinks):
        def sample(self, key: str) -> str | None:
            return f"/sample/{key}"

        def picture(self, name: str) -> str | None:
            return f"/picture/{name}"

    page = part(StoredRun(runs / "scored", Served()), "Replay")
    assert '<img src="/picture/frames/e0001-s0001.png"' in page
    assert "data:image" not in page
    assert '<a href="/sample/e0001-s0001">Episode 1, step 1</a>' in page


# -- samples worth a look ---------------------------------------------------------------------------------------------


def test_steps_worth_a_look_are_different_ones(runs: Path) -> None:
    wrong, right = cards(run_of(runs / "scored"))
    # Five moves down lie on a shortest path; at the wall it goes on down, and the last step repeats the one before.
    assert [one.title for one in wrong] == ["Episode 1, step 6", "Episode 1, step 7"]
    assert len(right) == 5
    assert right[0].verdict == "87.5 % on the best actions"
    assert wrong[0].verdict == "87.5 % sure, off the shortest path"
    shown = text(body(wrong[0]))
    assert "down: taken 87.5 %" in shown
    assert "right: best 0.0 %" in shown
    assert "instruction Go to the green square" in shown
    _, right = cards(run_of(runs / "far"))
    assert len({one.title for one in right}) == len(right)


def test_a_frame_is_held_once_by_a_whole_report(runs: Path) -> None:
    """The replay shows it first, and cards lead to that one."""
    shown = page(run_of(runs / "scored"))
    frames = {path.read_bytes() for path in (runs / "scored" / "frames").iterdir()}
    assert shown.count("data:image/png") == len(frames)
    assert set(re.findall(r'<use href="#([^"]+)"', shown)) <= set(re.findall(r'<image id="([^"]+)"', shown))


def test_no_probability_no_pick(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for line in lines:
        line["result"]["on_shortest_path"] = None
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = run_of(folder)
    assert cards(run) == ([], [])
    assert "No action has both a probability and a shortest path to compare it with." in page(run)


# -- the page of a step -----------------------------------------------------------------------------------------------


def about(folder: Path, row: int) -> str:
    return page_of_a_step(run_of(folder), row)


def test_the_page_of_a_scored_step(runs: Path) -> None:
    page = about(runs / "scored", 0)
    said = text(page)
    assert "= (2.0000 − 1.0000) / (2.0000 − 0.5436) = 1.0000 / 1.4564 = 0.6866, the share" in said
    assert "Velvet curtains hide the way." in said
    assert "Instruction: none is given." in said
    assert page.count("<details") >= 3
    assert "down -1.386 -0.6931 -0.1335" in said
    assert "all together, as probability 100.0 % 100.0 % 100.0 %" in said
    assert EVIL not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ({"first_asked": 1, "first_episode": 1}, "no, this question is new in its episode"),
        ({"first_asked": 1, "first_episode": 2}, "yes, episode 2 went the same way up to here"),
        ({"first_asked": 7, "first_episode": 1}, "yes, word for word at step 7"),
        ({"first_asked": None, "first_episode": None}, None),
    ],
)
def test_whether_it_was_asked_before(runs: Path, first: dict[str, Any], said: str | None) -> None:
    shown = text(changed_step(runs / "scored", **first))
    assert said in shown if said else "asked before" not in shown, "missing is missing"


def changed_step(folder: Path, **fields: Any) -> str:
    made = run_of(folder)
    sample: Sample[TrustRecord] = made.sample(0)
    for name, value in fields.items():
        setattr(sample.result, name, value)
    return as_html(trust.about(sample, made))


def test_a_step_without_an_action_says_why(runs: Path) -> None:
    conditions = run_of(runs / "scored").sample(0).result.conditions
    conditions.x_given_ls.action_missing, conditions.x_given_ls.probabilities = "too_long", None
    shown = text(changed_step(runs / "scored", action=None, conditions=conditions))
    assert "action none (too long), so nothing happened" in shown, "nothing was written that could be read"


def test_the_page_of_a_written_step_shades_its_tokens(runs: Path) -> None:
    page = about(runs / "logprobs", 0)
    said = text(page)
    assert '<span class="tok u0" tabindex="-1">down<span class="tip"' in page
    assert "«zebra» 10.0 %" in said
    assert "other 20.0 % 20.0 % 20.0 %" in said
    assert "a person said The carpet is slow" in said
    assert "the model, in X|S kept" in said
    assert "written as down" in said
    assert "its tokens «down» at " in said
    assert EVIL not in page
    assert "a new instruction Leave by the window" in text(about(runs / "logprobs", 1))


def test_the_page_of_a_step_with_written_probabilities(runs: Path) -> None:
    said = text(about(runs / "verbalized", 0))
    assert "step 1 10.0 % 70.0 % 10.0 % 10.0 % 1.357 1" in said
    assert "can be carried out 90.0 %" in said
    assert "asked again 1 time, for JSON" in said
    assert "The picture above went with it." in said


def test_the_page_of_an_incomplete_step_says_what_lacks(runs: Path) -> None:
    said = text(about(runs / "lacking", 0))
    assert "This step is incomplete: H(X|S): it does not fit" in said
    assert "T is missing, since it takes all three entropies. H(X|S): too long." in said


# -- a step in a terminal ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
def test_a_step_is_printed_with_its_three_answers(runs: Path, width: int) -> None:
    sample = run_of(runs / "logprobs").sample(0)
    shown = printed(trust_steps.step_document(sample), width)
    assert max(map(len, shown.splitlines())) <= width
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "Episode 1, step 1"
    assert "place the robot at (1, 1), facing right" in lines
    assert any(line.startswith("on a shortest path yes") for line in lines)
    assert "its action down down right" in lines
    assert any(re.fullmatch(r"its tokens («\w+» at \d+ ?){3}", line) for line in lines)
    assert any(re.fullmatch(r"entropy (\d\.\d{4} bits ?){3}", line) for line in lines)
    assert "T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)) =" in " ".join(lines)
    assert "\x1b" not in shown


def test_a_step_that_lacks_an_answer_prints_what_was_written(runs: Path) -> None:
    sample = run_of(runs / "verbalized").sample(0)
    sample.result.conditions.x.entropy_bits, sample.result.conditions.x.entropy_missing = None, "no_json"
    sample.result.conditions.x.action, sample.result.conditions.x.action_missing = None, "no_json"
    shown = " ".join(printed(trust_steps.step_document(sample)).split())
    assert "none: no json" in shown
    assert "missing: no json" in shown
    assert 'X wrote {"executability"' in shown
