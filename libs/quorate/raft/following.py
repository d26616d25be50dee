"""The follower's fetches: appending records, truncating a diverged log, downloading a snapshot (KIP-595, KIP-630).

The follower fetches from its log end, with the epoch of its last record. The answer has one of three things:

* records that continue the log: they are appended, and flushed before the next fetch, which acknowledges them;
* a diverging epoch, if the log's last records are not the leader's: the follower truncates and fetches again (KIP-320);
* a snapshot id, if the leader no longer has the records: the follower downloads it in chunks and replaces its log.

Only a good answer restarts the fetch timeout. A follower truncates only where its leader's answer says so (I-14), and
never below its high watermark (I-13).
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.raft.log import BatchInfo, LogView
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import Follower, SnapshotDownload, Unattached
from quorate.raft.step_context import StepContext
from quorate.raft.voters import VoterSet

FAILOVER_DOUBLINGS_MAX = 10
"""The wait for a lost leader is doubled at most so many times; the fetch timeout is shorter than that anyway."""


def fetch(context: StepContext, role: Follower) -> None:
    """Sends the next Fetch, or the next FetchSnapshot while a snapshot is downloaded: one request at a time.

    It sends none while there are unflushed records: the fetch offset acknowledges everything below it as flushed, and
    the leader counts it towards the high watermark (I-18).
    """
    if context.log.flushed < context.log.leo or not context.wait_to_ask(role.leader_id):
        return
    if role.download is None:
        # The first fetch asks for an answer at once, so that this node soon knows whether the leader is there.
        max_wait_ms = context.settings.fetch_max_wait_ms if role.has_fetched else 0
        context.ask(role.leader_id, _next_fetch(context, epoch=role.epoch, max_wait_ms=max_wait_ms))
    elif not role.download.is_whole:
        piece = FetchSnapshotRequest(
            epoch=role.epoch,
            replica=context.node,
            snapshot_id=role.download.snapshot_id,
            position=role.download.position,
            max_bytes=context.settings.snapshot_max_bytes,
        )
        context.ask(role.leader_id, piece)


def _next_fetch(context: StepContext, *, epoch: int, max_wait_ms: int) -> FetchRequest:
    """Returns a Fetch from this node's log end, with the epoch of its last record to find a divergence (KIP-595)."""
    log = context.log
    assert log.flushed == log.leo, (log.flushed, log.leo)  # I-18: it acknowledges all below
    return FetchRequest(
        epoch=epoch,
        replica=context.node,
        fetch_offset=log.leo,
        last_fetched_epoch=log.last_epoch,
        max_bytes=context.settings.fetch_max_bytes,
        max_wait_ms=max_wait_ms,
        high_watermark=log.high_watermark,
    )


def seek_leader(context: StepContext, role: Unattached) -> None:
    """Sends a Fetch to a random voter or bootstrap server, to learn the leader: its answer names one.

    Only nodes that start no election do that: observers, and voters in recovery. For other voters, the leader's
    BeginQuorumEpoch or their own election timeout ends the wait.
    """
    # A voter in recovery starts no election, so it looks for the leader like an observer. As in `fetch`, unflushed
    # records come first.
    if (context.is_voter and not context.is_recovering) or context.log.flushed < context.log.leo:
        return
    free = [peer for peer in sorted(context.known_peers) if context.wait_to_ask(peer)]
    if free and not len(context.requests):
        context.ask(free[context.random.randrange(len(free))], _next_fetch(context, epoch=role.epoch, max_wait_ms=0))


def take_fetch(context: StepContext, role: Follower, response: FetchResponse) -> None:
    """Handles a Fetch answer: appends its records, truncates at the log divergence, or starts a snapshot download.

    An answer with an error, or one that breaks a rule, changes nothing and does not extend the fetch timeout; the fetch
    is sent again after a pause. The high watermark becomes the leader's, but at most this log's end (I-20).
    """
    if response.error is not ErrorCode.NONE:
        context.pause(context.peer)
        return
    if (flaw := _flaw(context.log, role, response)) is not None:
        context.effects.refused.append(f"the Fetch answer of node {context.peer}: {flaw}")
        context.pause(context.peer)
        return
    assert context.log.flushed == context.log.leo, (context.log.flushed, context.log.leo)  # as when the fetch was sent
    _record_leader_contact(context, role)
    if response.diverging is not None:
        context.truncate(to=fork(context.log, response.diverging))
    elif response.snapshot_id is not None:
        role.download = SnapshotDownload(snapshot_id=response.snapshot_id)
    else:
        if _says_nothing(context, response):
            context.pause(context.peer)
        for batch in response.batches:
            context.append(batch)
        assert context.log.last_epoch <= role.epoch, (context.log.last, role.epoch)  # I-03
        context.commit(min(context.log.leo, response.high_watermark))
        role.is_caught_up = 0 <= response.high_watermark <= context.log.leo


