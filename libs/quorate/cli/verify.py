"""`quorate log verify`: reads all files of a metadata directory and checks that they agree; it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraft import Uuid
from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed
from quorate.cli.printable import printable
from quorate.cli.reading import (
    FileKind,
    MetadataDirectory,
    check_regular,
    files_below,
    kind_of,
    metadata_directory,
)
from quorate.cli.verify_log import LogCheck, LogProblem, Said, Severity, check_leader_epochs, parse_leader_epochs
from quorate.errors import Corrupt
from quorate.metadata.faults import ReplayFault
from quorate.metadata.features import unfamiliar
from quorate.metadata.state import ClusterState
from quorate.nouns import METADATA_TOPIC_ID, ZERO_UUID, Offset, OffsetAndEpoch, uuid_text
from quorate.records import UnknownRecord, VotersRecord, decode_record
from quorate.storage.durable_mark import DurableMark
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import (
    BOOTSTRAP,
    BOOTSTRAP_ID,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    PART,
    PARTITION_METADATA,
    QUORUM_STATE,
    checkpoint_file,
    checkpoint_id,
    checkpoint_ids,
    segment_bases,
    segment_file,
)
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import ControlType
from quorate.wire.codec import decode

__all__ = ["Report", "verify", "verify_path"]

Json = dict[str, Any]  # Any: JSON values


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of a check: the files that were read, the findings, and the log's `start` and `end` offset if any."""

    path: Path
    findings: list[LogProblem] = field(default_factory=list)
    checked: list[Path] = field(default_factory=list)
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: Uuid | None = None
    start: Offset | None = None
    end: Offset | None = None
    last_epoch: int | None = None

    @property
    def is_sound(self) -> bool:
        """Whether no finding is a failure (damage, torn tail, or another cluster's file)."""
        return not any(finding.fails for finding in self.findings)

    def find(self, severity: Severity, path: Path, reason: str, *, offset: Offset | None = None) -> None:
        """Adds a finding to the report."""
        self.findings.append(LogProblem(severity=severity, path=path, reason=reason, offset=offset))

    def damage(self, path: Path, problem: Corrupt | OSError) -> None:
        """Adds a finding of severity `damage` for a file that could not be read."""
        if isinstance(problem, Corrupt):
            found = LogProblem(severity="damage", path=path, reason=problem.reason, position=problem.position)
        else:
            found = LogProblem(severity="damage", path=path, reason=problem.strerror or str(problem))
        self.findings.append(found)


def verify(path: Path, *, cluster_id: str | None, output: str) -> None:
    """Checks a file or directory and prints the findings. Raises Failed after printing if it is not sound."""
    report = verify_path(path, cluster_id=cluster_id)
    if is_document(output):
        print_document(_document(report), output)
    else:
        print_lines(map(printable, _lines(report)))
    if not report.is_sound:
        failing = [finding for finding in report.findings if finding.fails]
        count = "1 finding" if len(failing) == 1 else f"{len(failing)} findings"
        raise Failed(f"{path} is not sound: {count}, the first: {_line(failing[0])}", printed=True)


def verify_path(path: Path, *, cluster_id: str | None = None) -> Report:
    """Checks a file of a metadata log, or a metadata directory with all its files; what is wrong is in the report.

    A file of another cluster than `cluster_id` is a finding, too. Raises Failed for another directory, for another
    name of a file, and for what is no regular file; OSError for a path that does not exist.
    """
    report = Report(path=path)
    if path.is_dir():
        _check_directory(metadata_directory(path), report, cluster_id)
    else:
        (file,) = files_below(path)
        check_regular(file.parent)  # a segment is checked with its indexes and the marks beside it
        _check_file(file, report, cluster_id)
    return report


def _check_directory(directory: MetadataDirectory, report: Report, cluster_id: str | None) -> None:
    owner, partition = directory
    if owner is not None:
        _check_owner(owner, report, cluster_id)
        if (owner / BOOTSTRAP).exists():
            _check_checkpoint(owner / BOOTSTRAP, report)
        if flat := _flat(owner):
            reason = f"it lies beside {META_PROPERTIES}; a start looks in {partition.name} and would not find it"
            report.find("damage", flat, reason)
    elif cluster_id is not None:
        report.find(
            "foreign", partition, f"there is no {META_PROPERTIES} that would say whose it is: {cluster_id} expected"
        )
    if not partition.is_dir():
        report.find("note", partition, "there is no metadata log yet")
        return
    said = _check_checkpoints(partition, report)
    log = _check_log(partition, said, report, only=None)
    _check_companions(partition, log, report)
    _check_voter(owner, partition, log, report)
    for path in sorted(partition.iterdir()):
        if path.name.endswith((PART, DELETED)):
            report.find("note", path, "left over; a start removes it")


