"""Does to a log on disk what the core has decided: the effects of `quorate.replication` that are a log's."""

from __future__ import annotations

from typing import cast

from quorate.partition_log.log import PartitionLog
from quorate.replication.effects import (
    Append,
    AssignEpoch,
    Effect,
    HighWatermarkRaised,
    RaiseLogStart,
    RestartAt,
    Truncate,
)
from quorate.wire.batch import Buffer


def carry_out(log: PartitionLog, effect: Effect, *, now_ms: int) -> None:
    """Carries out one effect on the log; an effect that is not for a log changes nothing.

    Effects come in the order in which they were decided.

    Raises Corrupt for a leader's bytes that are no batch that follows the log, and OSError.
    """
    match effect:
        case AssignEpoch(epoch=epoch, start_offset=start_offset):
            log.assign_epoch(epoch, start_offset)
        case Append(batches):
            for batch in batches:
                log.append_as_follower(cast("Buffer", batch.data), now_ms=now_ms)
        case Truncate(to):
            log.truncate(to)
        case RestartAt(leo=leo, start=start):
            log.restart_at(leo=leo, start=start)
        case RaiseLogStart(to):
            log.raise_start(to)
        case HighWatermarkRaised(high_watermark):
            log.commit(high_watermark)
