"""Rebuilds the metadata state at any offset from the files of a directory: a checkpoint, and the log after it.

The files do not contain the high watermark, so all records in the log are applied, committed or not. Records of an open
transaction are left out by default: they count only at its end, and a failover aborts it (KIP-868).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from kraft import Message
from quorate.cli.as_of import AsOf, Moment
from quorate.cli.failures import Failed
from quorate.cli.lost_scram import lost_credentials
from quorate.cli.reading import FileKind, files_below, first_offset_of, kind_of, map_file, metadata_directory
from quorate.cli.record_json import control_of
from quorate.errors import Corrupt
from quorate.metadata.faults import ReplayFault
from quorate.metadata.features import unfamiliar
from quorate.metadata.scram_lost import described
from quorate.metadata.state import ClusterState
from quorate.metadata.transactions import Transaction
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.records import KRaftVersionRecord, LeaderChangeMessage, SnapshotHeaderRecord, VotersRecord, decode_record
from quorate.storage.durable_mark import DurableMark
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.names import (
    BOOTSTRAP_ID,
    LOG,
    checkpoint_file,
    checkpoint_id,
    checkpoint_ids,
    segment_bases,
    segment_file,
)
from quorate.storage.recovery import ScanPosition, scan
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import BatchHeader, batches, data_values, records
from quorate.wire.codec import decode

__all__ = ["Offline", "Watch", "load"]


@dataclass(slots=True, kw_only=True)
class Offline:
    """A rebuilt state and its origin: `state` has all records below `as_of_offset`, or below an open `transaction`.

    `last_timestamp` (ms since 1970) and `epoch` are those of the last record; `voters` is None if the log has none.
    `path` is the source's name; `high_watermark` is None unless a live quorum said it.
    """

    path: Path | str
    state: ClusterState = field(default_factory=ClusterState)
    as_of_offset: Offset = 0
    epoch: Epoch = 0
    last_timestamp: int | None = None
    kraft_version: int = 0
    voters: VotersRecord | None = None
    checkpoint: Path | None = None
    transaction: Transaction | None = None
    high_watermark: Offset | None = None
    notes: list[str] = field(default_factory=list)
    watch: Watch | None = None
    elected: tuple[NodeId, ...] = ()
    """The voters of the last election in the log that was read."""
    has_quorum: bool = True
    """Whether the source tells the voters and kraft.version, if there are any records of them."""
    outdated: str = ""
    """Why the state may be long over, though it is the present one of its source; empty if nothing says so."""


class Watch(Protocol):
    """Is called with each record of a log while `load` rebuilds a state from it."""

    since: AsOf
    """From where on it wants them. It gets the earlier ones, too, that follow the checkpoint at the begin."""

    def begin(self, found: Offline) -> None:
        """Called with the state before the log, or before what follows its checkpoint."""

    def before(self, found: Offline, header: BatchHeader, record: Message, offset: Offset) -> None:
        """Called before the record at `offset` is applied."""

    def after(self, found: Offline, header: BatchHeader, offset: Offset) -> None:
        """Called after the record at `offset` is applied; of a control record only this is called."""


def load(
    path: Path,
    *,
    name: str | None = None,
    as_of: AsOf | None = None,
    with_open_transaction: bool = False,
    watch: Watch | None = None,
) -> Offline:
    """Rebuilds the state from a directory, a checkpoint or a log, with all records below `as_of` (None: all records).

    Of a time it is the state just before the first batch that is later. `name` is what the source is called in place of
    its path. Records of an open transaction are applied only `with_open_transaction`, as Kafka publishes them only at
    its end. With a `watch` the state is rebuilt from before its `since`, if the files allow it; a time there becomes an
    offset. Raises Failed if the files do not reach `as_of`, or lack offsets below it; Corrupt for damage before it;
    OSError.
    """
    found = Offline(path=name or path, watch=watch)
    source = metadata_directory(path).partition if path.is_dir() else path
    if isinstance(as_of, Moment):
        as_of = _at(as_of, source, found)
    if watch is not None and isinstance(watch.since, Moment):
        watch.since = _at(watch.since, source, found)
    found = _load_directory(source, found, as_of) if path.is_dir() else _load_file(source, found, as_of)
    _require_reached(found, as_of)
    found.transaction = found.state.transactions.open
    if found.transaction is not None:
        begun = f"a transaction is open since offset {found.transaction.start}"
        if with_open_transaction:
            found.notes.append(f"{begun}: its records are shown, and a failover would abort them")
        else:
            found.state = found.state.at(found.transaction.start)
            found.notes.append(f"{begun}: its records are not shown (--with-open-transaction shows them)")
    found.notes.extend(unfamiliar(found.state.features.finalized()))
    return found


def _at(moment: Moment, source: Path, found: Offline) -> Offset:
    """Returns the offset at a time. Raises Failed if the files do not tell it."""
    if source.is_dir():
        _require_log(source, found)
    elif kind_of(source) is not FileKind.LOG:
        raise Failed(f"{found.path}: only a log has times; give the directory, or --as-of OFFSET")
    offset = _offset_of(moment, source, name=str(found.path))
    found.notes.append(f"{moment} is offset {offset}: the first batch that is later begins there, or the log ends")
    return offset


def _offset_of(moment: Moment, source: Path, *, name: str) -> Offset:
    """Returns the offset of the first batch that is later than `moment`, or the log's end if none is.

    `source` is a partition's directory or a log. As Kafka's ListOffsets by time it takes the first one: clocks of
    controllers differ, and a later batch may have an earlier time. Damage ends the search: a reader that reads up to
    the offset meets it. Raises Failed if already the first batch is later, or if there is none; OSError.
    """
    first = end = None
    for header in _headers(source):
        first = first or header
        if header.max_timestamp > moment.ms:
            if header is first:
                begins = f"{Moment(header.max_timestamp)}, at offset {header.base_offset}"
                raise Failed(f"{name}: the log begins at {begins}; {moment} lies before it")
            return header.base_offset
        end = header.next_offset
    if end is None:
        raise Failed(f"{name} has no batch, so no time is known; --as-of OFFSET reads a checkpoint")
    return end


def _headers(source: Path) -> Iterator[BatchHeader]:
    paths = [segment_file(source, base, LOG) for base in segment_bases(source)] if source.is_dir() else [source]
    for path in paths:
        try:
            for _, header in batches(map_file(path)):
                yield header
        except Corrupt:
            return


def _require_log(partition: Path, found: Offline) -> None:
    if not partition.is_dir():
        raise Failed(f"{found.path} has no metadata log yet")


def _load_file(path: Path, found: Offline, as_of: Offset | None) -> Offline:
    (file,) = files_below(path)
    if kind_of(file) is FileKind.CHECKPOINT:
        return _with_checkpoint(file, found)
    if kind_of(file) is FileKind.LOG:
        base = first_offset_of(file)
        if base > 0:
            raise Failed(f"{file} begins at offset {base}: the state before it is in a checkpoint, give the directory")
        _Tail(found, as_of).segment(file, ScanPosition(0, floor=BOOTSTRAP_ID, listed=(), durable=0), is_last=True)
        return found
    raise Failed(f"{file} holds no state: a directory, a checkpoint or a .log does")


def _load_directory(partition: Path, found: Offline, as_of: Offset | None) -> Offline:
    _require_log(partition, found)
    checkpoints = checkpoint_ids(partition)
    if BOOTSTRAP_ID in checkpoints:
        # It is read for the first voters only: its records are also written to the log (KIP-853, Kafka 4.4).
        found = _with_checkpoint(checkpoint_file(partition, BOOTSTRAP_ID), found, with_state=False)
    usable = [each for each in checkpoints if each != BOOTSTRAP_ID and (as_of is None or each.offset <= as_of)]
    if found.watch is not None:
        usable = _from_before(found.watch.since, usable, segment_bases(partition))
    return _load_from(partition, usable, found, as_of) if usable else _load_from_beginning(partition, found, as_of)


def _from_before(since: AsOf, usable: list[OffsetAndEpoch], bases: list[Offset]) -> list[OffsetAndEpoch]:
    """Returns the checkpoints from which a watch sees the most: those before `since`, or else the first with a log."""
    before = [each for each in usable if isinstance(since, int) and each.offset <= since]
    if before or not bases or bases[0] == 0:
        return before
    return [each for each in usable if each.offset >= bases[0]][:1]


def _load_from(partition: Path, usable: list[OffsetAndEpoch], found: Offline, as_of: Offset | None) -> Offline:
    """Rebuilds the state from the newest checkpoint; if it is damaged, from what is before it, if the log has the rest.

    Raises Corrupt for that damage if nothing before it leads on, Failed if the log begins after the checkpoint.
    """
    *older, base = usable
    bases = segment_bases(partition)
    if bases and bases[0] > base.offset and (as_of is None or as_of > base.offset):
        raise Failed(
            f"{found.path}: offsets {base.offset} to {bases[0] - 1} are missing: "
            f"the checkpoint ends at {base.offset}, the log begins at {bases[0]}"
        )
    try:
        loaded = _with_checkpoint(checkpoint_file(partition, base), found)
    except Corrupt as damage:
        other = replace(found, notes=[*found.notes, f"{damage}; the state is rebuilt without this checkpoint"])
        try:
            other = (
                _load_from(partition, older, other, as_of) if older else _load_from_beginning(partition, other, as_of)
            )
        except (Corrupt, Failed):
            raise damage from None
        if other.as_of_offset < base.offset:
            raise
        return other
    if lost := lost_credentials(partition, base, loaded.state):
        loaded.notes.append(f"the checkpoint lacks SCRAM credentials that the log before it has: {described(lost)}")
    _load_tail(partition, bases, loaded, as_of, floor=base)
    return loaded


def _load_from_beginning(partition: Path, found: Offline, as_of: Offset | None) -> Offline:
    bases = segment_bases(partition)
    if bases and bases[0] > 0:
        later = [each for each in checkpoint_ids(partition) if each.offset >= bases[0]]
        rule = (
            f"the first state that can be rebuilt is at {later[0].offset}" if later else "there is no checkpoint of it"
        )
        raise Failed(f"{found.path} begins at offset {bases[0]}: of what lies before, {rule}")
    _load_tail(partition, bases, found, as_of, floor=BOOTSTRAP_ID)
    return found


def _with_checkpoint(path: Path, found: Offline, *, with_state: bool = True) -> Offline:
    """Returns `found` with what a checkpoint holds. Raises Corrupt, naming the file; `found` is unchanged then."""
    loaded = replace(found, state=ClusterState(), checkpoint=path)
    reader = SnapshotReader(path)
    try:
        for kind, value in reader.control_records():
            _take_control(loaded, int(kind), value)
        snapshot = checkpoint_id(path) or BOOTSTRAP_ID
        if with_state:
            loaded.state.load(map(decode_record, reader.values()), snapshot.offset)
    except ReplayFault as fault:
        raise Corrupt(str(fault), path=path) from None
    except Corrupt as damage:
        raise damage.at(path) from None
    finally:
        reader.close()
    loaded.as_of_offset, loaded.epoch = snapshot.offset, snapshot.epoch
    return loaded


def _load_tail(
    partition: Path, bases: list[Offset], found: Offline, as_of: Offset | None, *, floor: OffsetAndEpoch
) -> None:
    listed, durable = EpochsFile(partition).read(), DurableMark(partition).read()
    tail, course = _Tail(found, as_of), None
    for base, following in zip_longest(bases, bases[1:]):
        if following is not None and following <= floor.offset:
            continue  # the checkpoint covers this whole segment
        path = segment_file(partition, base, LOG)
        if course is None:
            course = ScanPosition(base, floor=floor, listed=listed, durable=durable)
        elif course.offset != base:
            raise Corrupt(f"the segment at offset {base} follows one that ends at {course.offset}", path=path)
        tail.segment(path, course, is_last=following is None)
        if as_of is not None and found.as_of_offset >= as_of:
            return


class _Tail:
    """Applies the log after a checkpoint, up to an offset (exclusive)."""

    def __init__(self, found: Offline, as_of: Offset | None) -> None:
        self._found = found
        self._from = found.as_of_offset
        self._until: float = float("inf") if as_of is None else as_of
        if found.watch is not None:
            found.watch.begin(found)

    def segment(self, path: Path, course: ScanPosition, *, is_last: bool) -> None:
        """Applies the records of one log segment, `path`.

        Raises Corrupt for damage before the wanted offset; damage after it is ignored.
        """
        headers: list[BatchHeader] = []
        data = bytes(map_file(path))
        damage: Corrupt | None = None
        try:
            torn = scan(data, path, course, is_last=is_last, note=lambda header, _: headers.append(header))
            if torn is not None and not headers and self._found.as_of_offset == 0 and self._until > 0:
                # A log's first batch is flushed before any request is answered, so this file never was a log.
                raise Corrupt(f"there is not one whole batch in it: {torn.reason}", path=path, position=0)
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
                        if found.watch is not None:
                            found.watch.after(found, header, record.offset)
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
                self._apply(decode_record(value), offset, header)
            offset += 1
        return offset

    def _apply(self, record: Message, offset: Offset, header: BatchHeader) -> None:
        found = self._found
        if found.watch is not None:
            found.watch.before(found, header, record, offset)
        found.state.apply(record, offset)
        if found.watch is not None:
            found.watch.after(found, header, offset)


def _take_control(found: Offline, kind: int, value: bytes) -> None:
    """Notes a control record's voters, kraft.version or checkpoint timestamp; ignores other types and versions."""
    version = int.from_bytes(value[:2], "big")
    if version != 0:
        return
    match kind:
        case 2:
            found.elected = tuple(each.voter_id for each in decode(LeaderChangeMessage, value, version).voters)
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
        raise Failed(f"{found.path} ends at offset {found.as_of_offset}; {as_of} lies beyond it")