def _flat(owner: Path) -> Path | None:
    """Returns the first segment or checkpoint that is misplaced beside meta.properties; None if there is none."""
    bases = segment_bases(owner)
    found = [segment_file(owner, base, LOG) for base in bases[:1]]
    found += [checkpoint_file(owner, snapshot) for snapshot in checkpoint_ids(owner)[:1]]
    return next(iter(found), None)


def _check_voter(owner: Path | None, partition: Path, log: LogCheck, report: Report) -> None:
    """Reports a voter without directory.id: a start would create a new one, and the node would not be that voter."""
    if owner is None or report.node_id is None or report.directory_id is not None:
        return
    voters = _voters(partition, log)
    for voter in voters.voters if voters else ():
        if voter.voter_id == report.node_id and voter.voter_directory_id != ZERO_UUID:
            reason = (
                f"no directory.id, and the voters have node {voter.voter_id} with "
                f"{uuid_text(voter.voter_directory_id)}: a start would give it another, and it would be no voter"
            )
            report.find("damage", owner / META_PROPERTIES, reason)


def _voters(partition: Path, log: LogCheck) -> VotersRecord | None:
    """Returns the latest voter set in the log or a checkpoint; None if there is none (kraft.version 0)."""
    offset, latest = log.voters or (-1, None)
    for snapshot in checkpoint_ids(partition):
        if snapshot.offset <= offset:
            continue
        try:
            reader = SnapshotReader(checkpoint_file(partition, snapshot))
        except (Corrupt, OSError):
            continue  # already reported as a finding
        found = [value for kind, value in reader.control_records() if kind is ControlType.KRAFT_VOTERS]
        reader.close()
        latest = decode(VotersRecord, found[-1], 0) if found else latest
    return latest


def _check_file(path: Path, report: Report, cluster_id: str | None) -> None:
    match kind_of(path):
        case FileKind.CHECKPOINT:
            _check_checkpoint(path, report)
        case FileKind.LOG | FileKind.INDEX | FileKind.TIME_INDEX:
            if not path.stem.isdecimal() or int(path.stem) not in segment_bases(path.parent):
                raise Failed(f"{path}: the segment has a name of 20 digits, and its .log lies beside its indexes")
            _check_log(path.parent, {}, report, only=int(path.stem))
        case FileKind.META_PROPERTIES:
            _check_owner(path.parent, report, cluster_id)
        case FileKind.QUORUM_STATE:
            _election(path.parent, report)
        case FileKind.LEADER_EPOCHS:
            _attempt(report, path, lambda: parse_leader_epochs(path))
        case _:
            _check_topic(path, report)


def _check_owner(owner: Path, report: Report, cluster_id: str | None) -> None:
    path = owner / META_PROPERTIES
    report.checked.append(path)
    try:
        meta = read_meta_properties(owner)
    except (Corrupt, OSError) as problem:
        report.damage(path, problem)
        return
    if meta is None:
        report.find("damage", path, "not there: the directory is not formatted")
        return
    report.cluster_id, report.node_id, report.directory_id = meta.cluster_id, meta.node_id, meta.directory_id
    if meta.directory_id is None:
        report.find("note", path, "no directory.id; a start gives it one (KIP-858)")
    if cluster_id is not None and meta.cluster_id != cluster_id:
        report.find("foreign", path, f"cluster.id is {meta.cluster_id}, {cluster_id} is expected")


def _check_checkpoints(partition: Path, report: Report) -> dict[OffsetAndEpoch, Said]:
    """Checks all checkpoints; returns state fingerprint and SCRAM users of each sound one, by its id."""
    found: dict[OffsetAndEpoch, Said] = {}
    for snapshot in checkpoint_ids(partition):
        state = _check_checkpoint(checkpoint_file(partition, snapshot), report)
        if state is not None and snapshot != BOOTSTRAP_ID and not len(state.unknown):
            found[snapshot] = Said.by(state)
    return found


def _check_checkpoint(path: Path, report: Report) -> ClusterState | None:
    """Checks a checkpoint and returns its state; None if it is damaged or cannot be loaded."""
    report.checked.append(path)
    try:
        reader = SnapshotReader(path)
        try:
            values = [decode_record(value) for value in reader.values()]
        finally:
            reader.close()
    except (Corrupt, OSError) as problem:
        report.damage(path, problem)
        return None
    for record in values:
        if isinstance(record, UnknownRecord):
            report.find("unknown", path, f"a record with api key {record.api_key} in version {record.version}")
    state, snapshot = ClusterState(), checkpoint_id(path) or BOOTSTRAP_ID
    try:
        state.load(values, snapshot.offset)
    except ReplayFault as fault:
        report.find("damage", path, str(fault))
        return None
    return state


