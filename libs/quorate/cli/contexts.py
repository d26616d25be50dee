"""Contexts: where a cluster is, by a name, in a file. Options that a command line lacks come from the current one.

current = "staging"

[contexts.staging]
controller = "c1:9093,c2:9093"
observer = "o1:9094"
command-config = "staging.properties"
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from quorate.cli.failures import Misused

__all__ = ["NAME", "Contexts", "chosen", "chosen_name", "contexts_path", "read_contexts", "use_context"]

FILE: Final = "QUORATE_CONTEXTS"
NAME: Final = "QUORATE_CONTEXT"
BY_DEFAULT: Final = "~/.config/quorate/contexts.toml"
CURRENT: Final = "current"
TABLE: Final = "contexts"
COMMAND_CONFIG: Final = "command-config"
KEYS: Final = ("controller", "observer", "quorum", "bootstrap-controller", COMMAND_CONFIG)
"""The options that a context may have, without their dashes."""


class Contexts(NamedTuple):
    """The content of a file: contexts by name, each its options, and the name of the current one; None if it names
    none."""

    path: Path
    current: str | None
    by_name: Mapping[str, Mapping[str, str]]


def contexts_path() -> Path:
    """Returns the path of the file of contexts, which need not be there: QUORATE_CONTEXTS, or one in ~/.config."""
    return Path(os.environ.get(FILE) or BY_DEFAULT).expanduser()


def read_contexts() -> Contexts:
    """Returns the contexts of the file; none if there is no file. QUORATE_CONTEXT names another current one.

    Raises Misused, with the file and the key, for what is no context; OSError.
    """
    import tomllib

    path = contexts_path()
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        document = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Misused(f"{path}: it is no TOML: {problem}") from None
    if unknown := document.keys() - {CURRENT, TABLE}:
        raise Misused(f"{path}: {min(unknown)} is not known; known are {CURRENT} and {TABLE}")
    named = document.get(TABLE, {})
    if not isinstance(named, dict):
        raise Misused(f"{path}: {TABLE} is a table of contexts")
    by_name = {name: _context(path, name, each) for name, each in named.items()}
    current = chosen_name() or document.get(CURRENT)
    if current is not None and current not in by_name:
        origin = NAME if chosen_name() else f"{path}: {CURRENT}"
        raise Misused(f"{origin}: {_unknown(current, by_name)}")
    return Contexts(path, current, by_name)


def chosen(option: str) -> str | None:
    """Returns what the current context has for an option, such as "observer"; None without. Raises Misused, OSError."""
    contexts = read_contexts()
    return None if contexts.current is None else contexts.by_name[contexts.current].get(option)


def chosen_name() -> str | None:
    """Returns the name in QUORATE_CONTEXT, which goes before the current one of the file; None without."""
    return os.environ.get(NAME) or None


def use_context(name: str) -> None:
    """Makes a context of the file the current one, by one line in the file. Raises Misused, OSError."""
    contexts = read_contexts()
    if name not in contexts.by_name:
        raise Misused(f"{contexts.path}: {_unknown(name, contexts.by_name)}")
    text = contexts.path.read_text("utf-8")
    table = re.search(r"^\s*\[", text, re.MULTILINE)
    end = len(text) if table is None else table.start()
    line = f"{CURRENT} = {_quoted(name)}\n"
    top, found = re.subn(rf"^\s*{CURRENT}\s*=.*\n?", lambda _: line, text[:end], count=1, flags=re.MULTILINE)
    beside = contexts.path.with_name(f"{contexts.path.name}.new")
    beside.write_text((top if found else line + top) + text[end:], "utf-8")
    beside.chmod(contexts.path.stat().st_mode & 0o777)
    beside.replace(contexts.path)


def _context(path: Path, name: str, given: Any) -> Mapping[str, str]:  # Any: TOML values
    if not isinstance(given, dict):
        raise Misused(f"{path}: {TABLE}.{name} is a table of options")
    for key, value in given.items():
        if key not in KEYS:
            raise Misused(f"{path}: {TABLE}.{name}.{key} is not known; known are {', '.join(KEYS)}")
        if not isinstance(value, str):
            raise Misused(f"{path}: {TABLE}.{name}.{key} is a text; this is {value!r}")
    found = dict(given)
    if COMMAND_CONFIG in found:  # it lies beside the file, wherever the command runs
        found[COMMAND_CONFIG] = str(path.parent / Path(found[COMMAND_CONFIG]).expanduser())
    return found


def _unknown(name: str, known: Mapping[str, object]) -> str:
    return f"no context is called {name!r}; there are: {', '.join(sorted(known)) or 'none'}"


def _quoted(name: str) -> str:
    """Returns a name as a basic string of TOML, which is JSON's string."""
    import json

    return json.dumps(name)
