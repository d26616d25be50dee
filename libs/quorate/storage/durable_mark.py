"""The durable mark: the offset up to which the log is known to be flushed; it distinguishes a torn tail from damage.

It is a small file beside the log, rewritten in place after flushes and not synced. An old mark that is too low is safe:
it protects fewer records. A mark that is too high is not, so before a truncation the mark is lowered and synced. A mark
counts only if its checksum matches; a torn one counts as none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.failpoints import reach
from quorate.storage.files import FILE_MODE, naming, write_all
from quorate.storage.names import DURABLE_MARK

_FORM: Final = "{offset:020d} {crc:08x}\n"
_SIZE: Final = len(_FORM.format(offset=0, crc=0))


class DurableMark:
    """The file of one log with its durable mark: the offset below which the log is known to be flushed."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / DURABLE_MARK
        self._descriptor: int | None = None

    def read(self) -> Offset:
        """Returns the offset below which every record was on disk (exclusive); 0 if there is no valid mark."""
        try:
            offset, crc = self._path.read_text("ascii").split()
            return int(offset) if _crc(offset) == int(crc, 16) else 0
        except (OSError, ValueError):
            return 0

    def write(self, offset: Offset) -> None:
        """Sets the mark: every record below `offset` has been flushed. The file itself is not synced."""
        assert offset >= 0, offset
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        digits = f"{offset:020d}"
        content = _FORM.format(offset=offset, crc=_crc(digits)).encode("ascii")
        assert len(content) == _SIZE, content
        with naming(self._path):
            reach("mark.before_write")
            write_all(self._descriptor, content, 0)

    def lower(self, offset: Offset) -> None:
        """Lowers the mark to `offset` if it is higher, and syncs it, before the log is truncated there.

        Raises Corrupt if the file was replaced meanwhile.
        """
        if self.read() > offset:
            self.write(offset)
            assert self._descriptor is not None
            with naming(self._path):
                os.fsync(self._descriptor)
        if (found := self.read()) > offset:  # a start would take the cut for damage
            why = f"it says {found}, and was lowered to {offset}: the file is another one than was opened"
            raise Corrupt(why, path=self._path, position=0)

    def close(self) -> None:
        """Syncs the mark and closes its file, at a clean shutdown."""
        if self._descriptor is not None:
            with naming(self._path):
                os.fsync(self._descriptor)
        self.abandon()

    def abandon(self) -> None:
        """Closes the file without a sync."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _crc(digits: str) -> int:
    return crc32c(digits.encode("ascii"))
