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
from howsure.report.pages import trust, trust_overall, trust_plots, trust_replay
from howsure.report.views import Section
from howsure.report.run_data import Embedded, Material
from howsure.report.html import card, section
from howsure.report.pages.trust_spread import changed, meaning, worked_out
from howsure.studies.trust import Told
from howsure.studies.trust import trust as run_trust
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


def material(folder: Path, picture_bytes: int = 4_000_000) -> Material:
    return Material(folder, Embedded(folder, picture_bytes))


def html(sections: list[Section]) -> str:
    return "".join(str(section(one)) for one in sections)


def text(page: str) -> str:
    """What a reader sees."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


# -- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_holds_what_was_done_and_how_sure_it_was(runs: Path) -> None:
    row = material(runs / "scored").table.row(0)
    assert (row["episode"], row["step"], row["action"], row["moved"], row["correct"]) == (1, 1, "down", True, True)
    assert row["action_probability"] == pytest.approx(0.875)
    assert [row["h_x"], row["h_x_given_s"]] == pytest.approx([2.0, 1.0])
    assert row["h_x_given_ls"] == pytest.approx(TOLD_BITS)
    assert row["trust"] == pytest.approx(1.0 / (2.0 - TOLD_BITS))
    assert row["best"] == "down, right"
    assert row["missing"] is None
    assert row["repeated"] is False


def test_what_is_missing_says_which_and_why(runs: Path) -> None:
    row = material(runs / "lacking").table.row(0)
    assert row["h_x_given_s"] is None
    assert row["trust"] is None
    assert row["missing"] == "H(X|S): too long"
    assert material(runs / "flat").table.row(0)["missing"] == "T: ΔH_L,S is below 0.01 bits"


def test_every_row_fits_its_columns(runs: Path) -> None:
    named = {column.name for column in trust.COLUMNS}
    for folder in ("scored", "lacking", "logprobs", "verbalized"):
        made = material(runs / folder)
        row = trust.row(made.sample(0))
        assert {name for name in row if not name.startswith("_")} == named
        assert "unreadable_sample" not in made.table.values("reason")


# -- T in words -------------------------------------------------------------------------------------------------------


def step(*bits: float | None) -> dict[str, Any]:
    names = ("X", "X|S", "X|L,S")
    return {
        "conditions": {
            name: {"entropy_bits": value, "entropy_missing": None if value is not None else "no_json"}
            for name, value in zip(names, bits, strict=True)
        },
        "trust": None,
    }


def test_t_is_worked_out_with_its_numbers() -> None:
    said = worked_out(step(2.0, 1.5, 1.0))
    assert said.endswith("= (2.0000 − 1.5000) / (2.0000 − 1.0000) = 0.5000 / 1.0000 = 0.5000.")
    assert worked_out(step(1.0, 1.25, 1.5)).endswith(
        "= −0.2500 / −0.5000: told everything it was less sure, so T is no share."
    )
    assert worked_out(step(1.0, 0.5, 1.0 - 2.0**-20)).endswith(
        "= 0.5000 / 9.5e-07: less than 0.01 bits have no shares."
    )
    assert worked_out(step(1.0, 0.5, 1.0)).endswith("which divides by zero.")
    assert worked_out(step(1.0, None, 0.5)) == ("T is missing, since it takes all three entropies. H(X|S): no json.")


@pytest.mark.parametrize(
    ("by_known", "by_all", "said"),
    [
        (0.2, 0.4, "share of all that was gained"),
        (-0.1, 0.4, "below 0"),
        (0.5, 0.4, "above 1"),
        (-0.1, -0.4, "there is no gain that T could be a share of"),
        (0.1, -0.4, "there is no gain that T could be a share of"),
        (-1e-16, 0.4, "share of all that was gained"),
        (0.4 + 1e-15, 0.4, "share of all that was gained"),
        (0.1, 0.0, "not defined"),
        (0.1, 0.001, "too little for T to be a share of it"),
    ],
)
def test_what_t_means_depends_on_the_signs(by_known: float, by_all: float, said: str) -> None:
    assert said in meaning(by_known, by_all)


def test_a_difference_in_words() -> None:
    assert changed(0.25) == "surer by 0.2500 bits"
    assert changed(-0.00002) == "less sure by 2e-05 bits"
    assert changed(0.0) == "neither surer nor less sure"


# -- plots ------------------------------------------------------------------------------------------------------------


def test_a_report_explains_its_letters_and_gives_t_with_its_interval(runs: Path) -> None:
    made = material(runs / "far")
    page = text(html([trust_overall.overall(made)]))
    assert "told S, what is known about the place (X|S); told L, the instruction, too (X|L,S)" in page
    assert "T is not identified: 1 independent of 5 episodes, and T takes at least 5." in page
    assert "T over all steps not identified: 1 independent of 5 episodes" in page
    page = text(html([trust_overall.overall(material(runs / "several"))]))
    assert "On average over 18 complete steps: Told what is known about the place, the model became surer by" in page
    assert re.search(r"T over all steps 0\.\d{3} \(about 0\.\d{3} to 0\.\d{3}, over 6 episodes\)", page)
    assert "T is the share of all that was gained which came from knowledge alone." in page
    assert "independent episodes 6" in page
    assert "steps with H(X) ≥ H(X|S) ≥ H(X|L,S) 18 of 18, 100.0 % (about" in page
    assert "Fieller" not in page
    assert "bootstrap" not in page


def test_t_that_is_not_identified_has_no_number_and_no_meaning(runs: Path) -> None:
    page = text(html([trust_overall.overall(material(runs / "flat"))]))
    assert "T over all steps not identified: 1 episode, and T takes at least 5" in page
    assert "T is the share" not in page
    assert "T is above" not in page
    assert "95 % interval" not in page, "one episode has none"


def test_a_step_that_lost_has_no_t(runs: Path) -> None:
    """Told everything the model was less sure: neither the table nor the plot shows a share of that."""
    made = material(runs / "lost")
    row = made.table.row(0)
    assert row["trust"] is None
    assert row["missing"] == "T: less sure when told everything"
    page = text(html(trust_plots.by_step(made)))
    assert "No step of episode 1 has a T" in page
    assert "told everything it was less sure, so T is no share" in text(html([trust_replay.replay(made)]))
    page = text(html([trust_overall.overall(made)]))
    assert "left out 2 steps with ΔH_L,S below 0" in page


def test_t_beyond_the_axis_is_marked_and_stays_in_the_table(runs: Path) -> None:
    made = material(runs / "far")
    far = [value for value in made.table.values("trust") if value is not None and value > 2]
    page = html([trust_plots.by_step(made)[0]])
    first = made.table.values("trust")[2]
    assert len(far) == 5
    assert first > 50
    assert "1 step beyond -1 to 2, marked at the edge" in text(page)
    assert f">{first:.4g}</td>" in page


def test_a_missing_entropy_breaks_the_line_and_is_counted(runs: Path) -> None:
    page = html([trust_plots.by_step(material(runs / "far"))[0]])
    episode = page.partition("Episode 2")[0]
    assert "1 step lacks an entropy." in text(episode)
    assert "1 step has no T." in text(episode)
    lines = re.findall(r'<path class="line s(\d)" d="([^"]*)"', episode.partition("</svg>")[0])
    assert [series for series, _ in lines] == ["0", "1", "1", "2"], "H(X|S) in two parts"
    assert all("L" not in d for series, d in lines if series == "1")


def test_a_few_episodes_are_drawn_and_all_by_their_means(runs: Path) -> None:
    steps, episodes = trust_plots.by_step(material(runs / "far"))
    assert "The first 3 episodes are drawn; all 5 are below" in steps.lead
    page = html([steps])
    assert "Episode 3: entropy" in page
    assert "Episode 4: entropy" not in page
    rows = re.findall(r"<tr>(.*?)</tr>", html([episodes]).partition("<tbody>")[2])
    assert [text(row).split()[:3] for row in rows] == [["1", "2", "3"], *([str(i), "3", "3"] for i in range(2, 6))]


def test_how_to_read_t_is_said_at_the_first_episode_that_has_one(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "far", tmp_path / "far")
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for sample in samples:
        if sample["result"]["episode"] == 1:
            sample["result"]["trust"] = None
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    page = text(html(trust_plots.by_step(material(folder))))
    assert "No step of episode 1 has a T" in page
    assert "Episode 2: trust T Of what knowledge and instruction together took off" in page
    assert "Episode 3: trust T As for episode 2." in page


def test_a_run_without_any_complete_step_says_why(runs: Path) -> None:
    page = text(html(trust.sections(material(runs / "lacking"))))
    assert "nothing can be said about T. They are missing for: too long 2 steps" in page
    assert "No step of episode 1 has a T" in page
    assert "missing: too long" in page


def test_a_run_in_progress_gives_what_its_rows_allow(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text()) | {"status": "interrupted"}
    (folder / "run.json").write_text(json.dumps(manifest))
    made = material(folder)
    assert made.summary is None
    page = text(html(trust.sections(made)))
    assert "T over all steps is worked out when the run is finished" in page
    assert "Episode 1: entropy" in page
    assert "on a shortest path to the goal: 5 of 7" in page
    (folder / "samples.jsonl").write_text("")
    page = text(html(trust.sections(material(folder))))
    assert "No step was taken yet." in page


def test_sureness_is_drawn_where_the_summary_has_it(runs: Path) -> None:
    page = html(trust.sections(material(runs / "scored")))
    assert "Is it as sure as it is right?" in page
    assert "ECE, 15 equal-width bins" in page
    assert "too few independent answers to tell it from chance" in page, "one episode"
    assert "AUROC (on vs off the path)" in page
    assert "Risk–coverage: abstaining when unsure" in page


# -- the replay -------------------------------------------------------------------------------------------------------


def test_the_replay_goes_through_all_steps_and_holds_each_frame_once(runs: Path) -> None:
    page = html([trust_replay.replay(material(runs / "scored"))])
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
    assert "best down or right; the goal is 10 actions away" in first
    assert "2.000 bits 1.000 bits 0.544 bits" in first


def test_a_long_replay_is_cut_and_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_replay, "MOST_STEPS", 2)
    found = trust_replay.replay(material(runs / "scored"))
    assert html([found]).count('class="step"') == 2, "no end of an episode that is not shown to its end"
    assert found.lead.endswith("The first 2 of 7 steps are here; samples.jsonl has all.")


def test_frames_that_cannot_be_shown_are_said_in_words(runs: Path, tmp_path: Path) -> None:
    crowded = text(html([trust_replay.replay(material(runs / "scored", picture_bytes=10))]))
    assert "no room for more pictures in this file; the run folder has it as frames/e0001-s0001.png" in crowded
    assert "No frames were kept in this run (--no-frames)." in text(html([trust_replay.replay(material(runs / "far"))]))
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    shutil.rmtree(folder / "frames")
    assert "The frame frames/e0001-s0001.png is not in the run folder." in text(
        html([trust_replay.replay(material(folder))])
    )


def test_in_the_viewer_frames_have_addresses(runs: Path) -> None:
    class Served(Embedded):
        def sample(self, key: str) -> str | None:
            return f"/sample/{key}"

        def picture(self, name: str) -> str | None:
            return f"/picture/{name}"

    page = html([trust_replay.replay(Material(runs / "scored", Served(runs / "scored", 0)))])
    assert '<img src="/picture/frames/e0001-s0001.png"' in page
    assert "data:image" not in page
    assert '<a href="/sample/e0001-s0001">Episode 1, step 1</a>' in page


# -- samples worth a look ---------------------------------------------------------------------------------------------


def test_steps_worth_a_look_are_different_ones(runs: Path) -> None:
    made = material(runs / "scored")
    found = trust.picks(made, 5)
    assert found is not None
    # Five moves down lie on a shortest path; at the wall it goes on down, and the last step repeats the one before.
    assert [one.key for one in found.surely_wrong] == ["e0001-s0006", "e0001-s0007"]
    assert len(found.doubtfully_right) == 5
    assert "87.5 % on the best actions" in text(str(card(found.doubtfully_right[0], made.links)))
    body = text(str(card(found.surely_wrong[0], made.links)))
    assert "Episode 1, step 6 87.5 % sure, off the shortest path" in body
    assert "down taken 87.5 %" in body
    assert "right best 0.0 %" in body
    wall = trust.picks(material(runs / "far"), 5)
    assert wall is not None
    assert len({one.key for one in wall.doubtfully_right}) == len(wall.doubtfully_right)


def test_no_probability_no_pick(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "scored", tmp_path / "run")
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for line in lines:
        line["result"]["on_shortest_path"] = None
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = trust.picks(material(folder), 5)
    assert found is not None
    assert not found.surely_wrong
    assert not found.doubtfully_right
    assert found.nothing


# -- the page of a step -----------------------------------------------------------------------------------------------


def about(folder: Path, row: int) -> str:
    made = material(folder)
    return html(trust.about(made.sample(row), made))


def test_the_page_of_a_scored_step(runs: Path) -> None:
    page = about(runs / "scored", 0)
    said = text(page)
    assert "= (2.0000 − 1.0000) / (2.0000 − 0.5436) = 1.0000 / 1.4564 = 0.6866." in said
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
    made = material(runs / "scored")
    sample = made.sample(0)
    sample.result.update(first)
    page = text(html(trust.about(sample, made)))
    assert said in page if said else "asked before" not in page, "missing is missing"


def test_a_step_without_an_action_says_why(runs: Path) -> None:
    made = material(runs / "scored")
    sample = made.sample(0)
    sample.result["action"] = None
    sample.result["conditions"]["X|L,S"] |= {"action_missing": "too_long", "probabilities": None}
    page = text(html(trust.about(sample, made)))
    assert "action none (too long), so nothing happened" in page, "nothing was written that could be read"


def test_the_page_of_a_written_step_shades_its_tokens(runs: Path) -> None:
    page = about(runs / "logprobs", 0)
    said = text(page)
    assert '<span class="tok u0" tabindex="-1">down<span class="tip"' in page
    assert "«zebra» 10.0 %" in said
    assert "other 20.0 % 20.0 % 20.0 %" in re.sub(" +", " ", said)
    assert "a person said The carpet is slow" in said
    assert "the model, in X|S kept" in said
    assert "written as down" in said
    assert "its tokens «down»" in said
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
