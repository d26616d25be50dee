"""`quorate log verify`: everything in a metadata directory is read and held against the rest; nothing is changed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quorate.cli.failures import Failed
from quorate.cli.reading import FileKind, MetadataDirectory, files_below, kind_of, map_file, metadata_directory
from quorate.cli.verify_log import Finding, LogCheck, Severity, check_leader_epochs, parse_leader_epochs
from quorate.errors import Corrupt
from quorate.metadata.canonical import canonical
from quorate.metadata.faults import ReplayFault
from quorate.metadata.state import ClusterState
from quorate.nouns import METADATA_TOPIC_ID, Offset, OffsetAndEpoch, uuid_text
from quorate.records import UnknownRecord, decode_record
from quorate.storage.durable_mark import DurableMark
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import (
    BOOTSTRAP,
    DELETED,
    LEADER_EPOCHS,
    META_PROPERTIES,
    PART,
    PARTITION_METADATA,
    QUORUM_STATE,
    checkpoint_file,
    checkpoint_id,
    checkpoint_ids,
    segment_bases,
)
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import batches

__all__ = ["Report", "verify", "verify_path"]

Json = dict[str, Any]  # Any: JSON values

FIRST: Final = OffsetAndEpoch(epoch=0, offset=0)


@dataclass(slots=True, kw_only=True)
class Report:
    """What was looked at, and what was found. `start` and `end` are the log's, if there is one."""

    path: Path
    findings: list[Finding] = field(default_factory=list)
    checked: list[Path] = field(default_factory=list)
    cluster_id: str | None = None
    node_id: int | None = None
    start: Offset | None = None
    end: Offset | None = None
    last_epoch: int | None = None

    @property
    def is_sound(self) -> bool:
        """Does everything hold?"""
        return not any(finding.fails for finding in self.findings)

    def find(self, severity: Severity, path: Path, reason: str, *, offset: Offset | None = None) -> None:
        """One more finding."""
        self.findings.append(Finding(severity=severity, path=path, reason=reason, offset=offset))

    def damage(self, path: Path, problem: Corrupt | OSError) -> None:
        """One more finding: this could not be read."""
        if isinstance(problem, Corrupt):
            found = Finding(severity="damage", path=path, reason=problem.reason, position=problem.position)
        else:
            found = Finding(severity="damage", path=path, reason=problem.strerror or str(problem))
        self.findings.append(found)


def verify(path: Path, *, cluster_id: str | None, as_json: bool) -> None:
    """Print what was found. Raises Failed if something does not hold, after all is printed."""
    report = verify_path(path, cluster_id=cluster_id)
    if as_json:
        print(json.dumps(_document(report)))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(report)))
    if not report.is_sound:
        failing = [finding for finding in report.findings if finding.fails]
        count = "1 finding" if len(failing) == 1 else f"{len(failing)} findings"
        raise Failed(f"{path} is not sound: {count}, the first: {_line(failing[0])}", printed=True)


def verify_path(path: Path, *, cluster_id: str | None = None) -> Report:
    """Check one file, or a directory with all that is in it. Raises Failed for what is no part of a metadata log."""
    report = Report(path=path)
    if path.is_dir():
        _check_directory(metadata_directory(path), report, cluster_id)
    else:
        (file,) = files_below(path)
        _check_file(file, report, cluster_id)
    return report


def _check_directory(directory: MetadataDirectory, report: Report, cluster_id: str | None) -> None:
    owner, partition = directory
    if owner is not None:
        _check_owner(owner, report, cluster_id)
        if (owner / BOOTSTRAP).exists():
            _check_checkpoint(owner / BOOTSTRAP, report)
    elif cluster_id is not None:
        report.find(
            "foreign", partition, f"there is no {META_PROPERTIES} that would say whose it is: {cluster_id} expected"
        )
    if not partition.is_dir():
        report.find("note", partition, "there is no metadata log yet")
        return
    fingerprints = _check_checkpoints(partition, report)
    log = _check_log(partition, fingerprints, report, only=None)
    _check_companions(partition, log, report)
    for path in sorted(partition.iterdir()):
        if path.name.endswith((PART, DELETED)):
            report.find("note", path, "left over; a start removes it")


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
    report.cluster_id, report.node_id = meta.cluster_id, meta.node_id
    if meta.directory_id is None:
        report.find("note", path, "no directory.id; a start gives it one (KIP-858)")
    if cluster_id is not None and meta.cluster_id != cluster_id:
        report.find("foreign", path, f"cluster.id is {meta.cluster_id}, {cluster_id} is expected")


