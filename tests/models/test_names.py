"""Model names: what is read, and what is said about what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

import howsure
from howsure.errors import InputError, MissingExtra, UnknownModel
from howsure.models import registry
from howsure.models.hf.loading import newest_checkpoint
from howsure.models.registry import BACK_ENDS, ModelName, parse_name


def test_every_registered_form_is_read_back() -> None:
    for back_end in BACK_ENDS.values():
        name = back_end.kind + (":x" if "<" in back_end.form else "")
        assert str(parse_name(name)) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("smollm2", ModelName("smollm2", "")),
        ("hf:org/model", ModelName("hf", "org/model")),
        ("hf:org/base+org/adapter", ModelName("hf", "org/base", "org/adapter")),
        ("openai:gpt-4.1:tuned+x", ModelName("openai", "gpt-4.1:tuned+x")),
        (" hf:m ", ModelName("hf", "m")),
    ],
)
def test_names(name: str, expected: ModelName) -> None:
    assert parse_name(name) == expected


def test_a_folder_whose_name_holds_a_plus_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a+b"
    folder.mkdir()
    assert parse_name(f"hf:{folder}") == ModelName("hf", str(folder))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smolm2", "did you mean 'smollm2'"),
        ("org/model", "did you mean 'hf:org/model'"),
        ("nonsense", "known are smollm2, hf:"),
        ("", "unknown model ''"),
        ("hf:", "write hf:<name>"),
        ("hf:base+", "with both given"),
        ("smollm2:x", "takes nothing after it"),
    ],
)
def test_what_is_no_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownModel, match=hint.replace("(", r"\(").replace("+", r"\+")):
        parse_name(name)


def test_newest_checkpoint_is_by_number_not_by_name(tmp_path: Path) -> None:
    for step in ("checkpoint-9", "checkpoint-10", "checkpoint-x", "logs"):
        (tmp_path / step).mkdir()
    assert newest_checkpoint(tmp_path).name == "checkpoint-10"
    (tmp_path / "config.json").write_text("{}")
    assert newest_checkpoint(tmp_path) == tmp_path


def test_a_folder_without_a_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither a config\.json nor checkpoint"):
        howsure.load(f"hf:{tmp_path}")
    with pytest.raises(InputError, match="no folder"):
        howsure.load("hf:/nowhere/at/all")


def test_a_missing_extra_gives_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "torch" else real(name))
    with pytest.raises(MissingExtra, match=r'pip install "howsure\[local\]"'):
        howsure.load("smollm2")


def test_unknown_options_are_named() -> None:
    with pytest.raises(InputError, match="unknown model option 'budget'; known are base_url"):
        howsure.load("smollm2", budget=3)
