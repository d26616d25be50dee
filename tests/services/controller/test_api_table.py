"""The table of the APIs: every RPC of the service has a row, and only those; and what Kafka's own code says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from kraft.service.controller_pb2 import DESCRIPTOR
from quorate.controller.engine.engine import QueueLimit
from quorate.metadata.acls import AclOperation
from quorate.runtime.access.token_requests import ABOUT_TOKENS
from services.controller import handlers
from services.controller.api import Api
from services.controller.handlers import ALL, APIS, HANDLERS

METHODS: Final[list[Any]] = list(DESCRIPTOR.services_by_name["Controller"].methods)
RIGHTS: Final = {
    "AddRaftVoter": AclOperation.ALTER,
    "AllocateProducerIds": AclOperation.CLUSTER_ACTION,
    "AlterClientQuotas": AclOperation.ALTER_CONFIGS,
    "AlterPartition": AclOperation.CLUSTER_ACTION,
    "AlterPartitionReassignments": AclOperation.ALTER,
    "AlterQuorum": AclOperation.ALTER,
    "AlterUserScramCredentials": AclOperation.ALTER,
    "AssignReplicasToDirs": AclOperation.CLUSTER_ACTION,
    "Authenticate": AclOperation.CLUSTER_ACTION,
    "BrokerRegistration": AclOperation.CLUSTER_ACTION,
    "ChangeBrokerState": AclOperation.CLUSTER_ACTION,
    "ClaimSessions": AclOperation.CLUSTER_ACTION,
    "ControllerRegistration": AclOperation.CLUSTER_ACTION,
    "CreateAcls": AclOperation.ALTER,
    "DeleteAcls": AclOperation.ALTER,
    "DescribeAcls": AclOperation.DESCRIBE,
    "DescribeClientQuotas": AclOperation.DESCRIBE_CONFIGS,
    "DescribeQuorum": AclOperation.DESCRIBE,
    "DescribeUserScramCredentials": AclOperation.DESCRIBE,
    "ElectLeaders": AclOperation.ALTER,
    "ListPartitionReassignments": AclOperation.DESCRIBE,
    "RemoveRaftVoter": AclOperation.ALTER,
    "TransferLeadership": AclOperation.ALTER,
    "UnregisterBroker": AclOperation.ALTER,
    "UnregisterController": AclOperation.ALTER,
    "UpdateFeatures": AclOperation.ALTER,
}
"""What ControllerApis and KafkaApis ask of a caller, on the cluster as a whole."""
SCREENED: Final = {
    "AlterConfigs",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "DescribeConfigs",
    "IncrementalAlterConfigs",
}
"""They refuse item by item."""
FREE: Final = {
    "AdminStream",
    "ApiVersions",
    "Authorize",
    "CreateDelegationToken",
    "DescribeCluster",
    "DescribeDelegationToken",
    "DescribeTopicPartitions",
    "ExpireDelegationToken",
    "ListErrorReasons",
    "RenewDelegationToken",
    "Submit",
}
"""Commands that look at each token or topic, answers that anybody may see, and envelopes of the others."""


def names(wanted: Any) -> set[str]:
    return {api.name for api in APIS.values() if wanted(api)}


def test_each_rpc_has_a_row_and_there_are_no_others() -> None:
    assert sorted(method.name for method in METHODS) == sorted(api.name for api in ALL)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
def test_a_row_has_the_request_of_its_rpc(method: Any) -> None:
    assert method.input_type.full_name == APIS[method.name].request.DESCRIPTOR.full_name


@pytest.mark.parametrize("api", ALL, ids=lambda api: str(api.name))
def test_a_search_for_the_name_of_an_rpc_finds_its_row(api: Api) -> None:
    """As `name="CreateTopics"`, once."""
    texts = [path.read_text() for path in Path(handlers.__path__[0]).glob("*.py")]

    assert 1 == sum(text.count(f'name="{api.name}"') for text in texts)


def test_each_api_needs_a_right_or_screens_its_items_or_is_free() -> None:
    assert RIGHTS == {api.name: api.right for api in ALL if api.right is not None}
    assert SCREENED == names(lambda api: api.screen is not None)
    assert FREE == names(lambda api: api.right is None and api.screen is None)
    assert {"CreateAcls", "DeleteAcls", "DescribeAcls"} == names(lambda api: api.needs_authorizer)
    assert ABOUT_TOKENS == names(lambda api: "DelegationToken" in api.name)


def test_who_answers_what() -> None:
    by_the_servicer = {
        "AdminStream",
        "AlterQuorum",
        "ApiVersions",
        "Authenticate",
        "Authorize",
        "ChangeBrokerState",
        "ClaimSessions",
        "ListErrorReasons",
        "Submit",
    }
    each_by_itself = by_the_servicer - {"ChangeBrokerState", "ClaimSessions", "Submit"} | {"DescribeCluster"}
    by_the_quorum = {"AddRaftVoter", "DescribeQuorum", "RemoveRaftVoter", "TransferLeadership"}

    assert by_the_quorum == names(lambda api: api.quorum_deadline_ms is not None)
    assert by_the_servicer == APIS.keys() - HANDLERS.keys() - by_the_quorum
    assert each_by_itself == names(lambda api: not api.is_forwarded)


def test_what_needs_no_leader() -> None:
    """Kafka's ControllerApis: DescribeCluster is of its own, too; the raft client answers DescribeQuorum."""
    without = {"DescribeAcls", "DescribeConfigs", "DescribeQuorum", "ListPartitionReassignments"}

    assert without == names(lambda api: not api.needs_leader)
    assert {name for name in APIS if name.startswith(("Describe", "List"))} == names(lambda api: api.is_read) | {
        "ListErrorReasons"
    }


def test_what_limits_an_api() -> None:
    """Kafka: QuorumController, the events with a deadline; ControllerMutationQuotaManager. Lanes are our own."""
    lanes = {
        "AllocateProducerIds",
        "AlterPartition",
        "AssignReplicasToDirs",
        "BrokerRegistration",
        "ChangeBrokerState",
        "ControllerRegistration",
    }
    metered = {"CreatePartitions", "CreateTopics", "DeleteTopics"}

    assert lanes == names(lambda api: api.lane is QueueLimit.CLUSTER)
    assert metered == names(lambda api: api.meter is not None)
    assert metered | {"AlterPartitionReassignments", "ElectLeaders"} == names(lambda api: api.has_deadline)
