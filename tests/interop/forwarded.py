"""Every API that a broker of the newest release passes on by Envelope, asked of one: on our controllers as on Kafka's.

A stranger asks for each before the owner of all rights does: the controller judges the client, not the broker.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from deploy.kafka.node import TOOL_TIMEOUT_S
from deploy.local.ports import HOST
from kraft import Message
from kraft.api.add_raft_voter import AddRaftVoterRequest
from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_quorum import DescribeQuorumRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft.api.remove_raft_voter import RemoveRaftVoterRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from kraft.api.unregister_controller import UnregisterControllerRequest
from kraft.api.update_features import UpdateFeaturesRequest
from kraft.errors import ErrorCode as E
from quorate.network.client import Connection
from quorate.nouns import METADATA_TOPIC
from quorate.protocol import all_apis
from tests.interop.kafka.guarded import Side, password_of
from tests.interop.kafka.release import OPERATIONS_POM, java
from tests.interop.operations.comparison import codes
from tests.interop.operations.names import id_named
from tests.interop.operations.script.access import acl, having, quota, upsert
from tests.interop.operations.script.ask import laid_out
from tests.interop.operations.targets import Outcome

PROGRAM: Final = Path(__file__).with_name("kafka") / "Forwardable.java"
NEWEST: Final = 102
OTHER: Final = 101
OWNER, STRANGER = "owner", "stranger"
MADE: Final = "made"
TOPIC: Final = 2
DIRECTORY: Final = id_named("the disk of a voter that is none")
RIGHTS: Final = {"TOPIC": "*", "GROUP": "*", "CLUSTER": "kafka-cluster"}
NO_TOPIC: Final = frozenset({E.TOPIC_AUTHORIZATION_FAILED})
NO_CLUSTER: Final = frozenset({E.CLUSTER_AUTHORIZATION_FAILED})
NOTHING: Final[frozenset[E]] = frozenset()

Replaced = AlterConfigsRequest.AlterConfigsResource
Changed = IncrementalAlterConfigsRequest.AlterConfigsResource
Grown = CreatePartitionsRequest.CreatePartitionsTopic
Moved = AlterPartitionReassignmentsRequest.ReassignableTopic
Quorum = DescribeQuorumRequest.TopicData


class Row(NamedTuple):
    """A request, built with the hmac of the owner's token, and the error codes in the answers to both."""

    request: Callable[[bytes], Message]
    stranger: frozenset[E]
    owner: frozenset[E] = NOTHING


def row(request: Message, stranger: frozenset[E], *owner: E) -> Row:
    return Row(lambda _: request, stranger, frozenset(owner))


