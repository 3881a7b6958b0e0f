"""One declaration an option: a field with its type, its default, its help and its check.

    @dataclass(frozen=True)
    class McqOptions(RunOptions, ModelOptions):
        data: Annotated[str, Opt("JSON lines: question, choices, answer_index.", argument=True)]
        _: KW_ONLY
        batch_size: Annotated[int | None, Opt("At most N questions together.", least=1)] = None

From it follow the command's flag and its help (`howsure.cli.commands`), the keyword of the Python function with its
type, the check, the run's identity, and the table in the docs. A field without an `Opt` is for Python alone; one marked
`HERE` belongs to the calling process, such as whom to tell, and never goes to a worker.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, Self, TypeVar

from howsure.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Opt:
    """What an option is to a person, and which values it takes."""

    help: str
    flags: tuple[str, ...] = ()
    """As on the command line; without, the field's name. A switch that is on by default has its `--no-` too."""
    argument: bool = False
    """Whether it has a place of its own on the command line, without a flag."""
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    check: Callable[[Any], str | None] | None = None
    """What is wrong with a value, said after the flag's name; None where nothing is. Not asked about None."""
    path: Literal["local", "any", None] = None
    """A path of this machine, or an address as well, such as s3://bucket/run."""
    metavar: str | None = None
    escapes: bool = False
    """Whether the command line writes a line break as \\n."""
    identity: Literal["always", "changed", "no"] = "changed"
    """Whether run.json says it, so that another value is another run: always, or where it is not the default. An option
    that is added later stays out of the runs from before."""


@dataclass(frozen=True)
class Here:
    """Marks a field that belongs to the calling process; `shown` is whether it is in the function's signature."""

    shown: bool = True


HERE, INTERNAL = Here(), Here(shown=False)


@dataclass(frozen=True)
class Options:
    """Declared options, checked when they are made. Subclasses are frozen dataclasses."""

    def __post_init__(self) -> None:
        for option in declared(type(self)):
            value = getattr(self, option.name)
            _checked_type(option, value)
            if option.about is not None:
                _check(option.flag, value, option.about)

    def with_(self, **changes: Any) -> Self:
        """The same with some of them changed."""
        return dataclasses.replace(self, **changes)

    def for_identity(self) -> dict[str, Any]:
        """What run.json says of them."""
        always, changed = {}, {}
        for option in declared(type(self)):
            value, how = getattr(self, option.name), "no" if option.about is None else option.about.identity
            if how == "always":
                always[option.name] = value
            elif how == "changed" and value != option.default:
                changed[option.name] = value
        return always | changed

    def part(self, kind: type[Options]) -> dict[str, Any]:
        """Those that `kind` declares."""
        return {name: getattr(self, name) for name in names_of(kind) if name in names_of(type(self))}


class Declared(typing.NamedTuple):
    """A field of an options class."""

    name: str
    type: Any
    """Without None and without what only Python can give, such as an open model."""
    default: Any
    """`inspect.Parameter.empty` where it must be given."""
    about: Opt | None
    kinds: tuple[Any, ...]
    """All types that Python may give."""
    keyword_only: bool
    here: Here | None = None

    @property
    def takes_none(self) -> bool:
        return type(None) in self.kinds

    @property
    def switch(self) -> str:
        """As the command line takes it: a switch that is on by default has its other side."""
        flags = [one for one in (self.about.flags if self.about is not None else ()) if one.startswith("--")]
        if flags:
            return flags[0]
        return f"{self.flag}/--no-{self.flag[2:]}" if self.default is True else self.flag

    @property
    def flag(self) -> str:
        """Its name as an error or a page writes it."""
        if self.about is not None and self.about.flags:
            return next(flag for flag in self.about.flags if flag.startswith("--")).partition("/")[0]
        return f"--{self.name.replace('_', '-')}"


def declared(kind: type[Options]) -> tuple[Declared, ...]:
    """The fields of an options class: its own before those that it shares with others."""
    fields: tuple[Declared, ...] = _fields_of(kind)  # type: ignore[arg-type]  # mypy: a class with fields has no hash
    return fields


