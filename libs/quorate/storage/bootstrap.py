"""`bootstrap.checkpoint`: the records with which a new cluster begins, left by `quorate storage format`."""

from __future__ import annotations

from pathlib import Path

from kraft import Message
from quorate.errors import Corrupt
from quorate.records import decode_record
from quorate.storage.names import BOOTSTRAP
from quorate.storage.snapshots import SnapshotReader


def read_bootstrap(directory: Path) -> tuple[Message, ...]:
    """The bootstrap records of a log directory; none if the format left none. Raises Corrupt, naming the file."""
    path = directory / BOOTSTRAP
    if not path.exists():
        return ()
    reader = SnapshotReader(path)
    try:
        return tuple(map(decode_record, reader.values()))
    except Corrupt as damage:
        raise damage if damage.path else damage.at(path) from None
    finally:
        reader.close()
