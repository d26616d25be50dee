"""Offsets of peers that must lie between batches: where a log is cut, what is committed, what a voter has flushed.

Within one epoch one leader has written all records, so logs that agree up to an offset have the same batches there; an
offset within a batch is a fault of the peer. The core knows no batches: past it, such an offset would end this node, or
commit a part of a batch.
"""

from __future__ import annotations

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Offset
from quorate.raft import messages as raft
from quorate.raft.following import fork
from quorate.raft.log import LogView
from quorate.storage.disk_log import DiskLog


def boundary_flaw(log: DiskLog, view: LogView, message: raft.Message) -> str | None:
    """Returns, in words, which high watermark or truncation offset of a Fetch response lies within a batch.

    None if neither does, and for any other message. Raises ApiError(INVALID_REQUEST) for a Fetch request at such an
    offset, if this log has the sender's last epoch up to there. A sender without a node id, and one that asks any node
    (`from_any`), may begin anywhere.
    """
    match message:
        case raft.FetchRequest():
            _check_request(log, view, message)
        case raft.FetchResponse(diverging=diverging) if diverging is not None:
            to = fork(view, diverging)
            if _is_within(log, to):
                ends = f"epoch {diverging.epoch} ends at {diverging.offset}"
                return f"{ends}, so truncate to {to}; that is within a batch"
        case raft.FetchResponse(error=ErrorCode.NONE, snapshot_id=None, high_watermark=end, batches=batches):
            is_new = end > view.high_watermark
            if is_new and (_is_within(log, end) or any(each.base_offset < end < each.end_offset for each in batches)):
                return f"the high watermark is {end}; that is within a batch"
    return None


def _check_request(log: DiskLog, view: LogView, request: raft.FetchRequest) -> None:
    """Raises ApiError(INVALID_REQUEST) for an offset within a batch, if this log has the epoch before it up to there.

    Else the answer is the log divergence, and the sender's batches may be others. A reader without an id counts for
    nothing, and may begin anywhere.
    """
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if not request.replica.has_id or request.from_any or not view.start < offset <= view.leo:
        return
    end = view.end_offset_for(epoch)
    if end.epoch == epoch and offset < end.offset and _is_within(log, offset):
        why = f"fetch_offset {offset} is within a batch; a replica fetches from the end of one"
        raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "fetch_offset"})


def _is_within(log: DiskLog, offset: Offset) -> bool:
    try:
        return not log.is_boundary(offset)
    except Corrupt:
        return False  # reading the records there reports the damage
