"""Every config of each Kafka release is in our tables, which are those of 4.4.0: type, default, secrets, internal ones.

The differences of an older release are named here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.kafka.release import POM, version
from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL
from quorate.controller.configs.values import Values
from quorate.controller.secrets import is_secret
from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent, java

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

PROGRAM: Final = Path(__file__).parent / "kafka/Configs.java"
TIMEOUT_S: Final = 300
KINDS: Final = {"broker": BROKER, "topic": TOPIC, "client metrics": CLIENT_METRICS, "group": GROUP}
FIRST_ASSIGNOR: Final = ("group", "streams.assignor.name")
"""4.4.0 has no default for it, and describes the first of the brokers' assignors."""
GONE: Final = {
    "group.coordinator.new.enable",
    "group.share.enable",
    "group.share.max.groups",
    "metadata.log.segment.min.bytes",
    "share.fetch.max.fetch.records",
}
"""Broker configs that 4.0.0 has and 4.3.1 has not."""
BEFORE: Final[Mapping[str, tuple[str, str | None]]] = {
    "advertised.listeners": ("STRING", None),
    "controller.listener.names": ("STRING", None),
    "early.start.listeners": ("STRING", None),
    "group.coordinator.append.linger.ms": ("INT", "5"),
    "group.coordinator.rebalance.protocols": ("LIST", "classic,consumer"),
    "group.share.partition.max.record.locks": ("INT", "200"),
    "listeners": ("STRING", "PLAINTEXT://:9092"),
    "log.dir": ("STRING", "/tmp/kafka-logs"),
    "log.dirs": ("STRING", None),
    "sasl.oauthbearer.expected.audience": ("LIST", None),
    "share.coordinator.append.linger.ms": ("INT", "10"),
}
"""Type and default of broker configs in 4.0.0, where 4.3.1 has others."""

each_release = pytest.mark.parametrize("pom", [OPERATIONS_POM, POM, OLDEST_POM], ids=version)
Key = tuple[str, str]
"""Of whom, and the config's name."""


@cache
def released(pom: Path = POM) -> dict[Key, dict[str, Any]]:
    """What a release says."""
    command = java("Configs", source=PROGRAM, pom=pom)
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return {(line["of"], line["name"]): line for line in lines}


def ours() -> dict[Key, tuple[Values, str | None]]:
    found: dict[Key, tuple[Values, str | None]] = {}
    for name in (*FILE_ONLY, *broker.DYNAMIC):
        config = broker.config_of(name)
        assert config is not None, name
        found["broker", name] = config.values, config.default
    for each in topic.CONFIGS.values():
        found["topic", each.name] = each.values, each.default
    for metric in client_metrics.CONFIGS.values():
        found["client metrics", metric.name] = metric.values, metric.default
    for one in group.CONFIGS.values():
        default = one.default if one.synonym is None else broker.default_of(one.synonym)
        found["group", one.name] = one.values, default
    return {**found, FIRST_ASSIGNOR: (found[FIRST_ASSIGNOR][0], None)}


def test_the_tables_are_those_of_the_newest_release() -> None:
    told = {key: (line["type"], line["default"]) for key, line in released(OPERATIONS_POM).items()}

    assert len(told) > 400
    assert told == {key: (values.type.name, default) for key, (values, default) in ours().items()}


@pytest.mark.parametrize("pom", [POM, OLDEST_POM], ids=version)
def test_of_an_older_release_nothing_is_unknown(pom: Path) -> None:
    told = {key: (line["type"], line["default"]) for key, line in released(pom).items()}
    is_oldest = pom == OLDEST_POM
    known = {key: (values.type.name, default) for key, (values, default) in ours().items() if key in told}
    if is_oldest:
        known |= {("broker", name): said for name, said in BEFORE.items()}

    assert (GONE if is_oldest else set()) == {name for _, name in told.keys() - known.keys()}
    assert known == {key: said for key, said in told.items() if key in known}


@each_release
def test_knows_what_is_a_secret(pom: Path) -> None:
    told, known = released(pom), ours()
    secrets = {key for key, line in told.items() if line["sensitive"]}

    assert secrets == {key for key, (values, _) in known.items() if values.is_sensitive and key in told}
    assert secrets == {(of, name) for of, name in told.keys() & known.keys() if is_secret(KINDS[of], name)}


def test_knows_what_is_for_kafkas_own_use() -> None:
    """Such configs are described only where they are set."""
    known = {
        "broker": INTERNAL,
        "topic": {each.name for each in topic.CONFIGS.values() if each.internal},
        "group": {each.name for each in group.CONFIGS.values() if each.internal},
    }

    assert {key for key, line in released(OPERATIONS_POM).items() if line["internal"]} == {
        (of, name) for of, names in known.items() for name in names
    }
