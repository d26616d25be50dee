"""The nouns that can be listed and changed: `quorate topics` lists them, `quorate topics create` makes one."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

__all__ = ["LIST", "NOUNS"]

LIST: Final = "list"
DESCRIBE: Final = "describe"
SIMILAR: Final = 0.8
"""From which share of common letters on a word is taken for a verb (difflib): of six letters one may be wrong."""
BEGINNING: Final = 3


class _Listed(TyperGroup):
    """A noun whose verb may be left out: what follows it then is a name, and none that looks like a verb.

    A topic that is called like a verb, or nearly so, is listed with the verb: `quorate topics list create`.
    """

    without = LIST

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the verb before the arguments if they do not begin with one. `ctx` is of typer's own click."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)  # a shell asks how a word goes on: the verbs
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            if args and _is_like_a_verb(args[0]):
                named = (
                    f"; what is called so: quorate {ctx.info_name} {LIST} {args[0]}" if LIST in self.commands else ""
                )
                ctx.fail(f"{args[0]!r} is no verb of {ctx.info_name}, which has: {', '.join(self.commands)}{named}")
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
    "features": _noun("The levels of features, metadata.version and others"),
    "reassign": _noun("Where replicas are moving, and where they could be"),
    "quorum": _noun("The quorum", _Described),
}
"""The groups by the noun of their command."""


def _is_like_a_verb(word: str) -> bool:
    """Whether a word is a verb of any noun, the beginning of one, or has a letter more, less or other than one."""
    verbs = {command.name for noun in NOUNS.values() for command in noun.registered_commands if command.name}
    begins = len(word) >= BEGINNING and any(verb.startswith(word) for verb in verbs)
    return begins or bool(get_close_matches(word, verbs, n=1, cutoff=SIMILAR))
