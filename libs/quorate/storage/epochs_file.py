"""`leader-epoch-checkpoint`: where each epoch begins in the log, which a batch says of itself without a checksum.

The leader epoch of a batch lies outside of what its checksum covers. The file is written before the first batch of an
epoch is, by Kafka too, so an epoch in the log that the file does not list was never written: it is a flipped bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quorate.nouns import Epoch, Offset
from quorate.storage.files import replace_whole
from quorate.storage.names import LEADER_EPOCHS

VERSION = "0"


class EpochsFile:
    """The file of one log."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LEADER_EPOCHS

    def read(self) -> tuple[tuple[Epoch, Offset], ...]:
        """(epoch, start offset), oldest first; none if there is no such file, or none that can be read.

        It is made anew from the log at every start, so one that is damaged is as good as none.
        """
        try:
            version, count, *lines = self._path.read_text("ascii").split("\n")
            entries = tuple((int(epoch), int(start)) for epoch, start in map(str.split, filter(None, lines)))
        except (OSError, ValueError):
            return ()
        sound = version == VERSION and count == str(len(entries)) and entries == tuple(sorted(entries))
        return entries if sound else ()

    def write(self, entries: Sequence[tuple[Epoch, Offset]], *, leo: Offset) -> None:
        """Durably. `entries` as an EpochCache has them; those without a record in the log are left out."""
        ends = [start for _, start in entries[1:]] + [leo]
        kept = [(epoch, start) for (epoch, start), end in zip(entries, ends, strict=True) if start < end]
        lines = [VERSION, str(len(kept)), *(f"{epoch} {start}" for epoch, start in kept)]
        replace_whole(self._path, ("\n".join(lines) + "\n").encode("ascii"))
