"""Groups of commands, of which some are studies: a study is imported when its command is asked for, not listed."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from howsure.studies import registry


class Lazy(TyperCommand):
    """A study's command: its name and its line; what it takes is found out when somebody asks."""

    def __init__(self, name: str, study: str) -> None:
        self._study = study
        self._made: Any = None
        super().__init__(name, help=registry.line_of(study))

    @property
    def made(self) -> Any:
        if self._made is None:
            from howsure.cli.studies import study_command

            self._made = study_command(self._study)
        return self._made

    @property
    def params(self) -> Any:
        return self.made.params

    @params.setter
    def params(self, _: Any) -> None:
        """Those of the command itself count."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        return self.made.make_context(*given, **more)


class StudyGroup(TyperGroup):
    """Commands that were given to it, and studies."""

    studies: ClassVar[dict[str, str]] = {}
    """By its name in this group: the study."""
    first: ClassVar[tuple[str, ...]] = ()
    """Commands that are listed before the studies."""

    @property  # type: ignore[override]
    def commands(self) -> dict[str, Any]:
        own, names = self._own, self._studies()
        first = {name: own[name] for name in self.first}
        return first | {name: Lazy(name, names[name]) for name in names if name not in own} | own

    @commands.setter
    def commands(self, own: Any) -> None:
        self._own = dict(own)

    def _studies(self) -> dict[str, str]:
        return self.studies


class Root(StudyGroup):
    """`howsure`: every study that has no group of its own, those that were added too."""

    first = ("show", "ask")

    def _studies(self) -> dict[str, str]:
        return {name: name for name in registry.names() if " " not in name}


class RunsByDefault(StudyGroup):
    """`howsure trust MAP …` is `howsure trust run MAP …`: what is none of the commands is what to run on."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)