ROWS: Final[Mapping[str, Row]] = {
    "CreateTopics": row(CreateTopicsRequest((laid_out(MADE, [OTHER]),)), NO_TOPIC),
    "CreatePartitions": row(CreatePartitionsRequest((Grown(MADE, 2, None),), timeout_ms=10_000), NO_TOPIC),
    "AlterConfigs": row(
        AlterConfigsRequest((Replaced(TOPIC, MADE, (Replaced.AlterableConfig("retention.ms", "60000"),)),)), NO_TOPIC
    ),
    "IncrementalAlterConfigs": row(
        IncrementalAlterConfigsRequest((Changed(TOPIC, MADE, (Changed.AlterableConfig("retention.ms", 0, "1"),)),)),
        NO_TOPIC,
    ),
    "AlterPartitionReassignments": row(
        AlterPartitionReassignmentsRequest(topics=(Moved(MADE, (Moved.ReassignablePartition(0, (NEWEST,)),)),)),
        NO_CLUSTER,
    ),
    "ListPartitionReassignments": row(ListPartitionReassignmentsRequest(), NO_CLUSTER),
    "ElectLeaders": row(
        ElectLeadersRequest(0, (ElectLeadersRequest.TopicPartitions("nowhere", (0,)),)),
        NO_CLUSTER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "CreateAcls": row(CreateAclsRequest((acl(name=MADE),)), NO_CLUSTER),
    "DeleteAcls": row(
        DeleteAclsRequest((DeleteAclsRequest.DeleteAclsFilter(**having(resource_name_filter=MADE)),)), NO_CLUSTER
    ),
    "AlterClientQuotas": row(
        AlterClientQuotasRequest((quota({"user": "somebody"}, {"producer_byte_rate": 1e9}),)), NO_CLUSTER
    ),
    "AlterUserScramCredentials": row(AlterUserScramCredentialsRequest(upsertions=(upsert("somebody"),)), NO_CLUSTER),
    # Everybody may have a token of one's own, and a caller that does not own one does not learn that it is there.
    "CreateDelegationToken": row(CreateDelegationTokenRequest(max_lifetime_ms=-1), NOTHING),
    "RenewDelegationToken": Row(
        lambda hmac: RenewDelegationTokenRequest(hmac, -1), frozenset({E.DELEGATION_TOKEN_OWNER_MISMATCH})
    ),
    "ExpireDelegationToken": Row(
        lambda hmac: ExpireDelegationTokenRequest(hmac, -1), frozenset({E.DELEGATION_TOKEN_OWNER_MISMATCH})
    ),
    "DescribeQuorum": row(DescribeQuorumRequest((Quorum(METADATA_TOPIC, (Quorum.PartitionData(0),)),)), NO_CLUSTER),
    "UpdateFeatures": row(
        UpdateFeaturesRequest(feature_updates=(UpdateFeaturesRequest.FeatureUpdateKey("group.version", 1),)), NO_CLUSTER
    ),
    "UnregisterBroker": row(UnregisterBrokerRequest(999), NO_CLUSTER, E.BROKER_ID_NOT_REGISTERED),
    "UnregisterController": row(UnregisterControllerRequest(999), NO_CLUSTER, E.UNSUPPORTED_VERSION),
    "AddRaftVoter": row(
        AddRaftVoterRequest(None, 10_000, 999, DIRECTORY, (AddRaftVoterRequest.Listener("CONTROLLER", HOST, 1),)),
        NO_CLUSTER,
        E.UNSUPPORTED_VERSION,
    ),
    "RemoveRaftVoter": row(RemoveRaftVoterRequest(None, 999, DIRECTORY), NO_CLUSTER, E.UNSUPPORTED_VERSION),
    "DeleteTopics": row(
        DeleteTopicsRequest((DeleteTopicsRequest.DeleteTopicState(MADE),), timeout_ms=10_000), NO_TOPIC
    ),
}
"""By the name of the API, in the order in which the owner asks."""


@cache
def forwardable() -> frozenset[int]:
    """The keys of the APIs that the newest release lets be in an Envelope."""
    command = java("Forwardable", source=PROGRAM, pom=OPERATIONS_POM)
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S).stdout
    return frozenset(map(int, said.split()))


async def as_user(side: Side, user: str) -> Connection:
    """A connection to the newest release's broker."""
    return await side.logged_in(NEWEST, user, password_of(user))


async def answered(side: Side) -> Mapping[str, Row]:
    """The rows with the error codes that the newest release's broker has answered both with."""
    async with await as_user(side, OWNER) as owner, await as_user(side, STRANGER) as stranger:
        token = await owner.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        return {
            name: each._replace(
                stranger=codes(Outcome(response=await stranger.ask(each.request(token.hmac)))),
                owner=codes(Outcome(response=await owner.ask(each.request(token.hmac)))),
            )
            for name, each in ROWS.items()
        }


async def listed(side: Side) -> set[str]:
    """The names of the APIs that the newest release's broker lists and passes on."""
    async with await as_user(side, OWNER) as client:
        keys = {each.api_key for each in client.node.api_keys}
    return {all_apis()[key].name for key in forwardable() & keys}
