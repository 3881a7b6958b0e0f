"""Model names: one string that means the same on the command line, in Python and in a run's manifest."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import NamedTuple

from howsure.errors import InputError, UnknownModel


class ModelName(NamedTuple):
    """A parsed name: the kind of back end, what it should open, and a LoRA adapter where one is added."""

    kind: str
    target: str
    adapter: str | None = None

    def __str__(self) -> str:
        if not self.target:
            return self.kind
        return f"{self.kind}:{self.target}" + (f"+{self.adapter}" if self.adapter else "")


def parse(name: str, kinds: dict[str, bool]) -> ModelName:
    """Read a name; `kinds` maps each known kind to whether it takes something after a colon.

    >>> parse("hf:base+adapter", {"hf": True})
    ModelName(kind='hf', target='base', adapter='adapter')
    """
    kind, colon, target = name.strip().partition(":")
    if kind not in kinds:
        raise UnknownModel(_unknown(name, kinds))
    if not kinds[kind]:
        if colon:
            raise UnknownModel(f"model {name!r}: {kind!r} takes nothing after it")
        return ModelName(kind, "")
    if not target:
        raise UnknownModel(f"model {name!r} names nothing: write {kind}:<name>")
    if kind != "hf" or _exists(target):
        return ModelName(kind, target)
    base, plus, adapter = target.partition("+")
    if plus and not (base and adapter):
        raise UnknownModel(f"model {name!r}: write hf:<base>+<adapter>, with both given")
    return ModelName(kind, base, adapter or None)


def newest_checkpoint(folder: Path) -> Path:
    """The folder itself, or the newest of its `checkpoint-*` folders where it holds no model of its own."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    if any(os.path.lexists(folder / name) for name in ("config.json", "adapter_config.json")):
        return folder
    steps = [(int(m[1]), p) for p in folder.iterdir() if (m := re.fullmatch(r"checkpoint-(\d+)", p.name))]
    if not steps:
        raise InputError(f"{folder} holds neither a config.json nor checkpoint-* folders, so it is no model")
    newest = max(steps)[1]
    if not newest.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{newest} leads out of {folder}: name the folder that it leads to")
    return newest


def _exists(path: str) -> bool:
    """Whether there is such a file or folder; a text that cannot be a path at all names none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _unknown(name: str, kinds: dict[str, bool]) -> str:
    forms = [f"{kind}:<name>" if takes else kind for kind, takes in kinds.items()]
    close = difflib.get_close_matches(name.partition(":")[0], list(kinds), n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    if not close and ("/" in name or _exists(name)):
        hint = f"did you mean 'hf:{name}'? "
    return f"unknown model {name!r}: {hint}known are {', '.join(forms)}; `howsure models` explains each"
