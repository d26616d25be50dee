"""The follower fetches: records, the truncation that makes room for them, or a snapshot (KIP-595, KIP-630)."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, OffsetAndEpoch
from quorate.raft.log import Batch, LogView
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import Download, Follower, Unattached
from quorate.raft.turn import Turn
from quorate.raft.voters import VoterSet

FAILOVER_DOUBLINGS_MAX = 10
"""The fetch timeout is shorter than what comes of more."""


def fetch(turn: Turn, role: Follower) -> None:
    """Asks for what comes next; one request at a time, and never for what follows unflushed records."""
    # The fetch offset is our word that everything below is on disk, so the next fetch waits for the flush.
    if turn.log.flushed < turn.log.leo:
        return
    source = _source(turn, role)
    if source is None:
        return
    from_any = source != role.leader_id
    if role.download is not None and role.download.source != source:
        role.download = None
    if role.download is None:
        # A leader not yet heard is to answer at once, so that we know soon whether there is one.
        max_wait_ms = turn.settings.fetch_max_wait_ms if role.has_fetched else 0
        turn.ask(source, _next_fetch(turn, epoch=role.epoch, max_wait_ms=max_wait_ms, from_any=from_any))
    elif not role.download.is_whole:
        piece = FetchSnapshotRequest(
            epoch=role.epoch,
            replica=turn.node,
            snapshot_id=role.download.snapshot_id,
            position=role.download.position,
            max_bytes=turn.settings.snapshot_max_bytes,
            from_any=from_any,
        )
        turn.ask(source, piece)


def _source(turn: Turn, role: Follower) -> NodeId | None:
    """Whom to ask now: the leader, or for an observer the first relay that is in no trouble; None if nobody yet."""
    # The leader must hear a voter, and whoever wants to be one.
    must_be_heard = turn.is_voter or turn.settings.auto_join_enable
    relays = (
        () if must_be_heard else tuple(relay for relay in turn.relays if relay not in (turn.node.id, role.leader_id))
    )
    sources = (*relays, role.leader_id)
    if role.download is not None and turn.may_ask(role.download.source):
        return role.download.source
    if any(turn.requests.is_asked(source) for source in sources):
        for source in sources:
            turn.may_ask(source)
        return None
    return next((source for source in sources if turn.may_ask(source)), None)


def _next_fetch(turn: Turn, *, epoch: int, max_wait_ms: int, from_any: bool = False) -> FetchRequest:
    """A fetch from the end of our log."""
    return FetchRequest(
        epoch=epoch,
        replica=turn.node,
        fetch_offset=turn.log.leo,
        last_fetched_epoch=turn.log.last_epoch,
        max_bytes=turn.settings.fetch_max_bytes,
        max_wait_ms=max_wait_ms,
        high_watermark=turn.log.high_watermark,
        from_any=from_any,
    )


def seek_leader(turn: Turn, role: Unattached) -> None:
    """An observer that knows no leader fetches from anybody: the answer tells who leads. Voters are told."""
    # A voter that cannot stand waits for nobody's timeout, so it asks too.
    if (turn.is_voter and not turn.is_recovering) or turn.log.flushed < turn.log.leo:
        return
    peers = sorted((turn.voters.ids | turn.bootstrap | set(turn.relays)) - {turn.node.id})
    free = [peer for peer in peers if turn.may_ask(peer)]
    if free and not len(turn.requests):
        turn.ask(free[turn.random.randrange(len(free))], _next_fetch(turn, epoch=role.epoch, max_wait_ms=0))


def take_fetch(turn: Turn, role: Follower, response: FetchResponse) -> None:
    """Appends what came, truncates where the logs part, or begins to download a snapshot."""
    if response.error is not ErrorCode.NONE or not _is_sound(turn.log, role, response):
        turn.pause(turn.peer)
        return
    if _is_stale(turn, role, response):
        turn.pause(turn.peer)
    _hear_leader(turn, role, silent_ms=response.silent_ms)
    if response.diverging is not None:
        turn.truncate(to=fork(turn.log, response.diverging))
    elif response.snapshot_id is not None:
        role.download = Download(snapshot_id=response.snapshot_id, source=turn.peer)
    else:
        for batch in response.batches:
            turn.append(batch)
        turn.commit(min(turn.log.leo, response.high_watermark))
        role.is_caught_up = 0 <= response.high_watermark <= turn.log.leo


def _is_stale(turn: Turn, role: Follower, response: FetchResponse) -> bool:
    """Is it a relay that brings nothing, and has heard the leader no later than we have? Then it may hear it by us."""
    is_empty = not response.batches and response.diverging is None and response.snapshot_id is None
    heard_ms = turn.now_ms - response.silent_ms
    return is_empty and response.silent_ms > 0 and role.heard_ms is not None and heard_ms <= role.heard_ms


def _hear_leader(turn: Turn, role: Follower, *, silent_ms: int) -> None:
    """A good answer: only that keeps the leader ours. It is `silent_ms` older than it looks if it was relayed."""
    heard_ms = turn.now_ms - max(0, silent_ms)
    role.heard_ms = heard_ms if role.heard_ms is None else max(role.heard_ms, heard_ms)
    role.fetch_ms = role.heard_ms + turn.settings.fetch_timeout_ms
    role.has_fetched = True
    role.is_lost = False


def _is_sound(log: LogView, role: Follower, response: FetchResponse) -> bool:
    """Does what came fit our log? What does not is asked for again, and changes nothing."""
    if response.diverging is not None:
        return fork(log, response.diverging) < log.leo
    if response.snapshot_id is not None:
        return may_install(log, response.snapshot_id)
    return _continues(log, role, response.batches)


def _continues(log: LogView, role: Follower, batches: Sequence[Batch]) -> bool:
    """Do `batches` follow our log without a gap, with epochs that do not fall and are none of the future's?"""
    end, epoch = log.leo, log.last_epoch
    for batch in batches:
        if batch.base_offset != end or not epoch <= batch.epoch <= role.epoch or batch.end_offset <= end:
            return False
        end, epoch = batch.end_offset, batch.epoch
    return True


