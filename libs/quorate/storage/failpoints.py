"""Named places where a test may stop the world: between any two steps that a crash can part."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

NAMES: Final = frozenset(
    {
        "append.before_write",
        "append.after_write",
        "log.before_fsync",
        "log.after_fsync",
        "log.reserve",
        "log.before_retire",
        "log.after_retire",
        "file.before_read",
        "file.before_tmp_fsync",
        "file.before_rename",
        "file.after_rename",
        "state.before_tmp_fsync",
        "state.before_rename",
        "state.after_rename",
        "snapshot.before_freeze",
        "snapshot.before_rename",
        "snapshot.after_rename",
        "salvage.after_promise",
        "salvage.before_cut",
        "salvage.after_cut",
        "snapshot.before_retire",
        "snapshot.chunk_received",
        "truncate.before",
        "truncate.after",
    }
)
"""`log` is a segment, `state` is quorum-state, `file` is any other that is replaced whole."""

ENVIRONMENT: Final = "QUORATE_FAILPOINTS"
"""`name:action@count,…`: at the `count`th time that `name` is reached (1 if not said), do `action`."""

Hook = Callable[[], None]
_hooks: dict[str, Hook] = {}


def set_failpoint(name: str, hook: Hook | None) -> None:
    """Call `hook` whenever `name` is reached; None takes it away. For tests."""
    assert name in NAMES, name
    if hook is None:
        _hooks.pop(name, None)
    else:
        _hooks[name] = hook


def reach(name: str) -> None:
    """This place has been reached."""
    if _hooks and (hook := _hooks.get(name)):
        hook()


def set_from_environment(environ: Mapping[str, str]) -> None:
    """Arm what QUORATE_FAILPOINTS asks for, in a process of its own. Raises ValueError, naming the part.

    Actions: `kill` (this process, at once), and the errors `eio` and `enospc`.
    """
    for part in filter(None, environ.get(ENVIRONMENT, "").split(",")):
        name, _, rest = part.partition(":")
        action, _, count = rest.partition("@")
        if name not in NAMES or action not in _ACTIONS or not (count or "1").isdecimal():
            raise ValueError(f"{ENVIRONMENT}: {part!r} is not name:action@count; actions are {', '.join(_ACTIONS)}")
        set_failpoint(name, at_count(int(count or "1"), _ACTIONS[action]))


def at_count(count: int, action: Hook) -> Hook:
    """A hook that does `action` at its `count`th call, and at every one after it."""
    assert count > 0, count
    left = count

    def hook() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            action()

    return hook


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(number: int) -> Hook:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


_ACTIONS: Final[Mapping[str, Hook]] = {"kill": _kill, "eio": _fail(errno.EIO), "enospc": _fail(errno.ENOSPC)}