def _check_checkpoints(partition: Path, report: Report) -> dict[OffsetAndEpoch, str]:
    """The fingerprint of every checkpoint that is whole."""
    found: dict[OffsetAndEpoch, str] = {}
    for snapshot in checkpoint_ids(partition):
        state = _check_checkpoint(checkpoint_file(partition, snapshot), report)
        if state is not None and snapshot != FIRST and not len(state.unknown):
            found[snapshot] = canonical(state)
    return found


def _check_checkpoint(path: Path, report: Report) -> ClusterState | None:
    """What a checkpoint holds, if it is whole and can be loaded."""
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
    state, snapshot = ClusterState(), checkpoint_id(path) or FIRST
    try:
        state.load(values, snapshot.offset)
    except ReplayFault as fault:
        report.find("damage", path, str(fault))
        return None
    return state


def _check_log(
    partition: Path, fingerprints: dict[OffsetAndEpoch, str], report: Report, *, only: Offset | None
) -> LogCheck:
    """Check the segments of a partition, or one of them by itself."""
    bases = segment_bases(partition)
    floor, state = FIRST, ClusterState() if only in (None, 0) else None
    if only is not None:
        floor = OffsetAndEpoch(epoch=_first_epoch(partition, only), offset=only)
    elif bases and bases[0] > 0:
        floor, state = _floor(partition, bases[0], report)
    log = LogCheck(found=report.findings.append, floor=floor, state=state, checkpoints=fingerprints)
    wanted = bases if only is None else [only]
    report.checked += [partition / f"{base:020d}.log" for base in wanted]
    durable = DurableMark(partition).read() if bases and wanted[-1] == bases[-1] else 0
    log.segments(partition, wanted, last=bases[-1] if bases else 0, durable=durable)
    if wanted:
        report.start, report.end = log.start, log.end
        report.last_epoch = log.epochs[-1][0] if log.epochs else floor.epoch
        for snapshot in fingerprints:
            if snapshot.offset > log.end:
                # A crash between the download of a checkpoint and the new beginning of the log leaves it so.
                reason = f"the log ends at {log.end}, a start goes on from the checkpoint at {snapshot.offset}"
                report.find("note", partition, reason, offset=log.end)
    return log


def _first_epoch(partition: Path, base: Offset) -> int:
    """The epoch in which a segment that does not begin the log goes on: its first batch's, as nothing else says it."""
    first = next(batches(map_file(partition / f"{base:020d}.log")), None) if base else None
    return first[1].epoch if first else 0


def _floor(partition: Path, start: Offset, report: Report) -> tuple[OffsetAndEpoch, ClusterState | None]:
    """The checkpoint from which a log goes on that begins at `start`, and its state, if that is whole."""
    for snapshot in checkpoint_ids(partition):
        if snapshot.offset >= start:
            reader_state = _check_checkpoint(checkpoint_file(partition, snapshot), Report(path=partition))
            return snapshot, reader_state
    report.find(
        "damage", partition, f"the log begins at offset {start}, and there is no checkpoint of what lies before"
    )
    return OffsetAndEpoch(epoch=_first_epoch(partition, start), offset=start), None


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
    if not path.exists():
        report.find("note", path, "not there; a start makes it anew")
        return
    report.checked.append(path)
    found = path.read_text("utf-8", errors="replace")
    if found.split() != expected.split():
        report.find("damage", path, f"{found!r} is not the metadata topic's, {expected!r}")


def _attempt(report: Report, path: Path, check: Any) -> None:
    # Any: a callable whose answer is of no interest.
    try:
        check()
    except (Corrupt, OSError) as problem:
        report.damage(path, problem)


def _lines(report: Report) -> list[str]:
    lines = [_line(finding) for finding in report.findings]
    told = [f"{len(report.checked)} files"]
    if report.cluster_id is not None:
        told.append(f"cluster {report.cluster_id}, node {report.node_id}")
    if report.end is not None:
        told.append(f"offsets {report.start} to {report.end}, last epoch {report.last_epoch}")
    return [*lines, f"{report.path}: {'sound' if report.is_sound else 'NOT SOUND'} ({'; '.join(told)})"]


def _line(finding: Finding) -> str:
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