def fork(log: LogView, diverging: OffsetAndEpoch) -> int:
    """Where to truncate: the end of the latest epoch that both logs have, in the log where it ends first. KIP-320."""
    ours = log.end_offset_for(diverging.epoch)
    return min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset


def may_install(log: LogView, snapshot_id: OffsetAndEpoch) -> bool:
    """May the log give way to the snapshot? Only if nothing that may be committed is lost with it.

    Everything in a snapshot is committed, so what we have below its end is either in it or void. Kafka compares
    (epoch, offset) with our end and stops if the log is ahead; but a tail of a later epoch, never committed,
    may well end below a snapshot of an earlier one.
    """
    is_beyond = snapshot_id.epoch > log.last.epoch or snapshot_id.offset >= log.leo
    return is_beyond and snapshot_id.offset >= log.high_watermark


def take_chunk(turn: Turn, role: Follower, response: FetchSnapshotResponse) -> None:
    """Writes one piece of the snapshot; begins anew by a fetch if the leader has it no more. KIP-630."""
    download = role.download
    assert download is not None, response
    is_next = response.snapshot_id == download.snapshot_id and response.position == download.position
    is_sound = is_next and response.data and response.position + len(response.data) <= response.size
    if response.error is not ErrorCode.NONE or not is_sound or download.size not in (None, response.size):
        role.download = None
        turn.pause(turn.peer)
        return
    _hear_leader(turn, role, silent_ms=response.silent_ms)
    download.size = response.size
    download.position += len(response.data)
    chunk = SnapshotChunk(
        snapshot_id=download.snapshot_id, position=response.position, data=response.data, is_last=download.is_whole
    )
    turn.write_chunk(chunk)


def install(
    turn: Turn,
    role: Follower,
    snapshot_id: OffsetAndEpoch,
    *,
    voters: VoterSet | None,
    kraft_version: int | None,
) -> bool:
    """The whole snapshot is on disk: the log gives way to it. False if nobody waits for it any more."""
    download = role.download
    if download is None or not download.is_whole or download.snapshot_id != snapshot_id:
        return False
    assert download.size is not None
    assert may_install(turn.log, snapshot_id), (snapshot_id, turn.log.last, turn.log.high_watermark)
    role.download = None
    turn.install(snapshot_id, size=download.size, voters=voters, kraft_version=kraft_version)
    return True


def drop_download(turn: Turn, role: Follower, snapshot_id: OffsetAndEpoch) -> None:
    """What came is of no use: after a pause, a fetch will tell again what to download."""
    if role.download is not None and role.download.snapshot_id == snapshot_id:
        turn.pause(role.download.source)
        role.download = None


def lose_leader(turn: Turn, role: Follower) -> None:
    """The stream to the leader was reset: its process has probably died, so we wait only a moment for it to return.

    The wait is random, so that two followers seldom ask for votes at once; pre-vote makes a false alarm harmless.
    """
    if role.is_lost:
        return
    give_up_soon(turn, role, lost_rounds=0)


def give_up_soon(turn: Turn, role: Follower, *, lost_rounds: int) -> None:
    """Waits a moment for the lost leader; after each round of pre-votes that was lost, twice as long."""
    role.is_lost = True
    role.has_fetched = False
    role.lost_rounds = lost_rounds
    # The shorter half is left to one fetch more, in case only the stream has died.
    half_ms = turn.settings.failover_wait_max_ms // 2 << min(lost_rounds, FAILOVER_DOUBLINGS_MAX)
    wait_ms = half_ms + 1 + turn.random.randrange(half_ms)
    role.fetch_ms = min(role.fetch_ms, turn.now_ms + wait_ms)
