"""What each client does, one after the other: a step has a name and a call, whose outcome is one line.

A broker answers reads by what it has applied, which is behind what a controller has answered: a read is repeated until
it says what it has to, or for PATIENCE_S, and then its last outcome counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["Step", "run"]

PATIENCE_S: Final = 15.0
PAUSE_S: Final = 0.1
Step = tuple[str, Callable[[], object], Callable[[str], bool] | None]


def run(steps: Iterable[Step], name_of: Callable[[Exception], str]) -> None:
    """Prints a line for each step: its name, and what came of it; `name_of` names an error."""
    for name, call, is_there in steps:
        ends = time.monotonic() + PATIENCE_S
        said = _outcome(call, name_of)
        while is_there is not None and not is_there(said) and time.monotonic() < ends:
            time.sleep(PAUSE_S)
            said = _outcome(call, name_of)
        print(f"{name}: {said}", flush=True)


def _outcome(call: Callable[[], object], name_of: Callable[[Exception], str]) -> str:
    try:
        found = call()
    except Exception as problem:  # whatever the client raises is what its user sees
        return name_of(problem)
    return "done" if found is None else str(found)
