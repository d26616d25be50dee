"""What happened, in order: a hash by which two runs are compared, the last events, and on demand the whole story."""

from __future__ import annotations

import hashlib
from collections import deque

Line = tuple[object, ...]
"""Time in ms, node id (0 for the world), what, details: numbers and words only, so that all processes write one."""

RECENT_COUNT = 60
HASHED_AT_ONCE = 500


class Trace:
    """Events as they come."""

    def __init__(self, *, keeps_all: bool = False) -> None:
        self._hash = hashlib.sha256()
        self._unhashed: list[str] = []
        self.count = 0
        self.lines: deque[Line] = deque(maxlen=None if keeps_all else RECENT_COUNT)
        self.keeps_all = keeps_all

    def note(self, *line: object) -> None:
        """One event more."""
        self.turn(*line)
        self.lines.append(line)

    def turn(self, *line: object) -> None:
        """A turn of a node: too many of them for the story, but each is in the hash."""
        self.count += 1
        self._unhashed.append(repr(line))  # at once: what is in it may change
        if len(self._unhashed) >= HASHED_AT_ONCE:
            self._hash_all()

    def _hash_all(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    @property
    def digest(self) -> str:
        """SHA-256 over every event in order."""
        self._hash_all()
        return self._hash.hexdigest()

    def story(self, count: int | None = None) -> str:
        """The last `count` events, or all that are kept, a line each."""
        lines = list(self.lines)[-count if count else 0 :]
        return "\n".join(f"{at!s:>8} ms  {_who(who)}  {' '.join(map(str, rest))}" for at, who, *rest in lines)


def _who(who: object) -> str:
    return "world " if who == 0 else f"node {who}"
