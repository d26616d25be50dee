"""Whose controllers a broker has, by its file: services of ours, or Kafka's own, reached by Kafka's own settings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from quorate.runtime.settings.config import ConfigError, describe
from services.broker.peers import properties_of_controllers
from tests.services.broker.test_listeners import BROKER, HOST, config

OURS = ("controller.endpoints", "heartbeat.endpoint", "grpc.security.protocol")
NAME = "controller.listener.names"
KAFKAS = {key: value for key, value in BROKER.items() if key not in OURS} | {NAME: "CONTROLLER"}
PLAIN_JAAS = "listener.name.controller.plain.sasl.jaas.config"
SECURE = {
    **KAFKAS,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
    "sasl.mechanism.controller.protocol": "PLAIN",
    PLAIN_JAAS: 'PlainLoginModule required username="broker" password="of brokers";',
    "listener.name.controller.ssl.truststore.location": "/a/trust.pem",
}


def without(*keys: str) -> dict[str, str]:
    return {key: value for key, value in SECURE.items() if key not in keys}


def test_with_the_listener_of_controllers_they_are_kafkas_and_nothing_is_spoken_by_grpc() -> None:
    found = config(KAFKAS, {})

    assert found.is_kafkas
    assert "CONTROLLER" == found.controller_listener
    assert {"security.protocol": "PLAINTEXT"} == {
        key: value for key, value in properties_of_controllers(found).items() if key == "security.protocol"
    }
    assert not config({}).is_kafkas


def test_kafkas_controllers_are_reached_by_kafkas_settings_of_their_listener() -> None:
    found = config(SECURE, {})

    assert {
        "security.protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/a/trust.pem",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": SECURE[PLAIN_JAAS],
    } == properties_of_controllers(found)
    assert "of brokers" not in str(describe(found))
    assert "/a/trust.pem" == describe(found)["listener.name.controller.ssl.truststore.location"]
    assert "" == describe(found)["listener.name.plaintext.ssl.truststore.location"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({k: v for k, v in KAFKAS.items() if k != NAME}, f"controller.endpoints: is missing; without {NAME} the"),
        ({**KAFKAS, "controller.endpoints": "h:1"}, f"controller.endpoints: is for controllers of ours; with {NAME}"),
        ({**KAFKAS, "heartbeat.endpoint": "h:1"}, "heartbeat.endpoint: is for controllers of ours"),
        ({**KAFKAS, "gateway.endpoints": "h:1"}, "gateway.endpoints: is for controllers of ours"),
        (
            {**KAFKAS, "listeners": f"CONTROLLER://{HOST}:0"},
            f"{NAME} = CONTROLLER: must not be in listeners; this process is a broker, and no controller",
        ),
        (
            {**KAFKAS, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "must have an entry for CONTROLLER, the listener of the controllers",
        ),
        (
            {**KAFKAS, "listener.name.controller.ssl.truststore.location": "/a"},
            "controller.ssl.truststore.location: has no effect, as the listener CONTROLLER speaks PLAINTEXT",
        ),
        ({**KAFKAS, "listener.name.other.ssl.truststore.location": "/a"}, "is for a listener other, and listeners has"),
        (without("listener.name.controller.ssl.truststore.location"), "ssl.truststore.location: is missing; the contr"),
        (without("sasl.mechanism.controller.protocol"), "sasl.mechanism.controller.protocol: is missing; the controll"),
        (without(PLAIN_JAAS), f"{PLAIN_JAAS}: is missing; by it this broker logs in at the controllers"),
        ({**KAFKAS, "grpc.listeners": f"GRPC://{HOST}:5"}, "grpc.ssl.keystore.location: is missing"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(settings: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(settings, {})

    assert problem in str(refused.value)
