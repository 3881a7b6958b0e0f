"""Plots: the same bytes for the same figures, text as text, and a missing matplotlib named with its remedy."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from howsure.errors import InputError, MissingExtra
from howsure.report.plots import STYLES, plot_blocks, plot_theorem
from howsure.studies.entropy import Text, TextEntropy, entropy_of_text
from howsure.studies.theorem import Theorem, theorem

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def found() -> Theorem:
    return theorem(longest=256, paths=4, seed=0)


@pytest.fixture(scope="module")
def text() -> TextEntropy:
    letters = np.random.default_rng(0).integers(ord("a"), ord("e"), size=2000, dtype=np.uint8)
    return entropy_of_text([Text("t", letters.tobytes())], "characters", 5)


def words_of(path: Path) -> str:
    return " ".join("".join(node.itertext()) for node in ElementTree.parse(path).iter(f"{SVG}text"))


def test_the_theorem_says_each_models_limit_in_words(found: Theorem, tmp_path: Path) -> None:
    plot_theorem(found, tmp_path / "t.svg")
    shown = words_of(tmp_path / "t.svg")
    for curve in found.curves:
        assert f"{curve.name}: limit {curve.limit_bits:.3f} bits" in shown
    for words in ("bits per word", "n, words of the text", "band of 4 paths (10% to 90%)"):
        assert words in shown


def test_the_same_figures_give_the_same_bytes(found: Theorem, text: TextEntropy, tmp_path: Path) -> None:
    for suffix in ("svg", "png"):
        for name in ("a", "b"):
            plot_theorem(found, tmp_path / f"t-{name}.{suffix}")
            plot_blocks(text, tmp_path / f"b-{name}.{suffix}")
        for kind in "tb":
            first, second = (tmp_path / f"{kind}-{name}.{suffix}" for name in "ab")
            assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "t-a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "t-a.svg").read_bytes() != (tmp_path / "b-a.svg").read_bytes()


def test_blocks_that_are_too_rare_are_hollow(text: TextEntropy, tmp_path: Path) -> None:
    supported = sum(row.supported for row in text.blocks)
    assert 0 < supported < len(text.blocks), "or this would be no test"
    plot_blocks(text, tmp_path / "b.svg")
    shown = (tmp_path / "b.svg").read_text()
    for colour in (STYLES[1][0], STYLES[2][0]):
        assert shown.count(f'style="fill: {colour}; stroke: {colour}') == supported
    assert shown.count('style="fill: #ffffff; stroke: ') == 2 * (len(text.blocks) - supported)
    assert "2,000 characters; hollow: too few of each block" in words_of(tmp_path / "b.svg")


@pytest.mark.parametrize(
    ("name", "words"),
    [("t.pdf", "must end in .svg or .png"), ("t", "must end in"), ("no/t.svg", "there is no folder .*no; make it")],
)
def test_where_no_plot_can_go_is_said(name: str, words: str, found: Theorem, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        plot_theorem(found, tmp_path / name)


def test_a_path_that_cannot_be_written_is_said(found: Theorem, tmp_path: Path) -> None:
    (tmp_path / "t.svg").mkdir()
    with pytest.raises(InputError, match="t.svg is a folder; name a file in it"):
        plot_theorem(found, tmp_path / "t.svg")


def test_a_missing_matplotlib_is_named_with_its_remedy(
    found: Theorem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs the package 'matplotlib'.*pip install \"howsure\[stats\]\""):
        plot_theorem(found, tmp_path / "t.svg")


def test_neither_importing_nor_drawing_touches_pyplot(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from howsure.report.plots import plot_theorem
from howsure.studies.theorem import theorem
print("matplotlib" in sys.modules)
plot_theorem(theorem(longest=16, paths=2, seed=0), Path({str(tmp_path)!r}) / "t.png")
print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
