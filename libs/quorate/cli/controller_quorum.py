"""`quorate quorum --controller`: a controller of Quorate is asked for DescribeQuorum over gRPC."""

from __future__ import annotations

from typing import Any

from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.cli.controller_call import ask_servers
from quorate.cli.failures import Failed
from quorate.cli.grpc_call import Servers
from quorate.cli.quorum import Described, described_by_view
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC
from quorate.wire.protobuf import to_struct

__all__ = ["described_by_controllers"]


def described_by_controllers(servers: Servers, *, within_s: float) -> Described:
    """Returns the quorum as its leader sees it; controllers are asked for `within_s` (s).

    Raises Failed, Unreached, Misused, OSError.
    """
    asked = DescribeQuorumRequest.TopicData.PartitionData(partition_index=METADATA_PARTITION)
    topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[asked])
    request = DescribeQuorumRequest(topics=[topic])

    def ask(channel: Any, left_s: float) -> Any:
        stub: Any = ControllerStub(channel)
        return stub.DescribeQuorum(request, timeout=left_s)

    found = [
        each
        for told in to_struct(ask_servers(servers, ask, within_s=within_s, may_repeat=True)).topics
        for each in told.partitions
    ]
    if len(found) != 1:
        raise Failed(f"the answer to DescribeQuorum has {len(found)} partitions; one was asked for")
    return described_by_view(found[0])
