"""Failpoints: named places in the code at which a test can kill the process or make a write fail."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

NAMES: Final = frozenset(
    {
        "controller.deciding",
        "controller.encoding",
        "controller.applying",
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
        "mark.before_write",
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
"""The failpoints by name. `log` is a segment, `state` is quorum-state, `file` is any other file that is replaced whole,
`mark` the durable mark; `controller` is a write of the active controller (services/controller/failing.py).
"""

ENVIRONMENT: Final = "QUORATE_FAILPOINTS"
"""The environment variable that sets failpoints: `name:action@count,…`.

The action runs from the `count`th time on that the failpoint is reached; `count` is 1 by default.
"""

Hook = Callable[[], None]
_hooks: dict[str, Hook] = {}


def set_failpoint(name: str, hook: Hook | None) -> None:
    """Sets a hook that is called whenever failpoint `name` is reached; None removes it. For tests."""
    assert name in NAMES, name
    if hook is None:
        _hooks.pop(name, None)
    else:
        _hooks[name] = hook


def any_is_set() -> bool:
    """Returns whether any failpoint has a hook."""
    return bool(_hooks)


def reach(name: str) -> None:
    """Runs the hook of failpoint `name`, if one is set."""
    if _hooks and (hook := _hooks.get(name)):
        hook()


def set_from_environment(environ: Mapping[str, str]) -> None:
    """Sets the failpoints that QUORATE_FAILPOINTS lists, as `name:action@count,…`. Raises ValueError, naming the part.

    Actions: `kill` (ends this process at once by SIGKILL), and the errors `eio` and `enospc`. They run from the
    `count`th time on, by default from the first.
    """
    for part in filter(None, environ.get(ENVIRONMENT, "").split(",")):
        name, _, rest = part.partition(":")
        action, _, count = rest.partition("@")
        if name not in NAMES or action not in _ACTIONS or not (count or "1").isdecimal():
            raise ValueError(f"{ENVIRONMENT}: {part!r} is not name:action@count; actions are {', '.join(_ACTIONS)}")
        set_failpoint(name, at_count(int(count or "1"), _ACTIONS[action]))


def at_count(count: int, action: Hook) -> Hook:
    """Returns a hook that runs `action` at its `count`th call, and at every later one."""
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
