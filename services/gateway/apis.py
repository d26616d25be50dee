"""The APIs that a gateway serves: those that a Kafka controller lists, and which service answers each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, all_apis
from quorate.runtime.access import passing_on

__all__ = ["ENVELOPE", "FORWARDABLE", "READS", "ROUTES", "SERVED", "Backend"]

ENVELOPE: Final = 58


class Backend(Enum):
    """A gRPC service behind the gateway, by its generated stub."""

    QUORUM = QuorumStub
    CONTROLLER = ControllerStub
    HEARTBEAT = HeartbeatStub

    # Each is one object, and found by that for each request; Enum's own hash is that of the name.
    __hash__ = object.__hash__

    def stub(self, channel: Any) -> Any:
        """Returns the service's stub on a channel."""
        return self.value(channel)


_BY_BACKEND: Final[Mapping[Backend, tuple[str, ...]]] = {
    # The raft APIs of peers and observers: each node answers for itself, and names the leader if it is another.
    Backend.QUORUM: ("Fetch", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "UpdateRaftVoter"),
    Backend.HEARTBEAT: ("BrokerHeartbeat",),
    # Any controller answers these, as a standby passes them on to the active one.
    Backend.CONTROLLER: (
        "CreateTopics", "DeleteTopics", "DescribeAcls", "CreateAcls", "DeleteAcls", "DescribeConfigs", "AlterConfigs",
        "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
        "DescribeDelegationToken", "ElectLeaders", "IncrementalAlterConfigs", "AlterPartitionReassignments",
        "ListPartitionReassignments", "AlterClientQuotas", "DescribeUserScramCredentials", "AlterUserScramCredentials",
        "DescribeQuorum", "AlterPartition", "UpdateFeatures", "DescribeCluster", "BrokerRegistration",
        "UnregisterBroker", "AllocateProducerIds", "ControllerRegistration", "AssignReplicasToDirs", "AddRaftVoter",
        "RemoveRaftVoter", "UnregisterController",
    ),
}  # fmt: skip

_KEYS: Final = {api.name: key for key, api in all_apis().items()}

ROUTES: Final[Mapping[int, Backend]] = {
    _KEYS[name]: backend for backend, names in _BY_BACKEND.items() for name in names
}
"""The service that answers an API, by API key; the RPC has the API's name."""

READS: Final = frozenset(key for name, key in _KEYS.items() if name.startswith(("Describe", "List")))
"""The keys of the APIs that change nothing; of those that a controller answers all others do."""

FORWARDABLE: Final = frozenset(_KEYS[name] for name in passing_on.FORWARDABLE)
"""The keys of the APIs that an Envelope may contain."""

SERVED: Final[Versions] = {
    key: all_apis()[key].versions
    for key in sorted((*ROUTES, ENVELOPE, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))
}
"""The versions of each API, all that the schema has: a gRPC message has the fields of every version."""
