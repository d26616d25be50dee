"""Kafka's own command-line tools, of 4.4.0, at brokers: `python -m tests.clients.by_kafkas_tools SERVERS`.

A line has what a command printed, without what chance or the layout decides; of a refusal the exception. The tools with
`--bootstrap-controller` are compared in `tests/interop/test_tools_compared.py`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.clients.steps import Step, run
from tests.interop.kafka.fleet import TOOLS
from tests.interop.kafka.release import OPERATIONS_POM
from tests.interop.kafka.toolbox import Toolbox

TOPIC: Final = "by-tools"
OF_TOPIC: Final = ("--entity-type", "topics", "--entity-name", TOPIC)
OF_ALL: Final = ("--entity-type", "brokers", "--entity-default")
OF_BROKER: Final = ("--entity-type", "brokers", "--entity-name", "101")
OF_USER: Final = ("--entity-type", "users", "--entity-name", "by-tools")
OF_CLIENT: Final = ("--entity-type", "clients", "--entity-name", "by-tools")
OF_HOST: Final = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
OF_GROUP: Final = ("--entity-type", "groups", "--entity-name", "by-tools")
ENTRY: Final = ("--allow-principal", "User:by-tools", "--operation", "Read", "--topic", TOPIC)
CHANCE: Final = (
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"127\.0\.0\.1[ :]\d+", "ADDRESS"),
    (r"(?<=ADDRESS) +(a|b|null) ", " RACK "),
    (r"\"/[^\"]*/broker-", '"/DIRECTORY/broker-'),
    (r"\d{13}", "TIME"),
    (r"(?<=Epoch: )\d+", "OFFSET"),
    (r"\s+", " "),
)
Read = Callable[[str], bool]


class Tools:
    """The tools at these servers; files that they read are in `directory`."""

    def __init__(self, toolbox: Toolbox, servers: str, directory: Path) -> None:
        self._toolbox = toolbox
        self._servers = servers
        self._directory = directory

    def __call__(self, main: str, *arguments: object) -> Callable[[], str]:
        """A call of a tool, whose servers come first."""
        return lambda: self._said([TOOLS + main, "--bootstrap-server", self._servers, *map(str, arguments)])

    def last(self, main: str, *arguments: object) -> Callable[[], str]:
        """A call of a tool, whose servers come last: after its subcommand."""
        return lambda: self._said([TOOLS + main, *map(str, arguments), "--bootstrap-server", self._servers])

    def file(self, name: str, content: object) -> Path:
        """A file of JSON."""
        path = self._directory / f"{name}.json"
        path.write_text(json.dumps(content))
        return path

    def _said(self, command: list[str]) -> str:
        said = self._toolbox.ask(command)
        text: str = said["out"]
        if said["status"] or re.search(r"\.errors\.\w+Exception", said["error"] + text):
            everything = said["out"] + said["error"]
            kinds = re.findall(r"\.errors\.(\w+Exception)", everything)
            text = f"refused: {kinds[0] if kinds else everything.strip().splitlines()[0].partition('.')[0]}"
        text = text.replace(str(self._directory), "FOLDER")
        for pattern, instead in CHANCE:
            text = re.sub(pattern, instead, text)
        return text.strip() or "nothing"


def main(servers: str) -> None:
    """Runs all steps at these servers."""
    with tempfile.TemporaryDirectory() as directory, Toolbox(OPERATIONS_POM) as toolbox:
        tools = Tools(toolbox, servers, Path(directory))
        for steps in (_of_topics, _of_configs, _of_rights, _of_the_cluster, _of_partitions, _of_groups, _at_the_end):
            run(steps(tools), lambda problem: type(problem).__name__)


def _of_topics(tools: Tools) -> Iterator[Step]:
    def topics(*arguments: object) -> Callable[[], str]:
        return tools("TopicCommand", *arguments)

    create = ("--create", "--topic", TOPIC, "--replica-assignment", "101:102,102:101")
    yield "topics: create", topics(*create), None
    yield "topics: create again", topics(*create), None
    yield "topics: create again if it is not there", topics(*create, "--if-not-exists"), None
    many = ("--create", "--topic", "too-many", "--replication-factor", 9, "--partitions", 1)
    yield "topics: create with too many replicas", topics(*many), None
    yield "topics: create with a bad name", topics("--create", "--topic", "a/b"), None
    yield (
        "topics: create with a bad config",
        topics("--create", "--topic", "bad", "--config", "retention.ms=soon"),
        None,
    )
    yield "topics: describe", topics("--describe", "--topic", TOPIC), _has("PartitionCount: 2")
    yield "topics: list", _only(topics("--list"), TOPIC), _has(TOPIC)
    yield "topics: add a partition", topics("--alter", "--topic", TOPIC, "--partitions", 3), None
    yield "topics: describe", _only(topics("--describe", "--topic", TOPIC), r"PartitionCount: \d"), _has(": 3")
    yield "topics: take partitions away", topics("--alter", "--topic", TOPIC, "--partitions", 1), None
    yield "topics: add to none", topics("--alter", "--topic", "nothing", "--partitions", 2), None
    yield "topics: describe none", topics("--describe", "--topic", "nothing"), None
    yield "topics: under-replicated", topics("--describe", "--topic", TOPIC, "--under-replicated-partitions"), _none
    yield "topics: offline", topics("--describe", "--topic", TOPIC, "--unavailable-partitions"), _none


def _of_configs(tools: Tools) -> Iterator[Step]:
    def alter(of: tuple[str, ...], change: str) -> Callable[[], str]:
        return tools("ConfigCommand", "--alter", *of, "--add-config", change)

    def remove(of: tuple[str, ...], name: str) -> Callable[[], str]:
        return tools("ConfigCommand", "--alter", *of, "--delete-config", name)

    def described(of: tuple[str, ...]) -> Callable[[], str]:
        call = tools("ConfigCommand", "--describe", *of)
        # Of a group each release says more or less besides, and which of the two is asked is chance.
        return _only(call, r"[\w.]+=\d+(?= sensitive)") if of == OF_GROUP else call

    changes = (
        ("a topic", OF_TOPIC, "retention.ms=60000"),
        ("all brokers", OF_ALL, "log.cleaner.threads=2"),
        ("a broker", OF_BROKER, "background.threads=11"),
        ("a user's quotas", OF_USER, "consumer_byte_rate=100000,request_percentage=50"),
        ("a client's quotas", OF_CLIENT, "producer_byte_rate=100000,controller_mutation_rate=5"),
        ("a host's quota", OF_HOST, "connection_creation_rate=9"),
        ("a group", OF_GROUP, "consumer.session.timeout.ms=50000"),
    )
    for what, of, change in changes:
        first = change.partition(",")[0]
        yield f"configs: alter {what}", alter(of, change), None
        yield f"configs: describe {what}", described(of), _matches(rf"(?<!:){re.escape(first)}")  # not a synonym alone
        yield f"configs: delete of {what}", remove(of, ",".join(re.findall(r"([a-z_.]+)=", change))), None
        yield f"configs: describe {what} after it", described(of), _lacks(first)
    scram = "SCRAM-SHA-256=[iterations=8192,password=not-a-secret]"
    yield "configs: a SCRAM user", alter(OF_USER, scram), None
    yield "configs: describe it", described(OF_USER), _has("iterations=8192")
    yield "configs: delete it", remove(OF_USER, "SCRAM-SHA-256"), None
    yield "configs: delete it again", remove(OF_USER, "SCRAM-SHA-256"), None
    for what, of, change in (
        ("an unknown config of a topic", OF_TOPIC, "nonsense=1"),
        ("a bad value of a topic", OF_TOPIC, "retention.ms=soon"),
        ("a config of no topic", ("--entity-type", "topics", "--entity-name", "nothing"), "retention.ms=1"),
        ("a bad value of all brokers", OF_ALL, "log.cleaner.threads=x"),
        ("a config of no broker", ("--entity-type", "brokers", "--entity-name", "999"), "log.cleaner.threads=2"),
        ("an unknown quota", OF_USER, "nonsense=1"),
        ("a bad host", ("--entity-type", "ips", "--entity-name", "a b"), "connection_creation_rate=9"),
        ("a bad value of a group", OF_GROUP, "consumer.session.timeout.ms=1"),
    ):
        yield f"configs: {what}", alter(of, change), None
    metrics = ("--name", "by-tools", "--metrics", "org.apache.kafka.producer.", "--interval", "5000")
    yield "client metrics: alter", tools("ClientMetricsCommand", "--alter", *metrics), None
    # A broker of 4.0.0 tells of match, too, which is empty.
    described_metrics = _only(tools("ClientMetricsCommand", "--describe"), r"(?:interval\.ms|metrics)=\S+")
    yield "client metrics: describe", described_metrics, _has("interval.ms=5000")
    yield "client metrics: delete", tools("ClientMetricsCommand", "--delete", "--name", "by-tools"), None
    yield "client metrics: list", tools("ClientMetricsCommand", "--list"), _none


def _of_rights(tools: Tools) -> Iterator[Step]:
    def acls(*arguments: object) -> Callable[[], str]:
        return tools("AclCommand", *arguments)

    config = tools.file("none", {})
    config.write_text("")
    tokens = ("--max-life-time-period", -1, "--command-config", config, "--renewer-principal", "User:a")
    producer = ("--producer", "--allow-principal", "User:p", "--topic", TOPIC)
    yield "acls: add", acls("--add", *ENTRY), None
    yield "acls: list", acls("--list", "--topic", TOPIC), _has("User:by-tools")
    yield "acls: add a producer", _sorted(acls("--add", *producer), r"operation=\w+"), None
    yield "acls: list", _sorted(acls("--list", "--topic", TOPIC), r"operation=\w+"), _has("CREATE")
    yield "acls: remove", acls("--remove", "--force", *ENTRY), None
    yield "acls: remove all", acls("--remove", "--force", "--topic", TOPIC), None
    yield "acls: list", acls("--list", "--topic", TOPIC), _none
    yield "tokens: create without a login", tools("DelegationTokenCommand", "--create", *tokens), None
    yield "tokens: describe without a login", tools("DelegationTokenCommand", "--describe", *tokens[2:4]), None


def _of_the_cluster(tools: Tools) -> Iterator[Step]:
    def features(*arguments: object) -> Callable[[], str]:
        return tools("FeatureCommand", *arguments)

    def quorum(*arguments: object) -> Callable[[], str]:
        return tools("MetadataQuorumCommand", *arguments)

    # Which of the two releases describes them is chance, and one knows more features.
    known = r"(?:metadata|group|kraft|transaction|replicas)\.version|FinalizedVersionLevel: 4\S+"
    yield "features: describe", _only(features("describe"), known), None
    yield "features: an unknown one", features("upgrade", "--feature", "nonsense=1"), None
    yield "features: an unknown level", features("upgrade", "--feature", "group.version=9"), None
    yield "features: a dry run", features("upgrade", "--feature", "group.version=1", "--dry-run"), None
    yield "features: raise", features("upgrade", "--feature", "group.version=1"), None
    yield (
        "features: describe",
        _only(features("describe"), r"group.version.*?Level: \d"),
        _has("FinalizedVersionLevel: 1"),
    )
    yield "features: lower", features("downgrade", "--feature", "group.version=0"), None
    yield (
        "features: a metadata.version that a broker has not",
        features("upgrade", "--feature", "metadata.version=33"),
        None,
    )
    yield "quorum: status", _only(quorum("describe", "--status"), r"\b[A-Z]\w+(?=: )"), None
    yield "quorum: replication", _only(quorum("describe", "--replication"), r"^.*?Status|Leader\b"), None
    gone = ("--controller-id", 7, "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAABA")
    yield "quorum: remove nobody", quorum("remove-controller", *gone), None
    yield "cluster: id", tools.last("ClusterTool", "cluster-id"), None
    yield "cluster: endpoints", tools.last("ClusterTool", "list-endpoints"), None
    yield "cluster: unregister nobody", tools.last("ClusterTool", "unregister", "--id", 999), None
    yield "brokers: APIs", _sorted(tools("BrokerApiVersionsCommand"), r"\w+\(\d+\): \d+ to \d+|UNSUPPORTED"), None


def _of_partitions(tools: Tools) -> Iterator[Step]:
    def reassign(name: str, topic: str, replicas: list[int], how: str) -> Callable[[], str]:
        wanted = [{"topic": topic, "partition": 0, "replicas": replicas}]
        file = tools.file(name, {"version": 1, "partitions": wanted})
        return tools("reassign.ReassignPartitionsCommand", "--reassignment-json-file", file, how)

    def elect(topic: str, kind: str = "preferred") -> Callable[[], str]:
        file = tools.file(f"elect-{topic}", {"partitions": [{"topic": topic, "partition": 0}]})
        return tools("LeaderElectionCommand", "--election-type", kind, "--path-to-json-file", file)

    leader = tools("TopicCommand", "--describe", "--topic", TOPIC)
    partition = r"Partition: 0 .*?Isr: [\d,]+"
    yield "reassign: list none", tools("reassign.ReassignPartitionsCommand", "--list"), None
    yield "reassign: swap", reassign("swapped", TOPIC, [102, 101], "--execute"), None
    yield "reassign: verify", reassign("swapped", TOPIC, [102, 101], "--verify"), _has("completed")
    yield "reassign: describe", _only(leader, partition), _has("Replicas: 102,101")
    yield "reassign: cancel what is over", reassign("swapped", TOPIC, [102, 101], "--cancel"), None
    yield "reassign: to nobody", reassign("nobody", TOPIC, [999], "--execute"), None
    yield "reassign: of no topic", reassign("none", "nothing", [101], "--execute"), None
    yield "elect: preferred", elect(TOPIC), None
    yield "elect: describe", _only(leader, partition), _has("Leader: 102")
    yield "elect: preferred again", elect(TOPIC), None
    yield "elect: unclean, not needed", elect(TOPIC, "unclean"), None
    yield "elect: of no topic", elect("nothing"), None
    below = tools.file("below", {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "offset": 0}]})
    yield "delete records", tools("DeleteRecordsCommand", "--offset-json-file", below), _has("low_watermark: 0")
    yield "offsets", tools("GetOffsetShell", "--topic", TOPIC), None
    yield "log dirs", _only(tools("LogDirsCommand", "--describe", "--topic-list", TOPIC), r'"broker":\d+'), None


def _of_groups(tools: Tools) -> Iterator[Step]:
    yield "groups: list", tools("GroupsCommand", "--list"), None
    yield "consumer groups: list", tools("consumer.group.ConsumerGroupCommand", "--list"), None
    yield "consumer groups: none", tools("consumer.group.ConsumerGroupCommand", "--describe", "--group", "none"), None
    yield "share groups: list", tools("consumer.group.ShareGroupCommand", "--list"), None
    yield "streams groups: list", tools("streams.StreamsGroupCommand", "--list"), None
    yield "transactions: list", tools("TransactionsCommand", "list"), None


def _at_the_end(tools: Tools) -> Iterator[Step]:
    yield "topics: delete", tools("TopicCommand", "--delete", "--topic", TOPIC), None
    yield "topics: delete again", tools("TopicCommand", "--delete", "--topic", TOPIC), _has("refused")
    yield "topics: list", _only(tools("TopicCommand", "--list"), TOPIC), _none


def _only(call: Callable[[], str], pattern: str) -> Callable[[], str]:
    """Of what was printed, what is meant: the rest is chance, or the layout's."""

    def said() -> str:
        text = call()
        return text if text.startswith("refused") else ", ".join(re.findall(pattern, text)) or "nothing"

    return said


def _sorted(call: Callable[[], str], pattern: str) -> Callable[[], str]:
    """The same of what has no order."""

    def said() -> str:
        text = call()
        return text if text.startswith("refused") else ", ".join(sorted(re.findall(pattern, text)))

    return said


def _has(part: str) -> Read:
    return lambda said: part in said


def _matches(pattern: str) -> Read:
    return lambda said: re.search(pattern, said) is not None


def _lacks(part: str) -> Read:
    return lambda said: part not in said


def _none(said: Any) -> bool:
    return bool(said == "nothing")


if __name__ == "__main__":
    main(sys.argv[1])
