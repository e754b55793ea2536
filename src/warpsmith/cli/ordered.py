"""Groups whose help lists commands in a chosen order: typer lists single commands before groups of commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def ordered_group(names: tuple[str, ...]) -> type[TyperGroup]:
    """A group class whose help lists its commands in the order of `names`, which must name all of them."""

    class OrderedGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return sorted(super().list_commands(ctx), key=names.index)

    return OrderedGroup
