"""What an operator asks of a running cluster, through the door and by any controller."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from kraft.api.unregister_controller_pb2 import UnregisterControllerRequest
from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from kraft.boxes_pb2 import StringList
from kraft.service.controller_pb2 import ChangeBrokerStateRequest
from kraft.service.quorum_pb2 import TransferLeadershipRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster
from tests.e2e.commanded import commanded, controllers
from tests.e2e.test_run import grpcurl as grpcurl  # a fixture

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT


@pytest.mark.parametrize("door", VOTERS)
async def test_a_topic_grows_and_goes(cluster: Cluster, door: int) -> None:
    name = f"grows-{door}"
    await cluster.create(name, at=door)
    stub = cluster.controller_stub(door)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=4)
    grown = (await call_with_retries(stub.CreatePartitions, CreatePartitionsRequest(topics=[more]))).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in grown.results]

    partitions = (await cluster.topics(at=door))[name].partitions
    assert [0, 1, 2, 3] == [partition.partition_index for partition in partitions]
    assert {3} == {len(set(partition.replica_nodes)) for partition in partitions}

    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
    deleted = (await call_with_retries(stub.DeleteTopics, gone)).response

    assert [(name, 0)] == [(each.name, each.error_code) for each in deleted.responses]
    assert name not in await cluster.topics(at=door)


async def test_a_preferred_leader_that_leads_needs_no_election(cluster: Cluster) -> None:
    await cluster.create("elected", at=1)
    asked = ElectLeadersRequest.TopicPartitions(topic="elected", partitions=[0, 9])
    request = ElectLeadersRequest(topic_partitions=ElectLeadersRequest.TopicPartitionsList(items=[asked]))
    answer = (await call_with_retries(cluster.controller_stub(2).ElectLeaders, request)).response

    told = {each.partition_id: each.error_code for each in answer.replica_election_results[0].partition_result}
    assert {0: ErrorCode.ELECTION_NOT_NEEDED, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} == told


async def test_who_is_not_registered_cannot_be_struck_off(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        await call_with_retries(cluster.controller_stub(1).UnregisterBroker, UnregisterBrokerRequest(broker_id=7))

    assert ErrorCode.BROKER_ID_NOT_REGISTERED == refused.value.code


async def test_the_active_controller_is_not_struck_off(cluster: Cluster) -> None:
    """The others find it by its registration."""
    active_id = await cluster.active()
    request = UnregisterControllerRequest(controller_id=active_id)
    for door in VOTERS:
        with pytest.raises(ApiError, match="cannot unregister itself") as refused:
            await call_with_retries(cluster.controller_stub(door).UnregisterController, request)
        assert ErrorCode.INVALID_REQUEST == refused.value.code
        assert {"leader_epoch", "offset"} <= refused.value.metadata.keys()


@pytest.mark.parametrize("target", [0, 5, 9])
async def test_a_number_that_is_no_state_is_named_with_those_that_are(cluster: Cluster, target: int) -> None:
    request = ChangeBrokerStateRequest(broker_id=101, target=target)  # type: ignore[arg-type]  # the stubs' enum type

    with pytest.raises(ApiError, match=f"target {target} is none of 1 FENCED, 2 UNFENCED, 3 CON.*, 4 ") as refused:
        await call_with_retries(cluster.controller_stub(3).ChangeBrokerState, request)

    assert (ErrorCode.INVALID_REQUEST, "target") == (refused.value.code, refused.value.metadata["field"])


@pytest.mark.parametrize("timeout_ms", [-1, 0])
async def test_a_transfer_without_time_is_refused_in_words(cluster: Cluster, timeout_ms: int) -> None:
    request = TransferLeadershipRequest(timeout_ms=timeout_ms)

    with pytest.raises(ApiError, match=f"the timeout is {timeout_ms} ms; it must be at least 1 ms"):
        await call_with_retries(cluster.controller_stub(2).TransferLeadership, request)
    answer = await cluster.quorum_stub(await cluster.leader()).TransferLeadership(request, timeout=10)

    assert f"the timeout is {timeout_ms} ms; it must be at least 1 ms" == answer.error_message


async def test_voters_of_another_cluster_are_refused_in_words(cluster: Cluster) -> None:
    add = AddRaftVoterRequest(cluster_id="another", timeout_ms=1_000, voter_id=9)
    remove = RemoveRaftVoterRequest(cluster_id="another", voter_id=9)
    stub, words = cluster.controller_stub(1), "the request is for cluster 'another'; this node is of cluster '"
    for call, request in ((stub.AddRaftVoter, add), (stub.RemoveRaftVoter, remove)):
        with pytest.raises(ApiError, match=words) as refused:
            await call_with_retries(call, request)
        assert ErrorCode.INCONSISTENT_CLUSTER_ID == refused.value.code


async def test_a_feature_that_nobody_supports_is_refused_and_says_why(cluster: Cluster) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="metadata.version", max_version_level=99)

    with pytest.raises(ApiError, match="this controller supports 7 to 33") as refused:
        await call_with_retries(
            cluster.controller_stub(3).UpdateFeatures, UpdateFeaturesRequest(feature_updates=[update])
        )

    assert ErrorCode.INVALID_UPDATE_VERSION == refused.value.code


async def test_a_config_that_is_set_at_one_controller_is_told_by_another(cluster: Cluster) -> None:
    await cluster.create("configured", at=1)
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        asked(
            resource_type=TOPIC,
            resource_name=name,
            configs=[asked.AlterableConfig(name="max.message.bytes", config_operation=0, value="7")],
        )
        for name in ("configured", "nobody's")
    ]
    changed = await call_with_retries(
        cluster.controller_stub(2).IncrementalAlterConfigs, IncrementalAlterConfigsRequest(resources=resources)
    )

    assert [("configured", ErrorCode.NONE), ("nobody's", ErrorCode.INVALID_TOPIC_EXCEPTION)] == [
        (each.resource_name, each.error_code) for each in changed.response.responses
    ]

    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="configured", configuration_keys=StringList(items=["max.message.bytes"])
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    told = (await call_with_retries(cluster.controller_stub(3).DescribeConfigs, request)).response
    (config,) = told.results[0].configs

    assert ("max.message.bytes", "7", ["max.message.bytes", "message.max.bytes"]) == (
        config.name,
        config.value,
        [each.name for each in config.synonyms],
    )


async def test_the_command_tries_and_makes_topics_and_tells_each_by_name(cluster: Cluster) -> None:
    """A dry run names the records, and writes nothing; an error is an item's, and the others are done."""
    create, doors = ("topics", "create", "--partitions", 2), controllers(cluster)
    tried = await commanded(*create, "made-1", "made-2", *doors, "--dry-run", "--json")
    before = await cluster.topics(at=1)
    made = await commanded(*create, "made-1", "made-2", *doors)
    again = await commanded(*create, "made-2", "made-3", *doors, "--json")
    after = await cluster.topics(at=2)
    gone = await commanded("topics", "delete", "made-1", "made-2", "made-3", "nobody's", *doors)

    assert (0, ["TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_RECORD"] * 2) == (
        tried.code,
        [each["type"] for each in tried.document["records"]],
    )
    assert [False, False] == [each["done"] for each in tried.document["results"]]
    assert not {"made-1", "made-2"} & before.keys()
    assert (0, "") == (made.code, made.err)
    assert [["made-1", "created"], ["made-2", "created"]] == [line.split()[:2] for line in made.out.splitlines()]
    assert (1, [("made-2", "TOPIC_ALREADY_EXISTS", False), ("made-3", None, True)]) == (
        again.code,
        [(each["name"], each["error"], each["done"]) for each in again.document["results"]],
    )
    assert {"made-1": 2, "made-2": 2, "made-3": 2} == {
        name: len(each.partitions) for name, each in after.items() if name.startswith("made-")
    }
    assert (1, ["deleted"] * 3) == (gone.code, [line.split()[1] for line in gone.out.splitlines()[:3]])
    assert "nobody's  UNKNOWN_TOPIC_OR_PARTITION" in gone.out
    assert not [name for name in await cluster.topics(at=3) if name.startswith("made-")]


