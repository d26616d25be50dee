"""How far the log was known to be on disk: what parts a torn tail from rot.

A few bytes beside the log, rewritten in place after a flush and not synced themselves. An old mark that is too low
is safe: it only vouches for less. One that is too high is not, so before the log gets shorter the mark is lowered,
and that is synced. A mark is believed if its checksum fits; a torn one counts as none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from crc32c import crc32c

from quorate.nouns import Offset
from quorate.storage.files import FILE_MODE, write_all
from quorate.storage.names import DURABLE_MARK

_FORM: Final = "{offset:020d} {crc:08x}\n"
_SIZE: Final = len(_FORM.format(offset=0, crc=0))


class DurableMark:
    """The file with the mark of one log."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / DURABLE_MARK
        self._descriptor: int | None = None

    def read(self) -> Offset:
        """The offset below which everything was on disk; 0 if nothing is known."""
        try:
            offset, crc = self._path.read_text("ascii").split()
            return int(offset) if _crc(offset) == int(crc, 16) else 0
        except (OSError, ValueError):
            return 0

    def write(self, offset: Offset) -> None:
        """Everything below `offset` has been flushed."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        digits = f"{offset:020d}"
        content = _FORM.format(offset=offset, crc=_crc(digits)).encode("ascii")
        assert len(content) == _SIZE, content
        write_all(self._descriptor, content, 0)

    def lower(self, offset: Offset) -> None:
        """The log is about to end at `offset`: durably vouch for no more than that."""
        if self.read() > offset:
            self.write(offset)
            assert self._descriptor is not None
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Sync the mark: this was a clean end."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)
        self.abandon()

    def abandon(self) -> None:
        """Close the file and leave the mark as it is."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _crc(digits: str) -> int:
    return crc32c(digits.encode("ascii"))
