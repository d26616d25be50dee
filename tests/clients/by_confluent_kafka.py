"""The admin calls of confluent-kafka (librdkafka): `python -m tests.clients.by_confluent_kafka SERVERS`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import confluent_kafka
from confluent_kafka import admin as api

from tests.clients.steps import Step, run

TOPIC = "by-confluent-kafka"
WAIT_S = 30


def main(servers: str) -> None:
    """Runs all steps at these servers."""
    run(_steps(api.AdminClient({"bootstrap.servers": servers, "log_level": 0})), _name_of)


def _steps(admin: api.AdminClient) -> Iterator[Step]:
    def create(name: str, count: int = 3, factor: int = 1, **configs: str) -> Any:
        wanted = api.NewTopic(name, num_partitions=count, replication_factor=factor, config=configs)
        return admin.create_topics([wanted])[name].result(WAIT_S)

    def partitions() -> Any:
        found = admin.describe_topics(confluent_kafka.TopicCollection([TOPIC]))[TOPIC].result(WAIT_S)
        return f"{len(found.partitions)} partitions"

    def alter(name: str, value: str | None, topic: str = TOPIC) -> Any:
        how = api.AlterConfigOpType.DELETE if value is None else api.AlterConfigOpType.SET
        entry = api.ConfigEntry(name, value, incremental_operation=how)
        wanted = api.ConfigResource(api.ResourceType.TOPIC, topic, incremental_configs=[entry])
        return admin.incremental_alter_configs([wanted])[wanted].result(WAIT_S)

    def retention() -> Any:
        wanted = api.ConfigResource(api.ResourceType.TOPIC, TOPIC)
        return admin.describe_configs([wanted])[wanted].result(WAIT_S)["retention.ms"].value

    def grow(count: int) -> Any:
        return admin.create_partitions([api.NewPartitions(TOPIC, count)])[TOPIC].result(WAIT_S)

    def delete(topic: str) -> Any:
        return admin.delete_topics([topic])[topic].result(WAIT_S)

    rule = (api.ResourceType.TOPIC, TOPIC, api.ResourcePatternType.LITERAL, "User:a", "*")
    acl = api.AclBinding(*rule, api.AclOperation.READ, api.AclPermissionType.ALLOW)
    like = api.AclBindingFilter(*rule, api.AclOperation.ANY, api.AclPermissionType.ANY)
    scram = api.ScramCredentialInfo(api.ScramMechanism.SCRAM_SHA_256, 4096)
    add = api.UserScramCredentialUpsertion("by-confluent", scram, b"not a secret")
    remove = api.UserScramCredentialDeletion("by-confluent", api.ScramMechanism.SCRAM_SHA_256)

    def scram_of(user: str) -> Any:
        found = admin.describe_user_scram_credentials([user])[user].result(WAIT_S)
        return [f"{each.mechanism.name} {each.iterations}" for each in found.scram_credential_infos]

    def scram_is(change: Any) -> Any:
        return admin.alter_user_scram_credentials([change])[change.user].result(WAIT_S)

    yield "brokers of the cluster", lambda: len(admin.describe_cluster().result(WAIT_S).nodes), None
    yield "create a topic", lambda: create(TOPIC), None
    yield "create it again", lambda: create(TOPIC), None
    yield "create with too many replicas", lambda: create("too-many", factor=9), None
    yield "create with a bad name", lambda: create("a/b"), None
    yield "create with a bad config", lambda: create("bad", **{"retention.ms": "soon"}), None
    yield "describe the topic", partitions, lambda said: said == "3 partitions"
    yield "set a config", lambda: alter("retention.ms", "60000"), None
    yield "set an unknown config", lambda: alter("nonsense", "1"), None
    yield "set a bad value", lambda: alter("retention.ms", "soon"), None
    yield "set a config of no topic", lambda: alter("retention.ms", "1", "nothing"), None
    yield "describe the config", retention, lambda said: said == "60000"
    yield "reset the config", lambda: alter("retention.ms", None), None
    yield "describe it again", retention, lambda said: said != "60000"
    yield "add a partition", lambda: grow(4), None
    yield "describe the topic", partitions, lambda said: said == "4 partitions"
    yield "take partitions away", lambda: grow(2), None
    yield "create an ACL", lambda: admin.create_acls([acl])[acl].result(WAIT_S), None
    yield "describe ACLs", lambda: len(admin.describe_acls(like).result(WAIT_S)), lambda said: said == "1"
    yield "delete ACLs", lambda: len(admin.delete_acls([like])[like].result(WAIT_S)), None
    yield "describe ACLs", lambda: len(admin.describe_acls(like).result(WAIT_S)), lambda said: said == "0"
    yield "add a SCRAM user", lambda: scram_is(add), None
    yield "describe the user", lambda: scram_of("by-confluent"), lambda said: "4096" in said
    yield "delete the user", lambda: scram_is(remove), None
    yield "delete the user again", lambda: scram_is(remove), lambda said: said != "done"
    yield "elect a leader that leads", lambda: _elected(admin), lambda said: "UNKNOWN" not in said
    yield "delete the topic", lambda: delete(TOPIC), None
    yield "delete no topic", lambda: delete("nothing"), None


def _elected(admin: api.AdminClient) -> object:
    wanted = confluent_kafka.TopicPartition(TOPIC, 0)
    found = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [wanted]).result(WAIT_S)
    return [None if error is None else error.name() for error in found.values()]


def _name_of(problem: Exception) -> str:
    if isinstance(problem, confluent_kafka.KafkaException):
        return str(problem.args[0].name())
    return f"{type(problem).__name__}: {problem}"


if __name__ == "__main__":
    main(sys.argv[1])