async def test_what_the_command_changes_is_what_the_cluster_has(cluster: Cluster, tmp_path: Path) -> None:
    """Each row that needs no login is asked once, and so that it is done."""
    doors = controllers(cluster)
    await cluster.create("changed", at=1)
    (before,) = (await cluster.topics(at=1))["changed"].partitions
    wanted = [*before.replica_nodes[1:], before.replica_nodes[0]]
    plan, password = tmp_path / "plan.json", tmp_path / "password"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "changed", "partition": 0, "replicas": wanted}]})
    )
    password.write_text("correct horse\n")
    done = [
        await commanded(*words, *doors)
        for words in (
            ("topics", "add-partitions", "changed", "--partitions", 3),
            ("configs", "set", "topic/changed", "retention.ms=7", "cleanup.policy=compact"),
            ("configs", "append", "topic/changed", "cleanup.policy=delete"),
            ("configs", "delete", "topic/changed", "retention.ms"),
            ("quotas", "set", "--entity", "user/alice", "producer_byte_rate=1000"),
            ("users", "set", "alice", "--password-file", password),
            ("reassign", "apply", plan),
            ("leaders", "elect", "changed-1"),
        )
    ]
    told = {
        "partitions": len((await cluster.topics(at=2))["changed"].partitions),
        "replicas": list((await cluster.topics(at=2))["changed"].partitions[0].replica_nodes),
        "users": await called(cluster, "DescribeUserScramCredentials"),
        "quotas": await called(cluster, "DescribeClientQuotas"),
        "configs": await called(
            cluster,
            "DescribeConfigs",
            {
                "resources": [
                    {
                        "resource_type": TOPIC,
                        "resource_name": "changed",
                        "configuration_keys": {"items": ["cleanup.policy", "retention.ms"]},
                    }
                ]
            },
        ),
    }
    undone = [
        await commanded(*words, *doors)
        for words in (
            ("users", "delete", "alice"),
            ("quotas", "delete", "--entity", "user/alice", "producer_byte_rate"),
            ("reassign", "cancel", plan),
        )
    ]

    assert [(0, "")] * len(done) == [(each.code, each.err) for each in done], done
    assert 3 == told["partitions"]
    assert wanted == told["replicas"]
    assert "alice" == told["users"]["results"][0]["user"]
    assert {"producer_byte_rate": 1000} == {
        each["key"]: each["value"] for each in told["quotas"]["entries"]["items"][0]["values"]
    }
    assert {"cleanup.policy": "compact,delete", "retention.ms": "604800000"} == {
        each["name"]: each["value"] for each in told["configs"]["results"][0]["configs"]
    }
    assert [0, 0, 1] == [each.code for each in undone], undone
    assert "changed-0  NO_REASSIGNMENT_IN_PROGRESS" in undone[2].out


