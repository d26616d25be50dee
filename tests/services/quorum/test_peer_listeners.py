"""The settings by which a quorum node knows what its peers' listeners speak."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from quorate.runtime.settings.config import ConfigError, load
from quorate.runtime.settings.named_endpoints import NamedEndpoint, NamedVoter
from quorate.runtime.settings.setting_types import Endpoint
from services.quorum.config import QuorumConfig

NODE = {
    "node.id": "1",
    "metadata.log.dir": "data",
    "listeners": "QUORUM://one:9090",
    "listener.security.protocol.map": "QUORUM:PLAINTEXT",
}
KAFKAS = {"kafka.listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}
BOTH = "CONTROLLER://one:9093,QUORUM://one:9090"


def config(tmp_path: Path, settings: Mapping[str, str]) -> QuorumConfig:
    file = tmp_path / "quorum.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in (NODE | settings).items()))
    return load(QuorumConfig, ["--config", str(file)], {})


def test_peers_are_named_with_their_listeners(tmp_path: Path) -> None:
    servers = "two:9090,CONTROLLER://three:9093"
    found = config(tmp_path, KAFKAS | {"controller.quorum.bootstrap.servers": servers})
    voters = config(tmp_path, KAFKAS | {"controller.quorum.voters": "1@one:9090,3@CONTROLLER://three:9093"}).voters

    assert (NamedEndpoint(Endpoint("two", 9090)), NamedEndpoint(Endpoint("three", 9093), "CONTROLLER")) == (
        found.bootstrap_servers
    )
    assert servers == ",".join(map(str, found.bootstrap_servers))
    assert (NamedVoter(1, Endpoint("one", 9090)), NamedVoter(3, Endpoint("three", 9093), "CONTROLLER")) == voters
    assert "1@one:9090,3@CONTROLLER://three:9093" == ",".join(map(str, voters))


def test_names_are_told_apart_by_more_than_their_case_and_may_have_hyphens(tmp_path: Path) -> None:
    """As in Kafka; `CONTROLPLANE-9090` is the name that Strimzi gives its controllers' listener."""
    settings = {
        "kafka.listener.security.protocol.map": "ControlPlane-9090:PLAINTEXT",
        "listener.security.protocol.map": "quorum.own:PLAINTEXT",
        "listeners": "Quorum.Own://one:9090",
        "controller.listener.names": "QUORUM.own",
        "controller.quorum.bootstrap.servers": "two:9090,controlplane-9090://three:9093",
    }
    found = config(tmp_path, settings)

    assert "PLAINTEXT" == found.security_protocol(found.controller_listener)
    assert "PLAINTEXT" == found.listener_protocols.of(found.bootstrap_servers[1].listener)
    assert "CONTROLPLANE-9090://three:9093" == str(found.bootstrap_servers[1])
    assert "QUORUM.OWN://one:9090" == str(found.own_controller_listener)


def test_a_node_announces_its_gateway_beside_its_own_listener(tmp_path: Path) -> None:
    announced = config(tmp_path, KAFKAS | {"advertised.listeners": BOTH}).announced

    assert BOTH == ",".join(map(str, announced))
    assert ["QUORUM://one:9090"] == [str(each) for each in config(tmp_path, {}).announced]


@pytest.mark.parametrize(
    ("advertised", "protocols", "needed"),
    [
        (BOTH, "CONTROLLER:PLAINTEXT", "CONTROLLER"),
        ("A://one:9090,CONTROLLER://one:9093", "CONTROLLER:PLAINTEXT", "CONTROLLER"),
        ("KAFKA://one:9093,QUORUM://one:9090,SECURE://one:9094", "SECURE:SSL,KAFKA:PLAINTEXT", "SECURE"),
        ("QUORUM://one:9090", "CONTROLLER:PLAINTEXT", None),
    ],
)
def test_every_voter_needs_the_first_listener_for_kafkas_wire(
    tmp_path: Path, advertised: str, protocols: str, needed: str | None
) -> None:
    """By any order of the names: Kafka's nodes have none for gRPC."""
    own = {"advertised.listeners": advertised, "kafka.listener.security.protocol.map": protocols}
    if advertised.startswith("A:"):
        own |= {"listeners": "A://one:9090", "listener.security.protocol.map": "A:PLAINTEXT"}

    assert needed == config(tmp_path, own).raft.listener_name


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"controller.quorum.bootstrap.servers": "CONTROLLER://h:1"}, "must have an entry for CONTROLLER, which"),
        ({"controller.quorum.voters": "1@one:1,3@KAFKA://h:1"}, "must have an entry for KAFKA, which"),
        ({"controller.quorum.voters": "1@one:1,3@KA FKA://h:1"}, "id@host:port or id@NAME://host:port"),
        ({"controller.quorum.bootstrap.servers": "CONTROLLER://h"}, "host:port or NAME://host:port"),
        ({"kafka.listener.security.protocol.map": "CONTROLLER:GRPC"}, "NAME:PROTOCOL"),
        ({"kafka.listener.security.protocol.map": "QUORUM:PLAINTEXT"}, "this node speaks GRPC there"),
        (KAFKAS | {"advertised.listeners": "CONTROLLER://one:9093"}, "must have a listener that speaks GRPC"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, settings: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, settings)

    assert why in str(refused.value)
