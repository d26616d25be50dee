"""What a snapshot must hold, of whatever node: a word of all that is committed below it, and who votes there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.metadata.configs import BROKER
from quorate.nouns import Offset
from quorate.raft.voters import VoterSet
from quorate.records import ConfigRecord, VotersRecord, encode_record
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import ControlType
from quorate.wire.codec import decode
from services.quorum.batches import voter_set
from tests.sim_driver.checker import require

if TYPE_CHECKING:
    from tests.sim_driver.checker import Checker

VALUES: Final = 20


def state_at(checker: Checker, offset: Offset) -> list[bytes]:
    """Its records."""
    digest = checker.digest_at(offset)
    return [record(f"{digest.hex()}/{number}") for number in range(VALUES)]


def record(what: str, padding: int = 0) -> bytes:
    """A record that says `what`: the quorum takes nothing else (`services.quorum.appends`)."""
    return encode_record(ConfigRecord(resource_type=BROKER, resource_name="", name=what, value="-" * padding), 0)


def check_snapshot(checker: Checker, snapshot: bytes, offset: Offset, path: Path) -> None:
    """A receiver of it has the state at `offset`; at kraft.version 0 nothing says who votes. Raises Violation."""
    path.write_bytes(snapshot)
    reader = SnapshotReader(path)
    try:
        values = [bytes(value) for value in reader.values()]
        found = [value for kind, value in reader.control_records() if kind is ControlType.KRAFT_VOTERS]
    finally:
        reader.close()
    require("I-25", values == state_at(checker, offset), "a snapshot of another state", offset)
    told = [voter_set(decode(VotersRecord, value, 0)) for value in found]
    expected: list[VoterSet] = [voters for at, voters in checker.voter_sets if 0 <= at < offset][-1:]
    require("I-26", told == expected, "a snapshot with other voters", offset, told, expected)
