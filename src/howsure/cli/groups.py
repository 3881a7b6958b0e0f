"""Studies with commands of their own, of which one is the study itself."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class RunsByDefault(TyperGroup):
    """`howsure trust MAP …` is `howsure trust run MAP …`: what is none of the commands is what to run on."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)
