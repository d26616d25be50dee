"""A process that writes to the control plane all the time, and notes each write that was acknowledged.

Each write sets the quota of a user of its own, so that it may be sent again after a failure, and every one can be
looked for at the end. `python -m tests.kube.load write ADDRESS HOST KEYSTORE TRUSTSTORE FILE` writes until SIGTERM,
`list …` prints the users that have quotas, `quorum …` the voters, `lead … NODE` has a node lead, `read …` asks all that
a name of the cluster stands for until SIGTERM. It runs in the network of the cluster, and calls by the name in the
certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import grpc

from kraft.api.alter_client_quotas_pb2 import AlterClientQuotasRequest
from kraft.api.describe_client_quotas_pb2 import DescribeClientQuotasRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.observer_pb2_grpc import ObserverStub
from kraft.service.quorum_pb2 import TransferLeadershipRequest
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.connections.transport import Transport
from tests.e2e.calls import call_once, call_with_retries

KEY = "producer_byte_rate"
DEADLINE_MS = 2_000
PAUSE_S = 0.05
BETWEEN_S = 0.02
OPTIONS = (
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 1_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # A pod that has gone answers nothing: by default gRPC waits 20 s for a connection.
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 1 << 28),
)
BALANCED = (
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
)
"""What a client sets that wants all copies of a name; the rest is the server's, which closes old connections."""


async def write(stub: ControllerStub, file: Path) -> None:
    """Appends a line for each write that was acknowledged, and for each that was refused for good."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    number = 0
    with file.open("w", buffering=1) as out:
        while not stopping.is_set():
            # Not a name of another load: what that has written would hide that this is lost.
            user = f"{file.stem}-{number}"
            line: dict[str, Any] = {"user": user, "begun": time.monotonic(), "failed": []}
            while not stopping.is_set():
                try:
                    await _set(stub, user, float(number + 1))
                except ApiError as error:
                    line["failed"].append(f"{error.code.name}: {error.message}"[:200])
                    await asyncio.sleep(PAUSE_S)
                else:
                    line["acknowledged"] = time.monotonic()
                    break
            out.write(json.dumps(line) + "\n")
            number += 1
            await asyncio.sleep(BETWEEN_S)


async def _set(stub: ControllerStub, user: str, value: float) -> None:
    request = AlterClientQuotasRequest()
    entry = request.entries.add()
    entry.entity.add(entity_type="user", entity_name=user)
    entry.ops.add(key=KEY, value=value)
    answer = await call_once(stub.AlterClientQuotas, request, deadline_ms=DEADLINE_MS)
    for each in answer.response.entries:
        if each.error_code:
            raise ApiError(ErrorCode(each.error_code), each.error_message)


async def users(stub: ControllerStub) -> list[str]:
    """Who has a quota, as the controller that answers has it."""
    request = DescribeClientQuotasRequest()
    request.components.add(entity_type="user", match_type=2)
    answer = await call_with_retries(stub.DescribeClientQuotas, request)
    return [each.entity[0].entity_name for each in answer.response.entries.items]


async def quorum(stub: ControllerStub) -> dict[str, Any]:
    """The leader, its epoch, and how far behind it each voter is, as the active controller has it."""
    request = DescribeQuorumRequest()
    request.topics.add(topic_name="__cluster_metadata").partitions.add(partition_index=0)
    answer = await call_with_retries(stub.DescribeQuorum, request)
    (partition,) = answer.response.topics[0].partitions
    if partition.error_code:
        raise ApiError(ErrorCode(partition.error_code), partition.error_message)
    ends = {str(each.replica_id): each.log_end_offset for each in partition.current_voters}
    behind = {replica: partition.high_watermark - end for replica, end in ends.items()}
    return {"leader": partition.leader_id, "epoch": partition.leader_epoch, "behind": behind}


async def lead(stub: ControllerStub, node_id: int) -> dict[str, Any]:
    """Has a node lead, and prints what `quorum` does."""
    if (await quorum(stub))["leader"] != node_id:
        request = TransferLeadershipRequest(voter_id=node_id, timeout_ms=10_000)
        await call_with_retries(stub.TransferLeadership, request)
    return await quorum(stub)


async def read(transport: Transport, address: str, host: str, *, between_s: float) -> None:
    """Asks the observers of a name, in turns, as a client does that is left alone with gRPC's own means."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    balanced = (*OPTIONS, *BALANCED, ("grpc.ssl_target_name_override", host))
    failed = count = 0
    async with transport.open_channel(address, balanced) as channel:
        stub = ObserverStub(channel)
        while not stopping.is_set():
            try:
                await stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=DEADLINE_MS / 1000)
            except grpc.aio.AioRpcError as error:
                failed += 1
                print(f"{error.code().name}: {error.details()}", flush=True)
            count += 1
            await asyncio.sleep(between_s)
    print(json.dumps({"read": count, "failed": failed}), flush=True)


async def main() -> None:
    """The channel checks the server's certificate for HOST, whatever the address."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("write", "list", "quorum", "lead", "read"))
    parser.add_argument("address")
    parser.add_argument("host")
    parser.add_argument("keystore", type=Path)
    parser.add_argument("truststore", type=Path)
    parser.add_argument(
        "more", nargs="?", help="the file to write, the node that is to lead, or the seconds between reads"
    )
    chosen = parser.parse_args()
    transport = Transport(keystore=chosen.keystore, truststore=chosen.truststore)
    options = (*OPTIONS, ("grpc.ssl_target_name_override", chosen.host))
    async with transport.open_channel(chosen.address, options) as channel, asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(transport.watch())
        stub = ControllerStub(channel)
        match chosen.command:
            case "write":
                await write(stub, Path(chosen.more))
            case "read":
                await read(transport, chosen.address, chosen.host, between_s=float(chosen.more))
            case "lead":
                print(json.dumps(await lead(stub, int(chosen.more))))
            case "list":
                print(json.dumps(await users(stub)))
            case _:
                print(json.dumps(await quorum(stub)))
        watch.cancel()


if __name__ == "__main__":
    asyncio.run(main())
