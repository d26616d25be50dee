"""The state of a metadata directory as of any offset, from files alone: a checkpoint, and the log after it.

Files do not say what is committed. Everything that is in the log is applied, as a voter that starts would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from quorate.cli.failures import Failed
from quorate.cli.reading import FileKind, files_below, first_offset_of, kind_of, map_file, metadata_directory
from quorate.cli.record_json import control_of
from quorate.errors import Corrupt
from quorate.metadata.faults import ReplayFault
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.records import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord, decode_record
from quorate.storage.durable_mark import DurableMark
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.names import LOG, checkpoint_file, checkpoint_id, checkpoint_ids, segment_bases, segment_file
from quorate.storage.recovery import Course, scan
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import BatchHeader, data_values, records
from quorate.wire.codec import decode

__all__ = ["Offline", "load"]

FIRST: Final = OffsetAndEpoch(epoch=0, offset=0)
"""The checkpoint at offset 0 brings the first voters and no state."""


@dataclass(slots=True, kw_only=True)
class Offline:
    """A state and where it comes from: `state` has every record below `as_of_offset`.

    `last_timestamp` (ms since 1970) and `epoch` are those of the last record; `voters` is None if the log has none.
    """

    path: Path
    state: ClusterState = field(default_factory=ClusterState)
    as_of_offset: Offset = 0
    epoch: Epoch = 0
    last_timestamp: int | None = None
    kraft_version: int = 0
    voters: VotersRecord | None = None
    checkpoint: Path | None = None
    notes: list[str] = field(default_factory=list)


def load(path: Path, *, as_of: Offset | None = None) -> Offline:
    """The state at `path`, a directory, a checkpoint or a log, with all records below `as_of`, or all.

    Raises Failed for an offset that cannot be reached, Corrupt for damage before it, OSError.
    """
    found = Offline(path=path)
    if path.is_dir():
        _load_directory(metadata_directory(path).partition, found, as_of)
        return found
    (file,) = files_below(path)
    if kind_of(file) is FileKind.CHECKPOINT:
        _load_checkpoint(file, found)
    elif kind_of(file) is FileKind.LOG:
        base = first_offset_of(file)
        if base > 0:
            raise Failed(f"{file} begins at offset {base}: the state before it is in a checkpoint, give the directory")
        _Tail(found, as_of).segment(file, Course(0, floor=FIRST, listed=(), durable=0), is_last=True)
    else:
        raise Failed(f"{file} holds no state: a directory, a checkpoint or a .log does")
    _require_reached(found, as_of)
    return found


def _load_directory(partition: Path, found: Offline, as_of: Offset | None) -> None:
    if not partition.is_dir():
        raise Failed(f"{found.path} has no metadata log yet")
    checkpoints, bases = checkpoint_ids(partition), segment_bases(partition)
    if FIRST in checkpoints:
        _load_checkpoint(checkpoint_file(partition, FIRST), found)
    usable = [each for each in checkpoints if each != FIRST and (as_of is None or each.offset <= as_of)]
    base = max(usable, key=lambda each: each.offset, default=None)
    if base is not None:
        _load_checkpoint(checkpoint_file(partition, base), found)
    elif bases and bases[0] > 0:
        later = [each for each in checkpoints if each.offset >= bases[0]]
        rule = (
            f"the first state that can be rebuilt is at {later[0].offset}" if later else "there is no checkpoint of it"
        )
        raise Failed(f"{partition} begins at offset {bases[0]}: of what lies before, {rule}")
    _load_tail(partition, bases, found, as_of, floor=base or FIRST)
    _require_reached(found, as_of)


def _load_checkpoint(path: Path, found: Offline) -> None:
    reader = SnapshotReader(path)
    try:
        for kind, value in reader.control_records():
            _take_control(found, int(kind), value)
        snapshot = checkpoint_id(path) or FIRST
        found.state.load(map(decode_record, reader.values()), snapshot.offset)
    except ReplayFault as fault:
        raise Corrupt(str(fault), path=path) from None
    except Corrupt as damage:
        raise damage.at(path) from None
    finally:
        reader.close()
    found.as_of_offset, found.epoch, found.checkpoint = snapshot.offset, snapshot.epoch, path


def _load_tail(
    partition: Path, bases: list[Offset], found: Offline, as_of: Offset | None, *, floor: OffsetAndEpoch
) -> None:
    listed, durable = EpochsFile(partition).read(), DurableMark(partition).read()
    tail, course = _Tail(found, as_of), None
    for base, following in zip_longest(bases, bases[1:]):
        if following is not None and following <= floor.offset:
            continue  # the checkpoint has it all
        path = segment_file(partition, base, LOG)
        if course is None:
            course = Course(base, floor=floor, listed=listed, durable=durable)
        elif course.offset != base:
            raise Corrupt(f"the segment at offset {base} follows one that ends at {course.offset}", path=path)
        tail.segment(path, course, is_last=following is None)
        if as_of is not None and found.as_of_offset >= as_of:
            return


class _Tail:
    """The log after a checkpoint, applied up to an offset."""

    def __init__(self, found: Offline, as_of: Offset | None) -> None:
        self._found = found
        self._from = found.as_of_offset
        self._until: float = float("inf") if as_of is None else as_of

    def segment(self, path: Path, course: Course, *, is_last: bool) -> None:
        """Apply one segment; damage behind the wanted offset is of no account."""
        headers: list[BatchHeader] = []
        data = bytes(map_file(path))
        damage: Corrupt | None = None
        try:
            torn = scan(data, path, course, is_last=is_last, note=lambda header, _: headers.append(header))
            if torn is not None and torn.offset < self._until:
                self._found.notes.append(
                    f"the log is torn at byte {torn.position} of {path.name} (offset {torn.offset}): {torn.reason}"
                )
        except Corrupt as problem:
            damage = problem
        position = 0
        for header in headers:
            if header.next_offset > self._from and header.base_offset < self._until:
                self._batch(path, data, position, header)
            position += header.size
        if damage is not None and self._found.as_of_offset < self._until:
            end = self._found.as_of_offset
            raise Corrupt(
                f"{damage.reason} (--as-of {end} shows the state before)", path=path, position=damage.position
            )

    def _batch(self, path: Path, data: bytes, position: int, header: BatchHeader) -> None:
        found = self._found
        try:
            if header.is_control:
                for record in records(data, position, header):
                    kind, _, _ = control_of(record)
                    if record.offset < self._until:
                        _take_control(found, kind, record.value or b"")
                end = int(min(header.next_offset, self._until))
            else:
                end = self._data(data, position, header)
        except Corrupt as damage:
            raise Corrupt(damage.reason, path=path, position=position) from None
        except ReplayFault as fault:
            raise Corrupt(
                f"{fault} (--as-of {fault.offset} shows the state before)", path=path, position=position
            ) from None
        found.state.settle()
        found.as_of_offset, found.epoch, found.last_timestamp = end, header.epoch, header.max_timestamp

    def _data(self, data: bytes, position: int, header: BatchHeader) -> Offset:
        offset = header.base_offset
        for value in data_values(data, position, header):
            if offset >= self._until:
                break
            if offset >= self._from:
                self._found.state.apply(decode_record(value), offset)
            offset += 1
        return offset


def _take_control(found: Offline, kind: int, value: bytes) -> None:
    """What raft keeps in the log: voters, their version, and a checkpoint's time. Others are of no account here."""
    version = int.from_bytes(value[:2], "big")
    if version != 0:
        return
    match kind:
        case 3:
            found.last_timestamp = decode(SnapshotHeaderRecord, value, version).last_contained_log_timestamp or None
        case 5:
            found.kraft_version = decode(KRaftVersionRecord, value, version).k_raft_version
        case 6:
            found.voters = decode(VotersRecord, value, version)


def _require_reached(found: Offline, as_of: Offset | None) -> None:
    if as_of is None:
        return
    if found.as_of_offset > as_of:
        raise Failed(f"{found.path} begins with the state at offset {found.as_of_offset}; {as_of} lies before it")
    if found.as_of_offset < as_of:
        raise Failed(f"{found.path} ends at offset {found.as_of_offset}; --as-of {as_of} lies beyond it")