async def called(cluster: Cluster, api: str, request: object = None) -> Any:
    """What `quorate call` prints."""
    ran = await commanded("call", api, json.dumps(request or {}), *controllers(cluster))
    assert (0, "") == (ran.code, ran.err)
    return ran.document


async def test_the_command_tells_by_its_exit_code_who_has_refused(cluster: Cluster) -> None:
    """1: the cluster; 2: the command itself."""
    doors = controllers(cluster)
    refused = await commanded("brokers", "unregister", 77, *doors)
    blocked = await commanded("features", "upgrade", "metadata.version=99", *doors, "--dry-run")
    static = await commanded("quorum", "remove-voter", 9, "--directory-id", "AAAAAAAAAAAAAAAAAAAAAQ", *doors)
    untried = await commanded(
        "quorum", "remove-voter", 9, "--directory-id", "AAAAAAAAAAAAAAAAAAAAAQ", *doors, "--dry-run"
    )
    misfit = await commanded("call", "CreateTopics", '{"topics": [{"name": "a"}, {"name": 7}]}', *doors)

    assert (1, True) == (refused.code, "BROKER_ID_NOT_REGISTERED: broker 77 is not registered" in refused.err)
    assert (1, True) == (blocked.code, "INVALID_UPDATE_VERSION" in blocked.err)
    assert (1, True) == (static.code, "UNSUPPORTED_VERSION" in static.err)
    assert (2, True) == (untried.code, "RemoveRaftVoter cannot be tried" in untried.err)
    assert (2, True) == (misfit.code, "CreateTopicsRequest.topics[1].name: " in misfit.err)


async def test_the_command_describes_quorum_and_traces_and_calls_each_service(cluster: Cluster) -> None:
    observer, quorum = cluster.plan.observer.address, ",".join(each.address for each in cluster.plan.quorum)
    described = await commanded("quorum", *controllers(cluster), "--json")
    of_files = await commanded("quorum", "--offline", cluster.quorum(1).settings["metadata.log.dir"], "--json")
    found = await commanded("call", "FindQuorum", "--quorum", quorum)
    image = await commanded("call", "GetImage", "--observer", observer)
    await commanded("topics", "create", "traced", *controllers(cluster))

    async def traces() -> Any:
        return (await commanded("trace", "list", "--span", "write", "--observer", observer, "--json")).document

    listed = (await eventually(traces, lambda told: told["traces"]))["traces"][0]["traceId"]
    shown = await commanded("trace", "show", listed, "--observer", observer)
    unknown = await commanded("trace", "show", "0" * 31 + "1", "--observer", observer)

    roles = {each["id"]: each["role"] for each in described.document["replicas"]}
    assert [*VOTERS] == sorted(each for each, role in roles.items() if role in ("leader", "voter"))
    assert {201: "observer", described.document["leader"]: "leader"}.items() <= roles.items()
    assert found.document["leader_id"] == described.document["leader"] == of_files.document["leader"]
    assert [*VOTERS] == [each["id"] for each in of_files.document["replicas"]]
    assert "next_offset" in image.documents[0]
    assert (0, True) == (shown.code, shown.out.startswith(f"trace {listed} · "))
    assert re.search(r"^ *write +controller-\d ", shown.out, re.M)
    assert (1, True) == (unknown.code, "the observer has no trace" in unknown.err)


async def test_grpcurl_does_by_the_printed_line_what_the_command_does(cluster: Cluster, grpcurl: str) -> None:
    printed = await commanded("topics", "create", "by-line", *controllers(cluster), "--print-grpcurl")
    nothing = await cluster.topics(at=1)
    program, *words = shlex.split(printed.out)
    child = await asyncio.create_subprocess_exec(grpcurl, *words, stdout=PIPE)
    out, _ = await child.communicate()

    assert ("grpcurl", 0) == (program, child.returncode)
    assert "by-line" not in nothing
    assert '"name": "by-line"' in out.decode(), out
    assert "by-line" in await cluster.topics(at=1)
