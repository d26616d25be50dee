"""Checks the segments of a log, and the indexes and the leader-epoch file that Kafka derives from them.

Segments are scanned as in the recovery scan at start (`storage.recovery` distinguishes a torn tail from damage). Their
records are decoded and replayed. Indexes and leader epochs are compared with the batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from quorate.cli.index_entries import INDEX_ENTRY, TIME_INDEX_ENTRY, entries_of
from quorate.cli.reading import FileKind, map_file
from quorate.cli.record_json import control_of
from quorate.errors import Corrupt
from quorate.metadata.canonical import canonical
from quorate.metadata.faults import ReplayFault
from quorate.metadata.scram_lost import Credential, described
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.records import UnknownRecord, VotersRecord, decode_record
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.names import BOOTSTRAP_ID, LOG, checkpoint_ids, segment_file
from quorate.storage.recovery import ScanPosition, scan
from quorate.wire.batch import BatchHeader, ControlType, data_values, records
from quorate.wire.codec import decode

__all__ = ["LogCheck", "LogProblem", "Said", "Severity", "check_leader_epochs", "parse_leader_epochs"]

Severity = Literal["damage", "torn tail", "foreign", "unknown", "note"]
"""`damage` and `foreign` (another cluster's) need an operator; a start truncates a `torn tail`; the others inform."""

FAILING: Final[tuple[Severity, ...]] = ("damage", "torn tail", "foreign")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProblem:
    """One result of a check: its severity, file and reason, with byte position and offset where they are known."""

    severity: Severity
    path: Path
    reason: str
    position: int | None = None
    offset: Offset | None = None

    @property
    def fails(self) -> bool:
        """Whether this finding makes the directory unsound."""
        return self.severity in FAILING


class Said(NamedTuple):
    """The content of a checkpoint, for comparison with the replayed log: canonical state, SCRAM credentials."""

    state: str
    credentials: frozenset[Credential]

    @classmethod
    def by(cls, state: ClusterState) -> Self:
        """Returns a state's canonical form and SCRAM credentials, for the comparison of checkpoint and log."""
        return cls(canonical(state), frozenset((each.mechanism, each.name) for each in state.scram))


@dataclass(frozen=True, slots=True)
class _Place:
    """A record batch's header and its byte position in its segment."""

    position: int
    header: BatchHeader


@dataclass(slots=True, kw_only=True)
class LogCheck:
    """Checks the segments of one log in order; `found` receives each finding.

    `floor` is the checkpoint that the log continues, `state` its state (None: no replay). `checkpoints` has the content
    of each checkpoint by its id, which the replayed log must equal. Results are `start`, `end` (exclusive), `epochs`.
    """

    found: Callable[[LogProblem], None]
    floor: OffsetAndEpoch
    state: ClusterState | None
    checkpoints: Mapping[OffsetAndEpoch, Said]
    start: Offset = 0
    end: Offset = 0
    epochs: list[tuple[Epoch, Offset]] = field(default_factory=list)
    voters: tuple[Offset, VotersRecord] | None = None
    """The latest voter set in the log, with its offset; None if the log has none."""
    is_sound: bool = True
    has_segments: bool = False
    _path: Path = Path()
    _position: int = 0
    _places: list[_Place] = field(default_factory=list)
    _unknown: bool = False

    def segments(self, directory: Path, bases: Iterable[Offset], *, last: Offset, durable: Offset) -> None:
        """Checks the segments with these base offsets (ascending) and their indexes; `last` is the directory's newest.

        `durable` is the durable mark: the log is known to be flushed below it. Findings go to `found`; raises OSError.
        """
        listed = EpochsFile(directory).read()
        course: ScanPosition | None = None
        for base in bases:
            path = segment_file(directory, base, LOG)
            if course is None or base != course.offset:
                if course is not None:
                    reason = f"the segment at offset {base} follows one that ends at {course.offset}"
                    self._find("damage", reason, path=path)
                    self.state = None
                self.start = base if course is None else self.start
                course = ScanPosition(base, floor=self.floor, listed=listed, durable=durable)
            self._segment(path, course, is_last=base == last)
            self.end = course.offset
        self.has_segments = course is not None
        if self.is_sound and self.end < durable:
            reason = f"the log ends at offset {self.end}, and was known to be on disk below {durable}"
            self._find("damage", reason, path=self._path if self.has_segments else directory, offset=self.end)

    def _segment(self, path: Path, course: ScanPosition, *, is_last: bool) -> None:
        self._path, self._position, self._places = path, 0, []
        try:
            torn = scan(bytes(map_file(path)), path, course, is_last=is_last, note=self._batch)
        except Corrupt as damage:
            self._find("damage", damage.reason, position=damage.position, offset=course.offset)
            self.state = None  # no replay after a gap
            return
        if torn is not None:
            reason = f"{torn.reason}; the {torn.size} bytes from here on were never acknowledged, a start cuts them off"
            self._find("torn tail", reason, position=torn.position, offset=torn.offset)
            return
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            self._index(path.with_suffix(kind.value), kind, int(path.stem))

    def _batch(self, header: BatchHeader, data: bytes) -> None:
        self._places.append(_Place(self._position, header))
        self._compare(header.base_offset)
        try:
            is_leader_change = self._control(header, data) if header.is_control else self._data(header, data)
        except Corrupt as damage:
            self._find("damage", damage.reason, position=self._position, offset=header.base_offset)
            self.state, is_leader_change = None, False
        self._epoch(header, is_leader_change=is_leader_change)
        self._position += header.size
        self._compare(header.next_offset)

    def _epoch(self, header: BatchHeader, *, is_leader_change: bool) -> None:
        """Checks that each epoch begins with a LeaderChange and has only one; the checksum does not cover the epoch."""
        before = self.epochs[-1][0] if self.epochs else self.floor.epoch
        begins = header.epoch != before or header.base_offset == 0
        if not self.epochs and header.base_offset != self.floor.offset:
            begins = is_leader_change  # the batch before it is not there: it may begin an epoch, or continue one
        if begins and not is_leader_change:
            reason = f"epoch {header.epoch} follows epoch {before} without the LeaderChange that begins an epoch"
            self._find("damage", reason, position=self._position, offset=header.base_offset)
        if is_leader_change and not begins:
            reason = f"a second LeaderChange in epoch {header.epoch}; an epoch has one leader"
            self._find("damage", reason, position=self._position, offset=header.base_offset)
        if not self.epochs or header.epoch != self.epochs[-1][0]:
            self.epochs.append((header.epoch, header.base_offset))

    def _control(self, header: BatchHeader, data: bytes) -> bool:
        """Checks a control batch and notes its voters; True if its first record is a LeaderChange."""
        kinds = []
        for record in records(data, 0, header):
            kind, known, version = control_of(record)
            kinds.append(kind)
            if known is None:
                reason = f"a control record of type {kind} in version {version}; Kafka stops at what it does not know"
                self._find("unknown", reason, position=self._position, offset=record.offset)
            else:
                found = decode(known, record.value or b"", version)
                if isinstance(found, VotersRecord):
                    self.voters = record.offset, found
        return kinds[0] == ControlType.LEADER_CHANGE

    def _data(self, header: BatchHeader, data: bytes) -> bool:
        for offset, value in enumerate(data_values(data, 0, header), header.base_offset):
            record = decode_record(value)
            if isinstance(record, UnknownRecord):
                self._unknown = True
                reason = f"a record with api key {record.api_key} in version {record.version}; Kafka stops at such"
                self._find("unknown", reason, position=self._position, offset=offset)
            if self.state is not None and offset >= self.floor.offset:
                try:
                    self.state.apply(record, offset)
                except ReplayFault as fault:
                    self._find("damage", str(fault), position=self._position, offset=offset)
                    self.state = None
        if self.state is not None:
            self.state.settle()
        return False

    def _compare(self, offset: Offset) -> None:
        """Checks that the replayed state equals the checkpoint that ends at `offset`, if there is one."""
        if self.state is None or self._unknown or self.state.transactions.open is not None:
            return
        for snapshot, said in self.checkpoints.items():
            if snapshot.offset == offset != self.floor.offset and canonical(self.state) != said.state:
                reason = f"the log does not come to what the checkpoint at offset {offset} says"
                if lost := sorted(Said.by(self.state).credentials - said.credentials):
                    reason += f", which lacks the SCRAM credentials of {described(lost)}"
                self._find("damage", reason, offset=offset)
                self.state = None
                return

    def _index(self, path: Path, kind: FileKind, base: Offset) -> None:
        """Checks that index entries rise and point to batches; a missing index is a note, as a start rebuilds it."""
        if not path.exists():
            self.found(LogProblem(severity="note", path=path, reason="not there; a start makes it anew"))
            return
        data = map_file(path)
        width = INDEX_ENTRY.size if kind is FileKind.INDEX else TIME_INDEX_ENTRY.size
        if len(data) % width:
            reason = f"{len(data)} bytes are no whole entries of {width}"
            self.found(LogProblem(severity="damage", path=path, reason=reason, position=len(data) - len(data) % width))
        fits = _IndexFit(self._places)
        for entry in entries_of(data, kind, base):
            reason_against = fits.why_not(entry.offset, entry.position, entry.timestamp)
            if reason_against is not None:
                self.found(
                    LogProblem(
                        severity="damage", path=path, reason=reason_against, position=entry.at, offset=entry.offset
                    )
                )
                return

    def _find(
        self,
        severity: Severity,
        reason: str,
        *,
        path: Path | None = None,
        position: int | None = None,
        offset: Offset | None = None,
    ) -> None:
        finding = LogProblem(
            severity=severity, path=path or self._path, reason=reason, position=position, offset=offset
        )
        self.is_sound = self.is_sound and not finding.fails
        self.found(finding)


class _IndexFit:
    """Compares the entries of an index, in their order, with the batches of its segment."""

    def __init__(self, places: list[_Place]) -> None:
        self._by_position = {place.position: place.header for place in places}
        self._by_last_offset = {place.header.last_offset: place.header for place in places}
        self._end = places[-1].header.next_offset if places else 0
        self._before = (-1, -1, -1)

    def why_not(self, offset: Offset, position: int | None, timestamp: int | None) -> str | None:
        """Returns why an entry contradicts the batches or the entry before it; None if it does not."""
        last_offset, last_position, last_timestamp = self._before
        self._before = (offset, position or 0, timestamp or 0)
        if offset <= last_offset or (position or 0) < last_position or (timestamp or 0) < last_timestamp:
            return f"the entry for offset {offset} follows one for offset {last_offset}; entries rise"
        if offset >= self._end:
            return f"the entry for offset {offset} is beyond the segment, which ends at {self._end}"
        if position is not None:
            header = self._by_position.get(position)
            if header is None or header.base_offset > offset:
                return (
                    f"the entry for offset {offset} points to byte {position}, where no batch begins that leads to it"
                )
        else:
            header = self._by_last_offset.get(offset)
            if header is None or header.max_timestamp != timestamp:
                return f"the entry says that timestamp {timestamp} is reached at offset {offset}, the batches do not"
        return None


def parse_leader_epochs(path: Path) -> list[tuple[Epoch, Offset]]:
    """Reads a leader-epoch-checkpoint as pairs (epoch, start offset). Raises Corrupt, OSError."""
    try:
        version, count, *lines = path.read_text("ascii").split("\n")
        last = lines.pop() if lines else ""
        if last or not all(re.fullmatch(r"\d+ \d+", line) for line in lines):
            raise ValueError(f"lines are an epoch and its start offset, and end: {[*lines, last]}")
        entries = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]
        if version != "0" or count != str(len(entries)):
            raise ValueError(f"version {version!r}, {count!r} entries announced, {len(entries)} there")
    except (ValueError, UnicodeDecodeError) as problem:
        raise Corrupt(f"not a leader-epoch-checkpoint: {problem}", path=path) from None
    return entries