def _says_nothing(context: StepContext, response: FetchResponse) -> bool:
    """Returns whether the answer is empty and came before its wait was over; asking at once would be a busy loop."""
    flight = context.flight
    assert flight is not None
    assert isinstance(flight.request, FetchRequest), flight
    brings = response.batches or min(context.log.leo, response.high_watermark) > context.log.high_watermark
    sent_at_ms = flight.deadline_ms - context.settings.request_timeout_ms
    return not brings and context.now_ms < sent_at_ms + flight.request.max_wait_ms


def _record_leader_contact(context: StepContext, role: Follower) -> None:
    """Restarts the fetch timeout after a good answer."""
    role.leader_contact_at_ms = context.now_ms
    role.fetch_deadline_ms = context.now_ms + context.settings.fetch_timeout_ms
    role.has_fetched = True
    role.is_lost = False


def _flaw(log: LogView, role: Follower, response: FetchResponse) -> str | None:
    """Returns the rule that a Fetch answer breaks, as text for the log; None if it breaks none."""
    if response.diverging is not None:
        return _divergence_flaw(log, response.diverging)
    if response.snapshot_id is not None:
        return _snapshot_flaw(log, role, response.snapshot_id)
    return _batches_flaw(log, role, response.batches)


def _divergence_flaw(log: LogView, diverging: OffsetAndEpoch) -> str | None:
    """Returns a text unless the truncation removes something and nothing that is committed (I-13).

    Where it would remove committed records, Kafka ends the process.
    """
    to = fork(log, diverging)
    if diverging.epoch >= 0 and diverging.offset >= 0 and log.high_watermark <= to < log.leo:
        return None
    ends = f"the log is committed up to {log.high_watermark} and ends at {log.leo}"
    return f"epoch {diverging.epoch} ends at {diverging.offset}, so truncate to {to}; {ends}"


def _snapshot_flaw(log: LogView, role: Follower, snapshot_id: OffsetAndEpoch) -> str | None:
    """Returns a text unless the leader can have this snapshot and this log may be replaced by it."""
    if 0 <= snapshot_id.epoch <= role.epoch and snapshot_id.offset > 0 and may_install(log, snapshot_id):
        return None
    ends = f"the log ends at {log.leo} in epoch {log.last_epoch}, committed up to {log.high_watermark}"
    return f"snapshot of offset {snapshot_id.offset} in epoch {snapshot_id.epoch}; {ends}"


def _batches_flaw(log: LogView, role: Follower, batches: Sequence[BatchInfo]) -> str | None:
    """Returns a text unless `batches` continue this log without a gap (I-10), and their epochs do not fall (I-09).

    An epoch after the leader's own is a flaw, too. Neighbouring voter sets may differ by at most one voter added and
    one removed, as in Kafka; kraft.version does not fall, and there are none before it is 1. KIP-853.
    """
    end, epoch = log.leo, log.last_epoch
    voters = None if log.voters.latest_offset is None else log.voters.latest
    level = log.kraft_version
    for batch in batches:
        at = f"batch of offsets {batch.base_offset} to {batch.last_offset} in epoch {batch.epoch}"
        if batch.base_offset != end or batch.end_offset <= end:
            return f"{at}; offset {end} is next"
        if not epoch <= batch.epoch <= role.epoch:
            return f"{at}; epoch {epoch} is before it, and the leader's is {role.epoch}"
        if batch.voters is not None:
            if not batch.voters.voters or (voters is not None and not voters.overlaps(batch.voters)):
                return f"{at}; its voters are {sorted(batch.voters.ids)}, and those before it are not one less or more"
            voters = batch.voters
        if batch.kraft_version is not None:
            if batch.kraft_version < level:
                return f"{at}; its kraft.version is {batch.kraft_version}, and {level} before it"
            level = batch.kraft_version
        if voters is not None and level < 1:
            return f"{at}; it has voters, and kraft.version is {level} there"
        end, epoch = batch.end_offset, batch.epoch
    return None


