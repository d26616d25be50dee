"""The nouns that can be listed and changed: `quorate topics` lists them, `quorate topics create` makes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

__all__ = ["LIST", "NOUNS"]

LIST: Final = "list"
DESCRIBE: Final = "describe"


class _Listed(TyperGroup):
    """A noun whose verb may be left out: what follows it then is no verb of it.

    A topic that is called like a verb is listed with the verb: `quorate topics list create`.
    """

    without = LIST

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the verb before the arguments if they do not begin with one. `ctx` is of typer's own click."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self.without, *args]
        return super().parse_args(ctx, args)


class _Described(_Listed):
    """A noun of which there is one."""

    without = DESCRIBE


def _noun(about: str, cls: type[_Listed] = _Listed) -> typer.Typer:
    return typer.Typer(help=f"{about}; without a verb: {cls.without}.", cls=cls)


NOUNS: Final[Mapping[str, typer.Typer]] = {
    "topics": _noun("Topics"),
    "brokers": _noun("Brokers"),
    "controllers": _noun("Controllers that have registered"),
    "configs": _noun("Dynamic configs"),
    "acls": _noun("ACLs"),
    "quotas": _noun("Client quotas"),
    "users": _noun("Users with SCRAM credentials"),
    "tokens": _noun("Delegation tokens"),
    "leaders": _noun("Leaders of partitions, by broker"),
    "quorum": _noun("The quorum", _Described),
}
"""The groups by the noun of their command."""