def check_leader_epochs(path: Path, log: LogCheck) -> None:
    """Compares a leader-epoch-checkpoint with the epochs of the batches that `log` has checked.

    Raises Corrupt for a contradiction, OSError; what a start mends is a note among the log's findings.
    """
    entries = parse_leader_epochs(path)
    if entries != sorted(set(entries)) or [start for _, start in entries] != sorted(start for _, start in entries):
        raise Corrupt(f"epochs and their start offsets rise; these do not: {entries}", path=path)
    starts = dict(log.epochs)
    for at, (epoch, start) in enumerate(entries):
        # An epoch that began before the log's start is moved to it. Any of the checkpoints may be that start.
        from_start = max(log.start, log.floor.offset)
        is_same = max(start, from_start) == max(starts.get(epoch, start), from_start)
        if start < log.end and not is_same and not (at == 0 and _may_start_at(path.parent, epoch, start, log)):
            raise Corrupt(f"epoch {epoch} begins at {start} here, and at {starts[epoch]} in the log", path=path)
        if log.start <= start < log.end and epoch not in starts:
            raise Corrupt(f"epoch {epoch} begins at offset {start} here; the log has no such epoch", path=path)
    _note_epochs_beyond(path, entries, log)
    missing = [epoch for epoch, _ in log.epochs if epoch not in dict(entries)]
    if missing:
        reason = f"epochs {missing} of the log are not here; a start adds them"
        log.found(LogProblem(severity="note", path=path, reason=reason))