def fork(log: LogView, diverging: OffsetAndEpoch) -> int:
    """Returns the offset to truncate to: where both logs end the largest epoch that they share. KIP-320, KIP-595.

    `diverging` is the leader's largest epoch that is not above this log's last one, with its end offset (exclusive)
    there. If this log has that epoch, it is the smaller of the two ends; else it is the end of the largest epoch below.
    """
    ours = log.end_offset_for(diverging.epoch)
    return min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset


def may_install(log: LogView, snapshot_id: OffsetAndEpoch) -> bool:
    """Returns whether the log may be replaced by the snapshot without losing anything committed (I-29).

    All of a snapshot is committed, so records of this log below its end are in it or were never committed. Kafka
    compares (epoch, offset) with the log end, and ends the process if the log is ahead. But a tail of a later epoch
    that was never committed may end below the snapshot of an earlier epoch; here that is allowed.
    """
    is_beyond = snapshot_id.epoch > log.last.epoch or snapshot_id.offset >= log.leo
    return is_beyond and snapshot_id.offset >= log.high_watermark


def take_chunk(context: StepContext, role: Follower, response: FetchSnapshotResponse) -> None:
    """Writes one chunk of the snapshot at the expected position. KIP-630.

    After an error (the leader no longer has the snapshot), or a chunk that does not fit, the download is dropped: the
    next Fetch answer names the snapshot to download.
    """
    download = role.download
    assert download is not None, response
    is_next = response.snapshot_id == download.snapshot_id and response.position == download.position
    is_sound = is_next and response.data and response.position + len(response.data) <= response.size
    if response.error is not ErrorCode.NONE or not is_sound or download.size not in (None, response.size):
        if response.error is ErrorCode.NONE:
            got = f"{len(response.data)} of {response.size} bytes at {response.position} of {response.snapshot_id}"
            wanted = f"at {download.position} of {download.snapshot_id}, of {download.size} bytes"
            context.effects.refused.append(f"the FetchSnapshot answer of node {context.peer}: {got}; wanted {wanted}")
        role.download = None
        context.pause(context.peer)
        return
    _record_leader_contact(context, role)
    download.size = response.size
    download.position += len(response.data)
    assert download.position <= download.size, download
    chunk = SnapshotChunk(
        snapshot_id=download.snapshot_id, position=response.position, data=response.data, is_last=download.is_whole
    )
    context.write_chunk(chunk)


def install(
    context: StepContext,
    role: Follower,
    snapshot_id: OffsetAndEpoch,
    *,
    voters: VoterSet | None,
    kraft_version: int | None,
) -> bool:
    """Replaces the log by the snapshot that is complete on disk; returns False if it is not the finished download."""
    download = role.download
    if download is None or not download.is_whole or download.snapshot_id != snapshot_id:
        return False
    assert download.size is not None
    assert may_install(context.log, snapshot_id), (snapshot_id, context.log.last, context.log.high_watermark)
    role.download = None
    context.install(snapshot_id, size=download.size, voters=voters, kraft_version=kraft_version)
    return True


def drop_download(context: StepContext, role: Follower, snapshot_id: OffsetAndEpoch) -> None:
    """Drops the download of `snapshot_id`, which is no valid snapshot; a Fetch after a pause finds what to download."""
    if role.download is not None and role.download.snapshot_id == snapshot_id:
        context.pause(role.leader_id)
        role.download = None


def lose_leader(context: StepContext, role: Follower) -> None:
    """Handles a reset stream to the leader: its process has probably ended, so pre-votes start after a moment only.

    The wait is random, so that two followers seldom start an election at once; if the leader is alive, pre-vote makes
    the false alarm harmless. A second call for the same leader does nothing.
    """
    if role.is_lost:
        return
    give_up_soon(context, role, lost_rounds=0)


def give_up_soon(context: StepContext, role: Follower, *, lost_rounds: int) -> None:
    """Shortens the fetch timeout for a lost leader; each lost round of pre-votes doubles the wait.

    From now on this follower grants pre-votes to others.
    """
    role.is_lost = True
    role.has_fetched = False
    role.lost_rounds = lost_rounds
    # The wait is more than half of the maximum, so that one more fetch fits into it, in case that only the stream has
    # ended.
    half_ms = context.settings.failover_wait_max_ms // 2 << min(lost_rounds, FAILOVER_DOUBLINGS_MAX)
    wait_ms = half_ms + 1 + context.random.randrange(half_ms)
    assert half_ms < wait_ms <= 2 * half_ms, (wait_ms, half_ms)
    role.fetch_deadline_ms = min(role.fetch_deadline_ms, context.now_ms + wait_ms)
