"""The file `leader-epoch-checkpoint`: the start offset of each epoch, to detect a flipped bit in a batch's epoch.

The checksum of a batch does not cover its leader epoch. Of the metadata log the file is written before the first batch
of an epoch, as in Kafka, so an epoch in the log that the file does not list was never written: it is a flipped bit. Of
a data partition it is written before the records of the epoch count as flushed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quorate.nouns import Epoch, Offset
from quorate.storage.files import replace_unsynced, replace_whole
from quorate.storage.names import LEADER_EPOCHS

VERSION = "0"


class EpochsFile:
    """The `leader-epoch-checkpoint` file of one log."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LEADER_EPOCHS

    def read(self) -> tuple[tuple[Epoch, Offset], ...]:
        """Returns (epoch, start offset) pairs, oldest first; empty if the file is missing or unreadable.

        Every start rebuilds the file from the log, so a damaged file is treated as a missing one.
        """
        try:
            version, count, *lines = self._path.read_text("ascii").split("\n")
            entries = tuple((int(epoch), int(start)) for epoch, start in map(str.split, filter(None, lines)))
        except (OSError, ValueError):
            return ()
        sound = version == VERSION and count == str(len(entries)) and entries == tuple(sorted(entries))
        return entries if sound else ()

    def write(self, entries: Sequence[tuple[Epoch, Offset]], *, leo: Offset, is_durable: bool = True) -> None:
        """Writes the entries of an EpochCache. Epochs without a record below `leo` are left out.

        One that is not durable outlives a kill; a caller that counts on it after a power loss has to sync it.
        """
        assert list(entries) == sorted(entries), entries  # I-09
        assert not entries or entries[-1][1] <= leo, (entries[-1], leo)
        ends = [*(start for _, start in entries[1:]), leo][: len(entries)]
        kept = [(epoch, start) for (epoch, start), end in zip(entries, ends, strict=True) if start < end]
        lines = [VERSION, str(len(kept)), *(f"{epoch} {start}" for epoch, start in kept)]
        replace = replace_whole if is_durable else replace_unsynced
        replace(self._path, ("\n".join(lines) + "\n").encode("ascii"))