def _may_start_at(directory: Path, epoch: Epoch, start: Offset, log: LogCheck) -> bool:
    """Whether the log's start may have been moved to `start`, within `epoch` as its batches have it.

    Retention moves it to the end of a checkpoint, often into the middle of the first segment, whose records stay in the
    file, and the checkpoints before it are removed later.
    """
    is_known = any(snapshot.offset == start for snapshot in checkpoint_ids(directory) if snapshot != BOOTSTRAP_ID)
    return is_known and epoch == next((known for known, first in reversed(log.epochs) if first <= start), None)


def _note_epochs_beyond(path: Path, entries: list[tuple[Epoch, Offset]], log: LogCheck) -> None:
    """Notes the epochs that begin beyond the log's end: a truncation removes their records first.

    Raises Corrupt for an epoch of which the log has records, and where there is neither a segment nor a checkpoint.
    """
    beyond = [(epoch, start) for epoch, start in entries if start > log.end]
    if not beyond or (log.has_segments and not log.is_sound):
        return
    reason = (
        f"{', '.join(f'epoch {epoch} begins at {start}' for epoch, start in beyond)} here; the log ends at {log.end}"
    )
    has_any = log.has_segments or any(snapshot != BOOTSTRAP_ID for snapshot in checkpoint_ids(path.parent))
    if not has_any or not dict(log.epochs).keys().isdisjoint(dict(beyond)):
        raise Corrupt(reason, path=path)
    reason += ": a crash interrupted a truncation, a start removes them"
    log.found(LogProblem(severity="note", path=path, reason=reason))
