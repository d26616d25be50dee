"""The RPCs of all services as a table: how each ends for somebody without a right, and which node it speaks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from quorate.errors import ErrorCode
from quorate.nouns import METADATA_TOPIC, NodeId
from tests.e2e.calls import WITHIN_S
from tests.services.rpcs import services

DENIED: Final = "PERMISSION_DENIED"
"""As a whole, before the request is looked at."""
ANSWERED: Final = "OK"
"""Nothing is answered or done: what is refused is refused item by item, with the errors after it."""
UNTOLD: Final = "OK, as anybody may know it"
NO_TOKENS: Final = "FAILED_PRECONDITION"
"""This cluster makes no delegation tokens."""

MULTIPLEXED: Final = ("quorum", "controller", "heartbeat")
"""The services that take streams of calls."""
STATUSES: Final = {each.value[0]: each.name for each in grpc.StatusCode}

DENIED_CODE: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ROWS: Final[dict[str, str | tuple[str | ErrorCode, ...]]] = {
    "Quorum/Vote": DENIED,
    "Quorum/BeginQuorumEpoch": DENIED,
    "Quorum/EndQuorumEpoch": DENIED,
    "Quorum/Fetch": DENIED,
    "Quorum/FetchStream": DENIED,
    "Quorum/RelayFetchStream": DENIED,
    "Quorum/RelayFetchSnapshot": DENIED,
    "Quorum/ReportReaders": DENIED,
    "Quorum/FetchSnapshot": DENIED,
    "Quorum/DescribeQuorum": DENIED,
    "Quorum/FindQuorum": DENIED,
    "Quorum/ApiVersions": DENIED,
    "Quorum/AddRaftVoter": DENIED,
    "Quorum/RemoveRaftVoter": DENIED,
    "Quorum/UpdateRaftVoter": DENIED,
    "Quorum/AlterQuorum": DENIED,
    "Quorum/SetTargetVoters": DENIED,
    "Quorum/ControllerPresence": DENIED,
    "Quorum/TransferLeadership": DENIED,
    "RaftClient/Append": DENIED,
    "RaftClient/Listen": DENIED,
    "RaftClient/CreateSnapshot": DENIED,
    "RaftClient/ControllerHeartbeat": DENIED,
    "RaftClient/Resign": DENIED,
    "RaftClient/ConfirmLeadership": DENIED,
    "RaftClient/UpgradeKRaftVersion": DENIED,
    "RaftClient/RegisterWithKafka": DENIED,
    "Controller/Submit": (ANSWERED, TOPIC_DENIED),
    "Controller/AdminStream": (ANSWERED, TOPIC_DENIED),
    "Controller/CreateTopics": (ANSWERED, TOPIC_DENIED),
    "Controller/DeleteTopics": (ANSWERED, TOPIC_DENIED),
    "Controller/CreatePartitions": (ANSWERED, TOPIC_DENIED),
    "Controller/ElectLeaders": DENIED,
    "Controller/AlterPartitionReassignments": DENIED,
    "Controller/ListPartitionReassignments": DENIED,
    "Controller/AlterPartition": DENIED,
    "Controller/AllocateProducerIds": DENIED,
    "Controller/AssignReplicasToDirs": DENIED,
    "Controller/DescribeTopicPartitions": (ANSWERED, TOPIC_DENIED),
    "Controller/DescribeCluster": UNTOLD,
    "Controller/DescribeQuorum": DENIED,
    "Controller/AddRaftVoter": DENIED,
    "Controller/RemoveRaftVoter": DENIED,
    "Controller/AlterQuorum": DENIED,
    "Controller/TransferLeadership": DENIED,
    "Controller/UpdateFeatures": DENIED,
    "Controller/IncrementalAlterConfigs": (ANSWERED, TOPIC_DENIED),
    "Controller/AlterConfigs": (ANSWERED, TOPIC_DENIED),
    "Controller/DescribeConfigs": (ANSWERED, TOPIC_DENIED),
    "Controller/DescribeUserScramCredentials": DENIED,
    "Controller/AlterUserScramCredentials": DENIED,
    "Controller/CreateDelegationToken": NO_TOKENS,
    "Controller/RenewDelegationToken": NO_TOKENS,
    "Controller/ExpireDelegationToken": NO_TOKENS,
    "Controller/DescribeDelegationToken": NO_TOKENS,
    "Controller/DescribeAcls": DENIED,
    "Controller/CreateAcls": DENIED,
    "Controller/DeleteAcls": DENIED,
    "Controller/DescribeClientQuotas": DENIED,
    "Controller/AlterClientQuotas": DENIED,
    "Controller/BrokerRegistration": DENIED,
    "Controller/UnregisterBroker": DENIED,
    "Controller/ControllerRegistration": DENIED,
    "Controller/UnregisterController": DENIED,
    "Controller/ChangeBrokerState": DENIED,
    "Controller/ClaimSessions": DENIED,
    "Controller/ApiVersions": UNTOLD,
    "Controller/Authenticate": DENIED,
    "Controller/Authorize": DENIED,
    "Controller/ListErrorReasons": UNTOLD,
    "Heartbeat/BrokerHeartbeat": DENIED,
    "Heartbeat/BrokerHeartbeatStream": DENIED,
    "Heartbeat/BrokerHeartbeats": DENIED,
    "Heartbeat/KeepAlive": DENIED,
    "Heartbeat/DescribeSessions": DENIED,
    "Placer/Place": DENIED,
    "Placer/PlaceStream": DENIED,
    "Observer/DescribeTopicPartitions": (ANSWERED, TOPIC_DENIED),
    "Observer/DescribeCluster": UNTOLD,
    "Observer/GetTrace": DENIED,
    "Observer/ListTraces": DENIED,
    "Observer/Query": DENIED,
    "Observer/ListChanges": DENIED,
    "Observer/DiffImages": DENIED,
    "Observer/WatchImage": DENIED,
    "Observer/GetImage": DENIED,
    "Observer/Examine": DENIED,
    "Observer/ExamineQuorum": DENIED,
    "TraceService/Export": DENIED,
}
"""How each RPC ends for somebody with a certificate and no right at all."""

TOPIC: Final = {"name": "theirs", "num_partitions": 1, "replication_factor": 1}
CONFIG: Final = {"resource_type": 2, "resource_name": "theirs", "configs": [{"name": "retention.ms", "value": "1"}]}
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "Controller/Submit": {"create_topics": {"topics": [TOPIC]}},
    "Controller/AdminStream": {"requests": [{"correlation_id": 1, "create_topics": {"topics": [TOPIC]}}]},
    "Controller/CreateTopics": {"topics": [TOPIC]},
    "Controller/DeleteTopics": {"topics": [{"name": "theirs"}]},
    "Controller/CreatePartitions": {"topics": [{"name": "theirs", "count": 2}]},
    "Controller/DescribeTopicPartitions": {"topics": [{"name": "theirs"}]},
    "Controller/IncrementalAlterConfigs": {"resources": [CONFIG]},
    "Controller/AlterConfigs": {"resources": [CONFIG]},
    "Controller/DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "theirs"}]},
    "Controller/ChangeBrokerState": {"broker_id": 101, "target": 1},
    "Observer/DescribeTopicPartitions": {"topics": [{"name": "theirs"}]},
    "Controller/Authorize": {"api": "Vote"},
}
"""What is asked for where an empty request asks for nothing; other requests are empty."""


OWN, OTHER = 2, 1
OPERATOR: Final = f"operator-{OWN}"
"""The node that calls, by its certificate, and the one for which it speaks."""


def speaking_for(node_id: NodeId) -> dict[str, dict[str, Any]]:
    """Of each RPC whose request says which node its sender is: a request of this node, in an epoch long past."""
    topic = METADATA_TOPIC
    voter = {"topics": [{"topic_name": topic, "partitions": [{"replica_id": node_id}]}]}
    leader = {"topics": [{"topic_name": topic, "partitions": [{"leader_id": node_id}]}]}
    fetch = {"replica_state": {"replica_id": node_id}, "topics": [{"partitions": [{"fetch_offset": 1}]}]}
    broker, voter_id = {"broker_id": node_id, "broker_epoch": 1}, {"voter_id": node_id}
    return {
        "Quorum/Vote": voter,
        "Quorum/BeginQuorumEpoch": leader,
        "Quorum/EndQuorumEpoch": leader,
        "Quorum/Fetch": fetch,
        "Quorum/FetchStream": fetch,
        "Quorum/RelayFetchStream": fetch,
        "Quorum/RelayFetchSnapshot": {"replica_id": node_id},
        "Quorum/FetchSnapshot": {"replica_id": node_id},
        "Quorum/ReportReaders": {"replica_ids": [node_id], "directory_ids": ["A" * 22], "fetch_offsets": [0]},
        "Quorum/UpdateRaftVoter": voter_id,
        "Quorum/ControllerPresence": voter_id,
        "Controller/AlterPartition": broker,
        "Controller/AllocateProducerIds": broker,
        "Controller/AssignReplicasToDirs": broker,
        "Controller/BrokerRegistration": {"broker_id": node_id, "cluster_id": "another"},
        "Controller/ControllerRegistration": {"controller_id": node_id},
        "Controller/ChangeBrokerState": {**broker, "target": 1},
        "Heartbeat/BrokerHeartbeat": broker,
        "Heartbeat/BrokerHeartbeatStream": broker,
        "Heartbeat/BrokerHeartbeats": {"heartbeats": [{"broker_id": OWN}, broker]},
        "Heartbeat/KeepAlive": {"broker_ids": [node_id], "broker_epochs": [1], "metadata_offsets": [0]},
    }


OF_ITS_CONTROLLER: Final = {name for name in ROWS if name.startswith("RaftClient/")}
"""They name no node: a quorum node takes them of the controller beside it alone."""
OF_NO_NODE: Final = {
    *(name for name in ROWS if name.startswith(("Placer/", "Observer/", "TraceService/"))),
    *("Quorum/DescribeQuorum", "Quorum/FindQuorum", "Quorum/ApiVersions", "Heartbeat/DescribeSessions"),
    "Controller/ClaimSessions",
    # An operator sends these, about every node.
    *("Quorum/AddRaftVoter", "Quorum/RemoveRaftVoter", "Quorum/AlterQuorum", "Quorum/SetTargetVoters"),
    *("Quorum/TransferLeadership", "Controller/UnregisterBroker", "Controller/UnregisterController"),
    *("Controller/AddRaftVoter", "Controller/RemoveRaftVoter", "Controller/AlterQuorum"),
    *("Controller/TransferLeadership", "Controller/Submit", "Controller/AdminStream"),
    *("Controller/CreateTopics", "Controller/DeleteTopics", "Controller/CreatePartitions", "Controller/ElectLeaders"),
    *("Controller/AlterPartitionReassignments", "Controller/ListPartitionReassignments"),
    *("Controller/DescribeTopicPartitions", "Controller/DescribeCluster", "Controller/DescribeQuorum"),
    *("Controller/UpdateFeatures", "Controller/IncrementalAlterConfigs", "Controller/AlterConfigs"),
    *("Controller/DescribeConfigs", "Controller/DescribeUserScramCredentials"),
    *("Controller/AlterUserScramCredentials", "Controller/CreateDelegationToken", "Controller/RenewDelegationToken"),
    *("Controller/ExpireDelegationToken", "Controller/DescribeDelegationToken", "Controller/DescribeAcls"),
    *("Controller/CreateAcls", "Controller/DeleteAcls", "Controller/DescribeClientQuotas"),
    *("Controller/AlterClientQuotas", "Controller/ApiVersions", "Controller/Authenticate", "Controller/Authorize"),
    "Controller/ListErrorReasons",
}
"""They say nothing of their sender."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method of a service, as its descriptor has it."""

    service: str
    method: Any

    @property
    def name(self) -> str:
        return f"{self.service.rpartition('.')[2]}/{self.method.name}"

    def end(
        self,
        channel: grpc.Channel,
        asked: Mapping[str, Any] | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> str | tuple[str | ErrorCode, ...]:
        """How a request ends: the name of its status, with the error codes in its answer if there are any.

        gRPC's own threads send it: a stream that is refused while it is written to ends in its status.
        """
        kind = f"{_form(self.method.client_streaming)}_{_form(self.method.server_streaming)}"
        ask = getattr(channel, kind)(
            f"/{self.service}/{self.method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(self.method.output_type).FromString,
        )
        request = self.request(asked)
        try:
            sent = iter([request]) if self.method.client_streaming else request
            call = ask(sent, timeout=WITHIN_S, metadata=metadata)
            answer = next(call) if self.method.server_streaming else call
        except grpc.RpcError as error:
            return str(error.code().name)  # type: ignore[attr-defined]  # of a call it has one
        return self.end_of(answer)

    def request(self, asked: Mapping[str, Any] | None = None) -> Any:
        """A request with these fields, by default with those of `REQUESTS`."""
        return GetMessageClass(self.method.input_type)(**(REQUESTS.get(self.name, {}) if asked is None else asked))

    def end_of(self, answer: Any) -> str | tuple[str | ErrorCode, ...]:
        """How a request with this answer has ended."""
        if self.name == "Controller/ListErrorReasons":
            return UNTOLD  # a list of error codes, which are what it was asked for
        codes = sorted(set(error_codes(answer)))
        return (ANSWERED, *codes) if codes else UNTOLD


def error_codes(message: Any) -> Iterator[ErrorCode]:
    """Every error code in a message and in those within."""
    for field, value in message.ListFields():
        if field.name == "error_code" and value:
            yield ErrorCode(value)
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from error_codes(each)


def _form(is_stream: bool) -> str:
    return "stream" if is_stream else "unary"


def rpcs() -> Iterator[Rpc]:
    for service in services():
        if service.name == "Multiplexed":
            continue  # it is open, as each call in it is judged by itself: see below
        yield from (Rpc(service.full_name, method) for method in service.methods)
    traces = trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"]
    yield from (Rpc(traces.full_name, method) for method in traces.methods)


RPCS: Final = tuple(rpcs())