def _check_log(partition: Path, said: dict[OffsetAndEpoch, Said], report: Report, *, only: Offset | None) -> LogCheck:
    """Checks all segments of a partition, or only the one with base offset `only`."""
    bases = segment_bases(partition)
    floor, state = BOOTSTRAP_ID, ClusterState() if only in (None, 0) else None
    if only is None and bases and bases[0] > 0:
        floor, state = _floor(partition, bases[0], report)
    log = LogCheck(found=report.findings.append, floor=floor, state=state, checkpoints=said)
    wanted = bases if only is None else [only]
    report.checked += [partition / f"{base:020d}.log" for base in wanted]
    durable = DurableMark(partition).read() if wanted[-1:] == bases[-1:] else 0
    log.segments(partition, wanted, last=bases[-1] if bases else 0, durable=durable)
    if wanted:
        for reason in unfamiliar(log.state.features.finalized()) if log.state is not None else ():
            report.find("note", partition, reason, offset=log.end)
        report.start, report.end = log.start, log.end
        report.last_epoch = log.epochs[-1][0] if log.epochs else floor.epoch
        for snapshot in said:
            if snapshot.offset > log.end:
                # Left by a crash after a snapshot was downloaded, before the log was truncated to start at it.
                reason = f"the log ends at {log.end}, a start goes on from the checkpoint at {snapshot.offset}"
                report.find("note", partition, reason, offset=log.end)
    return log


def _floor(partition: Path, start: Offset, report: Report) -> tuple[OffsetAndEpoch, ClusterState | None]:
    """Returns the checkpoint that a log beginning at `start` continues, with its state, None if it is damaged.

    Reports a finding if there is no such checkpoint.
    """
    for snapshot in checkpoint_ids(partition):
        if snapshot.offset >= start:
            reader_state = _check_checkpoint(checkpoint_file(partition, snapshot), Report(path=partition))
            return snapshot, reader_state
    report.find(
        "damage", partition, f"the log begins at offset {start}, and there is no checkpoint of what lies before"
    )
    return BOOTSTRAP_ID, None


def _check_companions(partition: Path, log: LogCheck, report: Report) -> None:
    _check_topic(partition / PARTITION_METADATA, report)
    path = partition / LEADER_EPOCHS
    if path.exists():
        report.checked.append(path)
        _attempt(report, path, lambda: check_leader_epochs(path, log))
    election = _election(partition, report)
    last = log.epochs[-1][0] if log.epochs else 0
    if election is not None and election.epoch < last:
        reason = (
            f"leaderEpoch {election.epoch}, and the log has epoch {last}: an epoch is noted here before it is written"
        )
        report.find("damage", partition / QUORUM_STATE, reason)


def _election(partition: Path, report: Report) -> StoredElection | None:
    path = partition / QUORUM_STATE
    if path.exists():
        report.checked.append(path)
    try:
        return ElectionFile(partition).read()
    except (Corrupt, OSError) as problem:
        report.damage(path, problem)
        return None


def _check_topic(path: Path, report: Report) -> None:
    expected = f"version: 0\ntopic_id: {uuid_text(METADATA_TOPIC_ID)}"
    spelt = (expected, expected + "\n")
    if not path.exists():
        report.find("note", path, "not there; a start makes it anew")
        return
    report.checked.append(path)
    found = path.read_text("utf-8", errors="replace")
    if found not in spelt:
        why = f"{found!r} is not the metadata topic's, {expected!r}: remove the file, a start makes it anew"
        report.find("damage", path, why)


def _attempt(report: Report, path: Path, check: Any) -> None:
    # Any: a callable whose result is not used.
    try:
        check()
    except (Corrupt, OSError) as problem:
        report.damage(path, problem)


def _lines(report: Report) -> list[str]:
    lines = [_line(finding) for finding in report.findings]
    totals = [f"{len(report.checked)} files"]
    if report.cluster_id is not None:
        totals.append(f"cluster {report.cluster_id}, node {report.node_id}")
    if report.end is not None:
        totals.append(f"offsets {report.start} to {report.end}, last epoch {report.last_epoch}")
    return [*lines, f"{report.path}: {'sound' if report.is_sound else 'NOT SOUND'} ({'; '.join(totals)})"]


def _line(finding: LogProblem) -> str:
    place = "" if finding.position is None else f" at byte {finding.position}"
    offset = "" if finding.offset is None else f" (offset {finding.offset})"
    return f"{finding.severity}: {finding.path}{place}{offset}: {finding.reason}"


def _document(report: Report) -> Json:
    return {
        "path": str(report.path),
        "sound": report.is_sound,
        "findings": [
            {
                "severity": finding.severity,
                "file": str(finding.path),
                "position": finding.position,
                "offset": finding.offset,
                "reason": finding.reason,
            }
            for finding in report.findings
        ],
        "checked": [str(path) for path in report.checked],
        "clusterId": report.cluster_id,
        "nodeId": report.node_id,
        "startOffset": report.start,
        "endOffset": report.end,
        "lastEpoch": report.last_epoch,
    }
