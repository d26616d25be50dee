"""The metadata log's partition in a Fetch and in its answer: what is asked of it, and where its log may be followed."""

from __future__ import annotations

from typing import TypeAlias

from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import Corrupt
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, NOBODY, Epoch, Offset
from quorate.wire.batch import peek_header

__all__ = ["Answered", "Partition", "partition_of", "sound", "start_of"]

Partition: TypeAlias = FetchRequest.FetchTopic.FetchPartition
Answered: TypeAlias = FetchResponse.FetchableTopicResponse.PartitionData


def partition_of(request: FetchRequest) -> Partition | None:
    """Returns the partition of the metadata log, if the request is for it alone, by its id."""
    topics = request.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition == METADATA_PARTITION else None


def sound(response: FetchResponse) -> Answered | None:
    """Returns the partition of an answer that has no error and sends the reader nowhere else; None for any other."""
    if response.error_code or len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    answered = response.responses[0].partitions[0]
    goes_on = answered.diverging_epoch.epoch < 0 and answered.snapshot_id.end_offset < 0
    is_led = answered.current_leader.leader_id != NOBODY and answered.high_watermark >= 0
    return answered if not answered.error_code and goes_on and is_led else None


def start_of(asked: Partition, answered: Answered) -> tuple[Offset, Epoch] | None:
    """Returns an offset up to which all is committed, and the epoch of the record before it; None if none is sure.

    Both are the node's word: a reader may name an offset within a batch, or an epoch that the log has only later. Where
    there are no records the reader is at the log's end, and the node has compared its epoch with that of the last one.
    """
    offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
    if answered.records:
        try:
            first = peek_header(answered.records)
        except Corrupt:
            return None
        offset, epoch = first.next_offset, first.epoch
    return (offset, epoch) if offset <= answered.high_watermark else None
