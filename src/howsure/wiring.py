"""Where a lower room asks for something that only an upper one can do, without importing upwards.

A run that ends wants its report, and a result in a notebook wants to show itself; both are made in `report`, which
stands above. The package itself says who does what, in `howsure/__init__`, and a room is opened when it is first asked.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_DOERS: dict[str, str] = {}


def provide(**doers: str) -> None:
    """Say who does something: `what="package.module:function"`."""
    _DOERS.update(doers)


def ask(what: str, *arguments: Any) -> Any:
    """Have it done."""
    module, _, function = _DOERS[what].partition(":")
    return getattr(import_module(module), function)(*arguments)
