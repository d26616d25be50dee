"""Messages and voters as the scripts show them, one line each."""

from __future__ import annotations

from kraft import Uuid
from quorate.nouns import OffsetAndEpoch, ReplicaKey, uuid_text
from quorate.raft import VoterSet
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    AlterQuorumRequest,
    AlterQuorumResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControllerPresenceRequest,
    EpochlessRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    Response,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.voters import ListenerEndpoint, Voter

DISKS = {letter: Uuid(bytes(15) + letter.encode()) for letter in "abcdefgh"}
"""Directory ids: `4b` is node 4 on its second disk."""


def ends(end: OffsetAndEpoch) -> str:
    return f"({end.offset}, e{end.epoch})"


def describe(message: Message) -> str:
    """One line: the name, the epoch, and what matters beside."""
    words = [type(message).__name__]
    if not isinstance(message, EpochlessRequest):
        words.append(f"epoch={message.epoch}")
    if isinstance(message, Response) and message.error:
        words.append(message.error.name)
    match message:
        case VoteRequest():
            words += ["pre-vote"] * message.pre_vote + [f"last={ends(message.last)}"]
        case VoteResponse():
            words.append("granted" if message.granted else "refused")
        case FetchRequest():
            words.append(f"from={message.fetch_offset} e{message.last_fetched_epoch} hw={message.high_watermark}")
        case FetchResponse():
            if message.diverging is not None:
                words.append(f"diverging={ends(message.diverging)}")
            if message.snapshot_id is not None:
                words.append(f"snapshot={ends(message.snapshot_id)}")
            if message.batches:
                words.append(f"records={message.batches[0].base_offset}..{message.batches[-1].end_offset}")
            words.append(f"hw={message.high_watermark}")
        case FetchSnapshotRequest():
            words.append(f"{ends(message.snapshot_id)} from={message.position}")
        case FetchSnapshotResponse():
            words.append(f"{len(message.data)} bytes from={message.position} of={message.size}")
        case AddRaftVoterRequest() | UpdateRaftVoterRequest():
            words.append(" ".join((str(message.voter.key), *(each.host for each in message.voter.endpoints))))
        case RemoveRaftVoterRequest():
            words.append(str(message.voter))
        case AlterQuorumRequest():
            words.append("none" if message.target is None else names(message.target))
        case AlterQuorumResponse() if not message.error:
            words.append(f"offset={message.offset}")
        case AddRaftVoterResponse() | RemoveRaftVoterResponse() | AlterQuorumResponse() | UpdateRaftVoterResponse():
            words += [f"({message.message})"] if message.message else ["done"] * (not message.error)
        case TransferLeadershipRequest():
            words.append(f"to={message.to}")
        case TransferLeadershipResponse():
            words.append(f"({message.message})" if message.message else f"leader={message.leader_id}")
        case ControllerPresenceRequest():
            words.append("present" if message.is_present else "away")
        case ApiVersionsRequest():
            pass
        case ApiVersionsResponse():
            words.append(f"kraft.version={message.kraft_versions}")
        case _:
            words.append(f"leader={message.leader_id}")
    return " ".join(words)


def voter_on(name: str) -> Voter:
    """`4b` is node 4 on its disk b."""
    id, letter = int(name[:-1]), name[-1]
    return Voter(key=ReplicaKey(id, DISKS[letter]), endpoints=(ListenerEndpoint("CONTROLLER", f"host{id}", 9093),))


def names(voters: VoterSet) -> str:
    """The voters, and where they listen if that is not where they were."""
    found = []
    for voter in voters.voters:
        moved = [each.host for each in voter.endpoints if each.host != f"host{voter.key.id}"]
        found.append(str(voter.key) + "".join(f"@{host}" for host in moved))
    target = "" if voters.target is None else f" target={names(voters.target)}"
    return (",".join(found) or "none") + target


def with_short_names(line: str) -> str:
    """Directory ids by their letter."""
    for letter, disk in DISKS.items():
        line = line.replace(f"-{uuid_text(disk)}", letter)
    return line