@cache
def _fields_of(kind: Any) -> tuple[Declared, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    order = [name for base in kind.__mro__ for name in vars(base).get("__annotations__", {})]
    fields = sorted(dataclasses.fields(kind), key=lambda field: order.index(field.name))
    return tuple(_declared(field, hints[field.name]) for field in fields)


def names_of(kind: type[Options]) -> tuple[str, ...]:
    return tuple(option.name for option in declared(kind))


def _declared(field: dataclasses.Field[Any], hint: Any) -> Declared:
    if field.default_factory is not dataclasses.MISSING:
        raise TypeError(f"{field.name}: an option has a default that can be shown, not a factory")
    about, here = None, None
    if typing.get_origin(hint) is Annotated:
        about = next((one for one in hint.__metadata__ if isinstance(one, Opt)), None)
        here = next((one for one in hint.__metadata__ if isinstance(one, Here)), None)
        hint = hint.__origin__
    kinds = [hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = list(typing.get_args(hint))
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return Declared(field.name, _on_command_line(kinds), default, about, tuple(kinds), bool(field.kw_only), here)


def _on_command_line(kinds: list[Any]) -> Any:
    """What the command line makes of a text: the widest of the plain types, or a list of one."""
    several = [kind for kind in kinds if typing.get_origin(kind) in (list, tuple, Sequence)]
    if several:
        items = [kind for kind in typing.get_args(several[0]) if kind in (int, float)]
        return list[items[0]] if len(items) == 1 else list[str]  # type: ignore[valid-type]
    for kind in (float, int, bool, str, Path):
        if kind in kinds:
            return kind
    return next((kind for kind in kinds if kind is not type(None)), str)


def signature_of(kind: type[Options], returns: Any = inspect.Signature.empty) -> inspect.Signature:
    """The signature of the Python function: its own options first, the shared ones after them."""
    hints = typing.get_type_hints(kind)
    parameters = []
    for option in declared(kind):
        place = inspect.Parameter.KEYWORD_ONLY if option.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        if option.here is None or option.here.shown:
            parameters.append(
                inspect.Parameter(option.name, place, default=option.default, annotation=hints[option.name])
            )
    order = [field.name for field in dataclasses.fields(kind)]  # in which positions are counted
    parameters.sort(key=lambda one: (one.kind, 0 if one.kind is one.KEYWORD_ONLY else order.index(one.name)))
    return inspect.Signature(parameters, return_annotation=returns)


def takes(options: Callable[P, Any]) -> Callable[[Callable[[Any], R]], Callable[P, R]]:
    """A function of options as Python calls it: with keywords, whose names and types editors and `help()` know."""
    kind: Any = options

    def made(function: Callable[[Any], R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = [name for name in kwargs if name not in names_of(kind)]
            if unknown:
                known = ", ".join(inspect.signature(call).parameters)
                raise TypeError(f"{function.__name__}() has no option {unknown[0]!r}; known are {known}")
            return function(options(*args, **kwargs))

        lines = [f"    {one.name}: {one.about.help}" for one in declared(kind) if one.about is not None]
        returns = inspect.signature(function, eval_str=True).return_annotation
        call.__name__ = call.__qualname__ = function.__name__
        call.__module__ = function.__module__
        call.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n\nOptions:", *lines])
        call.__signature__ = signature_of(kind, returns)  # type: ignore[attr-defined]
        return call

    return made


def table_of(kind: type[Options]) -> Iterator[tuple[str, str, str]]:
    """Rows for the docs: the flag, the default, and what it is."""
    for option in declared(kind):
        if option.about is not None:
            name = option.name.upper() if option.about.argument else option.switch
            known = option.default not in (inspect.Parameter.empty, None) and not isinstance(option.default, bool)
            yield name, str(option.default) if known else "", option.about.help


# -- checks -----------------------------------------------------------------------------------------------------------


_NOUNS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", type(None): "None"}


def _checked_type(option: Declared, value: Any) -> None:
    """Refuse at once what would end the work late: Python gives anything, a command line only texts."""
    if option.here is None and not any(_is(kind, value) for kind in option.kinds):
        nouns = [_NOUNS[kind] for kind in option.kinds if kind in _NOUNS and kind is not type(None)]
        wanted = " or ".join(nouns) or "what the function's signature says"
        raise InputError(f"{option.flag} must be {wanted}, not {value!r}")


def _is(kind: Any, value: Any) -> bool:
    if kind in (int, float):
        return isinstance(value, numbers.Real if kind is float else numbers.Integral) and not isinstance(value, bool)
    origin = typing.get_origin(kind)
    if origin in (list, tuple, Sequence):
        return isinstance(value, (list, tuple))
    if origin is not None and isinstance(origin, type):
        return isinstance(value, origin)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return not isinstance(value, (bool, int, float, str, type(None)))
    return isinstance(value, kind)


def _check(flag: str, value: Any, about: Opt) -> None:
    if value is None:
        return
    if (about.least is not None or about.most is not None) and not _within(value, about.least, about.most):
        raise InputError(f"{flag} must be {_range(about.least, about.most)}, not {value}")
    if about.choices:
        check_choice(flag, value, about.choices)
    if about.check is not None and (problem := about.check(value)) is not None:
        raise InputError(f"{flag} {problem}")


def _within(value: Any, least: float | None, most: float | None) -> bool:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return (least is None or value >= least) and (most is None or value <= most)


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return "0 or more" if least == 0 else f"at least {least:.12g}"
    return f"{least:.12g} to {most:.12g}" if least is not None else f"at most {most:.12g}"


def check_choice(flag: str, given: str, known: Sequence[str]) -> None:
    """Refuse a word that is not one of the known ones, and say which those are."""
    if given not in known:
        raise InputError(f"{flag} must be one of {', '.join(known)}, not {given!r}")
