"""The settings of a gateway's listener: what is refused at the start, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from quorate.runtime.config import ConfigError, describe, load
from services.gateway.config import GatewayConfig
from services.gateway.security import ListenerSecurity, listener_prefix
from tests.network.certificates import authority

GATEWAY = {
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "health.listeners": "HEALTH://127.0.0.1:9094",
    "quorum.endpoint": "127.0.0.1:1",
    "controller.endpoint": "127.0.0.1:2",
    "heartbeat.endpoint": "127.0.0.1:3",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "grpc.security.protocol": "PLAINTEXT",
}
SSL = {"listener.security.protocol.map": "CONTROLLER:SSL", "ssl.keystore.location": "/a/store.pem"}


SASL = {"listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN"}
PLAIN = "listener.name.controller.plain.sasl.jaas.config"


def config(settings: Mapping[str, str]) -> GatewayConfig:
    argv = [word for name, value in {**GATEWAY, **settings}.items() for word in ("--set", f"{name}={value}")]
    return load(GatewayConfig, argv, {}, prefix=listener_prefix(argv, {}))


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "SSL://127.0.0.1:9093", "ssl.keystore.location": "/a"}, "SSL"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9093"}, "PLAINTEXT"),
        (SSL, "SSL"),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:9093", "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
            "SASL_PLAINTEXT",
        ),
        ({**SSL, "listener.security.protocol.map": "BROKER:SSL, CONTROLLER:PLAINTEXT"}, "PLAINTEXT"),
    ],
)
def test_a_listener_has_the_protocol_of_its_name(settings: Mapping[str, str], protocol: str) -> None:
    found = config(settings)

    assert protocol == found.security_protocol(found.listeners.name)


def test_a_setting_of_the_listener_counts_more_than_that_of_all() -> None:
    """Kafka: `listener.name.<name>.` in small letters."""
    of_listener = {"listener.name.controller.ssl.keystore.location": "/of/it.pem"}

    assert Path("/of/it.pem") == config({**SSL, **of_listener}).keystore
    assert Path("/a/store.pem") == config(SSL).keystore
    with pytest.raises(ConfigError, match=r"listener\.name\.broker\.ssl\.keystore\.location .*is not a setting"):
        config({**SSL, "listener.name.broker.ssl.keystore.location": "/a"})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"listener.security.protocol.map": "BROKER:SSL"},
            "listener.security.protocol.map = BROKER:SSL: must have an entry for CONTROLLER, the listener",
        ),
        ({"listener.security.protocol.map": "CONTROLLER:TLS"}, "must be a comma-separated list, each NAME:PROTOCOL"),
        (
            {"listener.security.protocol.map": "CONTROLLER:SSL"},
            "ssl.keystore.location: is missing; the listener CONTROLLER speaks SSL",
        ),
        ({**SSL, "ssl.keystore.type": "JKS"}, "ssl.keystore.type = 'JKS' (--set): must be one of PEM"),
        (
            {**SSL, "ssl.client.auth": "required"},
            "ssl.client.auth = required: takes ssl.truststore.location, which is missing",
        ),
        ({**SSL, "ssl.client.auth": "yes"}, "must be one of none, requested, required"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.1"}, "each one of TLSv1.2, TLSv1.3"),
        (
            {**SSL, "listener.name.controller.ssl.principal.mapping.rules": "RULE:(/x/"},
            "listener.name.controller.ssl.principal.mapping.rules = 'RULE:(/x/' (--set): must be DEFAULT, or RULE:",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(settings)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {**SASL, "sasl.enabled.mechanisms": ""},
            "sasl.enabled.mechanisms: is missing; the listener CONTROLLER speaks SASL_PLAINTEXT",
        ),
        ({**SASL, "sasl.enabled.mechanisms": "GSSAPI"}, "each one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (SASL, f"{PLAIN}: is missing; PLAIN is enabled"),
        ({**SASL, PLAIN: 'Module required username="hidden" password="hidden";'}, "with a user at least"),
        ({**SASL, PLAIN: 'Module required user_a="hidden"'}, f"{PLAIN} = *** (--set): must be like"),
        ({**SASL, PLAIN: 'Module required user_a="hidden" user_a="b";'}, f"{PLAIN} = ***"),
        (
            {**SASL, PLAIN: 'M required user_a="b";', "listener.security.protocol.map": "CONTROLLER:SASL_SSL"},
            "ssl.keystore.location: is missing; the listener CONTROLLER speaks SASL_SSL",
        ),
        ({**SASL, "listener.name.controller.connections.max.reauth.ms": "-1"}, "connections.max.reauth.ms = '-1'"),
    ],
)
def test_settings_of_logins_that_do_not_fit_are_refused_by_name(settings: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(settings)

    assert problem in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_the_users_of_plain_are_in_no_log() -> None:
    found = config({**SASL, PLAIN: 'x.PlainLoginModule required username="u" user_a-b@c="hid den" user_d=hidden;'})
    security = ListenerSecurity.of(found, "CONTROLLER")

    assert {"a-b@c": "hid den", "d": "hidden"} == security.plain_users
    assert "hid" not in f"{describe(found)} {found} {security}"


def test_the_password_of_a_key_is_in_no_log(tmp_path: Path) -> None:
    keystore = authority(tmp_path).issue("locked", "/CN=x", password="hidden")
    locked = config({**SSL, "ssl.keystore.location": str(keystore), "ssl.key.password": "hidden"})

    assert "hidden" not in f"{describe(locked)} {locked}"
    assert ListenerSecurity.of(locked, "CONTROLLER").tls is not None
    with pytest.raises(ValueError, match=r"ssl\.keystore\.location = .*locked\.pem: .*ssl\.key\.password") as refused:
        ListenerSecurity.of(
            config({**SSL, "ssl.keystore.location": str(keystore), "ssl.key.password": "false"}), "CONTROLLER"
        )
    assert "false" not in str(refused.value)
