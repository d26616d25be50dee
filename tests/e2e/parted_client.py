"""A client that writes a record with acks=all where a parted broker is: `python -m tests.e2e.parted_client ADDRESS …`.

It is for a network namespace: its process is started there, and prints for each topic what the broker answered.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from kraft.api.produce import ProduceRequest, ProduceResponse
from quorate.errors import ErrorCode
from quorate.network.client import connect
from tests.partition_log.batches import produced_of

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 5_000


async def written(address: str, topic: str, value: int, *, acks: int = ACKS_ALL) -> ErrorCode:
    """What the broker at an address answers to a record for partition 0. Raises OSError."""
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=produced_of(value))
    topics = (ProduceRequest.TopicProduceData(name=topic, partition_data=(data,)),)
    host, port = address.split(":")
    async with await connect(host, int(port)) as client:
        request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)
        answer = await client.ask_for(ProduceResponse, request, version=12)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def main(address: str, value: str, *topics: str) -> None:
    """Writes the value to each topic, and prints a line for each."""
    for topic in topics:
        print((await written(address, topic, int(value))).name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
