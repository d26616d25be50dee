"""`quorate quorum`: leader, epoch, voters and observers with their lag; of files what they can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraft.api.describe_quorum import DescribeQuorumResponse
from quorate.cli.documents import TableOutput, is_document, print_document, print_lines
from quorate.cli.failures import Failed, Unreached
from quorate.cli.image import columns
from quorate.cli.live import LiveQuorum
from quorate.cli.offline import load
from quorate.cli.printable import printable
from quorate.cli.reading import metadata_directory
from quorate.cli.tables import print_rows
from quorate.errors import ApiError, ErrorCode, error_name
from quorate.network.quorum_view import View, describe_quorum
from quorate.nouns import ZERO_UUID, Epoch, NodeId, Offset, uuid_text
from quorate.storage.election_file import ElectionFile
from quorate.what_if import leader_clock_ms

__all__ = ["Described", "described_by_files", "described_by_view", "described_live", "print_quorum"]

Replica = DescribeQuorumResponse.ReplicaState
LEADER: Final = "leader"
VOTER: Final = "voter"
OBSERVER: Final = "observer"
COLUMNS: Final = ("id", "role", "logEndOffset", "lag", "fetchedMsAgo", "caughtUpMsAgo", "directoryId")
NULL: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A quorum, as far as it is known: a row for each replica, in the order of COLUMNS; what is unknown is None."""

    leader_id: NodeId | None
    epoch: Epoch
    high_watermark: Offset | None
    replicas: Sequence[tuple[Any, ...]]
    notes: Sequence[str] = ()


def described_live(live: LiveQuorum) -> Described:
    """Asks a live Kafka quorum for its leader, voters and observers. Raises Failed, Unreached, Misused, OSError."""
    endpoints, config = live.endpoints(), live.config()
    try:
        return described_by_view(asyncio.run(describe_quorum(endpoints, config)))
    except TimeoutError as problem:
        raise Unreached(f"{live.bootstrap}: {problem}") from None
    except ApiError as problem:
        raise Failed(f"{live.bootstrap}: {problem}") from None


def described_by_view(view: View) -> Described:
    """Returns the voters and observers of a DescribeQuorum answer. Raises Unreached if nobody leads."""
    if view.error_code != ErrorCode.NONE:
        raise Unreached(f"the quorum has no leader: {error_name(view.error_code)}")
    end = next((each.log_end_offset for each in view.current_voters if each.replica_id == view.leader_id), None)
    now_ms = leader_clock_ms(view)
    rows: list[tuple[Any, ...]] = []
    for role, replicas in ((VOTER, view.current_voters), (OBSERVER, view.observers)):
        for each in replicas:
            log_end = each.log_end_offset if each.log_end_offset >= 0 else None
            lag = None if log_end is None or end is None else max(0, end - log_end)
            told = LEADER if each.replica_id == view.leader_id else role
            directory = None if each.replica_directory_id == ZERO_UUID else uuid_text(each.replica_directory_id)
            rows.append((each.replica_id, told, log_end, lag, *_ago(each, now_ms), directory))
    return Described(
        leader_id=view.leader_id, epoch=view.leader_epoch, high_watermark=view.high_watermark, replicas=rows
    )


def _ago(replica: Replica, now_ms: int) -> tuple[int | None, int | None]:
    """Returns how long ago a replica has fetched, and has had all, in ms; None if the leader does not know."""
    fetched, caught_up = replica.last_fetch_timestamp, replica.last_caught_up_timestamp
    return (max(0, now_ms - fetched) if fetched >= 0 else None, max(0, now_ms - caught_up) if caught_up >= 0 else None)


def described_by_files(path: Path) -> Described:
    """Returns what a node's directory tells: who led when it last wrote, and the voters, but not how far they are.

    Raises Failed, Corrupt, OSError.
    """
    found = load(path)
    stored = ElectionFile(metadata_directory(path).partition).stored() if path.is_dir() else None
    leader_id, epoch = (None, found.epoch) if stored is None else (stored.leader_id, stored.epoch)
    voters: list[tuple[NodeId, str | None]] = []
    if found.voters is not None:
        voters = [(each.voter_id, uuid_text(each.voter_directory_id)) for each in found.voters.voters]
    if not voters:
        voters = [(each, None) for each in found.elected]
    rows = [
        (voter_id, LEADER if voter_id == leader_id else VOTER, None, None, None, None, directory)
        for voter_id, directory in voters
    ]
    notes = [*found.notes, "files do not tell how far the others are, nor who observes"]
    return Described(leader_id=leader_id, epoch=epoch, high_watermark=None, replicas=rows, notes=notes)


def print_quorum(quorum: Described, output: str) -> None:
    """Prints a quorum as text, as a document, or its replicas as rows."""
    if is_document(output):
        print_document(_json(quorum), output)
    elif output == TableOutput.TEXT:
        print_lines(_text(quorum))
    else:
        print_rows(COLUMNS, quorum.replicas, output)


def _text(quorum: Described) -> Iterator[str]:
    high_watermark = "" if quorum.high_watermark is None else f"  high watermark {quorum.high_watermark}"
    leader = "none" if quorum.leader_id is None else quorum.leader_id
    yield f"leader {leader}  epoch {quorum.epoch}{high_watermark}"
    rows = [[NULL if value is None else value for value in row] for row in quorum.replicas]
    yield from columns([COLUMNS, *rows])
    for note in quorum.notes:
        yield f"note: {printable(note)}"


def _json(quorum: Described) -> dict[str, Any]:
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.epoch,
        "highWatermark": quorum.high_watermark,
        "replicas": [dict(zip(COLUMNS, row, strict=True)) for row in quorum.replicas],
        "notes": list(quorum.notes),
    }
