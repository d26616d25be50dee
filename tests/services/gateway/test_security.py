"""The settings of a gateway's listeners: which of them each has, what is refused at the start, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from quorate.listeners.security import ListenerSecurity
from quorate.listeners.settings import ListenerSettings
from quorate.runtime.settings.config import ConfigError, describe, load, settings_table
from quorate.runtime.settings.setting_types import Endpoint
from services.gateway.config import GatewayConfig
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
    return load(GatewayConfig, argv, {})


def at(settings: Mapping[str, str], listener: str = "CONTROLLER") -> ListenerSettings:
    return config(settings).of_listeners[listener]


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "SSL://127.0.0.1:9093", "ssl.keystore.location": "/a"}, "SSL"),
        ({"listeners": "ssl://127.0.0.1:9093", "ssl.keystore.location": "/a"}, "SSL"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9093"}, "PLAINTEXT"),
        (SSL, "SSL"),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:9093", "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
            "SASL_PLAINTEXT",
        ),
        ({**SSL, "listener.security.protocol.map": "BROKER:SSL, CONTROLLER:PLAINTEXT"}, "PLAINTEXT"),
        ({**SSL, "listener.security.protocol.map": "Controller:SSL"}, "SSL"),
        ({**SSL, "listeners": "controller://127.0.0.1:9093"}, "SSL"),
    ],
)
def test_a_listener_has_the_protocol_of_its_name(settings: Mapping[str, str], protocol: str) -> None:
    found = config(settings)

    assert protocol == found.security_protocol(found.listeners[0].name)


def test_a_setting_of_the_listener_counts_more_than_that_of_all() -> None:
    """Kafka: `listener.name.<name>.` in small letters."""
    of_listener = {"listener.name.controller.ssl.keystore.location": "/of/it.pem"}

    assert Path("/of/it.pem") == at({**SSL, **of_listener}).keystore
    assert Path("/a/store.pem") == at(SSL).keystore


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"listener.security.protocol.map": "BROKER:SSL"},
            "listener.security.protocol.map = BROKER:SSL: must have an entry for CONTROLLER, the listener",
        ),
        (
            {
                "listeners": "CONTROLLER://127.0.0.1:9093,SSL://127.0.0.1:19093",
                "controller.quorum.voters": "1@CONTROLLER://one:1,1@SSL://one:2",
                "ssl.keystore.location": "/a",
            },
            "listener.security.protocol.map = '': must have an entry for CONTROLLER, the listener",
        ),
        (
            {"controller.quorum.voters": "1@one:1,2@two:2,1@CONTROLLER://one:3"},
            "1@CONTROLLER://one:3 is another address of node 1 at CONTROLLER",
        ),
        ({"listener.security.protocol.map": "CONTROLLER:TLS"}, "must be a comma-separated list, each NAME:PROTOCOL"),
        (
            {"listener.security.protocol.map": "CONTROLLER:SSL"},
            "ssl.keystore.location: is missing; the listener CONTROLLER speaks SSL",
        ),
        ({**SSL, "ssl.keystore.type": "JKS"}, "ssl.keystore.type = 'JKS' (--set): must be one of PEM"),
        (
            {**SSL, "ssl.client.auth": "required"},
            "ssl.client.auth = required: needs ssl.truststore.location, which is missing for the listener CONTROLLER",
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
    ("protocol", "key", "value"),
    [
        ("PLAINTEXT", "ssl.client.auth", "required"),
        ("PLAINTEXT", "ssl.keystore.location", "/a/store.pem"),
        ("SASL_PLAINTEXT", "ssl.enabled.protocols", "TLSv1.3"),
        ("PLAINTEXT", "sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("SSL", "connections.max.reauth.ms", "1000"),
        ("SSL", "plain.sasl.jaas.config", 'x.PlainLoginModule required user_a="b";'),
    ],
)
def test_what_would_not_protect_a_listener_is_refused_for_it_and_taken_for_all(
    protocol: str, key: str, value: str
) -> None:
    common = {
        "listener.security.protocol.map": f"CONTROLLER:{protocol}",
        **({"ssl.keystore.location": "/a/store.pem"} if protocol == "SSL" else {}),
        **({"sasl.enabled.mechanisms": "SCRAM-SHA-256"} if protocol.startswith("SASL") else {}),
    }
    with pytest.raises(ConfigError) as refused:
        config({**common, f"listener.name.controller.{key}": value})

    why = f"listener.name.controller.{key}: has no effect, as the listener CONTROLLER speaks {protocol}"
    assert why in str(refused.value)
    assert config(common if key.startswith("plain.") else {**common, key: value})


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
    security = ListenerSecurity.of("CONTROLLER", found.of_listeners["CONTROLLER"], "SASL_PLAINTEXT")

    assert {"a-b@c": "hid den", "d": "hidden"} == security.plain_users
    assert "hid" not in f"{describe(found)} {found} {security}"


def test_the_password_of_a_key_is_in_no_log(tmp_path: Path) -> None:
    keystore = authority(tmp_path).issue("locked", "/CN=x", password="hidden")
    locked = config({**SSL, "ssl.keystore.location": str(keystore), "ssl.key.password": "hidden"})

    assert "hidden" not in f"{describe(locked)} {locked}"
    assert ListenerSecurity.of("CONTROLLER", locked.of_listeners["CONTROLLER"], "SSL").tls is not None
    with pytest.raises(ValueError, match=r"ssl\.keystore\.location = .*locked\.pem: .*ssl\.key\.password") as refused:
        ListenerSecurity.of(
            "CONTROLLER", at({**SSL, "ssl.keystore.location": str(keystore), "ssl.key.password": "false"}), "SSL"
        )
    assert "false" not in str(refused.value)


BOTH = {
    "listeners": "CONTROLLER://127.0.0.1:9093,SECURE://127.0.0.1:19093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "controller.quorum.voters": "1@CONTROLLER://127.0.0.1:9093,1@SECURE://127.0.0.1:19093,2@SECURE://two:19093",
    "listener.name.secure.ssl.keystore.location": "/a/store.pem",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": 'Module required user_a="hidden";',
}


def test_each_listener_has_what_is_for_it_and_what_is_for_all() -> None:
    found = config(
        {**BOTH, "max.connections": "100", "listener.name.secure.max.connections": "7", "ssl.client.auth": "none"}
    )
    clear, secure = found.of_listeners["CONTROLLER"], found.of_listeners["SECURE"]

    assert ["PLAINTEXT", "SASL_SSL"] == [found.security_protocol(name) for name in ("CONTROLLER", "SECURE")]
    assert (None, Path("/a/store.pem")) == (clear.keystore, secure.keystore)
    assert ((), ("PLAIN",)) == (clear.sasl_mechanisms, secure.sasl_mechanisms)
    assert (100, 100, 7) == (found.connections_max, clear.connections_max, secure.connections_max)
    assert {
        "CONTROLLER": {1: Endpoint("127.0.0.1", 9093)},
        "SECURE": {1: Endpoint("127.0.0.1", 19093), 2: Endpoint("two", 19093)},
    } == found.gateways_at


def test_what_is_in_force_is_described_so_that_it_can_be_read_again() -> None:
    """Settings that all listeners have are said once; what is of one of them under its name; no secret."""
    told = describe(config(BOTH))
    secret = {key for key, text in told.items() if text == "***"}
    again = describe(config({key: text for key, text in told.items() if key not in secret} | BOTH))

    assert told == again
    assert ("none", "/a/store.pem", "") == (
        told["ssl.client.auth"],
        told["listener.name.secure.ssl.keystore.location"],
        told["listener.name.controller.ssl.keystore.location"],
    )
    assert "ssl.keystore.location" not in told
    assert "hidden" not in str(told)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"listener.name.broker.ssl.keystore.location": "/a"},
            "listener.name.broker.ssl.keystore.location (--set): is for a listener broker, "
            "and listeners has CONTROLLER, SECURE",
        ),
        (
            {"listener.name.SECURE.ssl.client.auth": "required"},
            "listener.name.SECURE.ssl.client.auth (--set): a listener's name is in small letters here: "
            "listener.name.secure.ssl.client.auth",
        ),
        (
            {"listener.name.secure.node.id": "2"},
            "listener.name.secure.node.id (--set): is not a setting of this service",
        ),
        (
            {"listeners": "CONTROLLER://127.0.0.1:9093,SECURE://localhost:9093"},
            "listeners = 'CONTROLLER://127.0.0.1:9093,SECURE://localhost:9093' (--set): must be "
            "a comma-separated list, each NAME://host:port with a port from 0 to 65535, none twice, at least 1; "
            "names must differ, and so must ports, except 0 and those of one IPv4 and one IPv6 address",
        ),
        ({"listeners": "SECURE://127.0.0.1:9093,Secure://127.0.0.1:19093"}, "names must differ"),
        ({"listeners": ""}, "listeners = '' (--set): must be a comma-separated list"),
        (
            {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"},
            "listener.security.protocol.map = CONTROLLER:PLAINTEXT: must have an entry for SECURE, the listener",
        ),
        (
            {"listener.name.secure.ssl.keystore.location": ""},
            "ssl.keystore.location: is missing; the listener SECURE speaks SASL_SSL",
        ),
        (
            {"listener.name.secure.ssl.client.auth": "required"},
            "ssl.client.auth = required: needs ssl.truststore.location, which is missing for the listener SECURE",
        ),
        (
            {"listener.name.secure.sasl.enabled.mechanisms": ""},
            "sasl.enabled.mechanisms: is missing; the listener SECURE speaks SASL_SSL",
        ),
        (
            {"listener.name.secure.plain.sasl.jaas.config": ""},
            "listener.name.secure.plain.sasl.jaas.config: is missing; PLAIN is enabled",
        ),
        (
            {"listener.name.secure.ssl.enabled.protocols": "SSLv3"},
            "listener.name.secure.ssl.enabled.protocols = 'SSLv3' (--set): must be a comma-separated list, each one of",
        ),
        (
            {"principal.node.id.mapping.rules": "RULE:^a$/1/"},
            "principal.node.id.mapping.rules = RULE:^a$/1/: needs a listener with certificates",
        ),
        (
            {"controller.quorum.voters": "1@127.0.0.1:9093"},
            "controller.quorum.voters = 1@127.0.0.1:9093: 1@127.0.0.1:9093 must name one of the listeners "
            "CONTROLLER, SECURE, as 1@CONTROLLER://127.0.0.1:9093 does",
        ),
        (
            {"controller.quorum.voters": "1@CONTROLLER://one:1,1@SECURE://one:2,1@OTHER://one:3"},
            "1@OTHER://one:3 names OTHER, which is not among listeners: CONTROLLER, SECURE",
        ),
        (
            {"controller.quorum.voters": "1@CONTROLLER://one:1,2@SECURE://two:2"},
            "controller.quorum.voters = 1@CONTROLLER://one:1,2@SECURE://two:2: must have an entry for node.id 1, "
            "this gateway at its listener SECURE",
        ),
        ({"controller.quorum.voters": "1@SECURE://one:1,1@SECURE://one:2"}, "none twice"),
    ],
)
def test_listeners_that_do_not_fit_are_refused_by_name(settings: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config({**BOTH, **settings})

    assert problem in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("name", ["OTHER_SSL_CLIENT_AUTH", "SECURE_SSL_CLIENT_AUTHS", "SECURE_NODE_ID"])
def test_a_variable_that_is_for_no_listener_is_refused(name: str) -> None:
    settings = [part for key, value in {**GATEWAY, **BOTH}.items() for part in ("--set", f"{key}={value}")]
    with pytest.raises(ConfigError) as refused:
        load(GatewayConfig, settings, {f"QUORATE_LISTENER_NAME_{name}": "required"})

    why = f"QUORATE_LISTENER_NAME_{name}: is for no setting of a listener; listeners has CONTROLLER, SECURE"
    assert why in str(refused.value)


def test_help_has_the_settings_of_listeners_after_the_others_and_says_so() -> None:
    table = settings_table(GatewayConfig)
    lines = table.splitlines()
    keys = [line.split()[0] for line in lines[2:] if not line.startswith(" ")]

    assert len(set(keys)) == len(keys)
    assert max(keys.index("node.id"), keys.index("listeners")) < keys.index("ssl.client.auth")
    assert "With listener.name.<name>. before it: of one listener." in said_of("ssl.client.auth", lines)
    assert "listener.name" not in said_of("quorum.endpoint", lines)


def said_of(key: str, lines: list[str]) -> str:
    """What the table says of one setting, in one line."""
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"{key} "))
    end = next(at for at, line in enumerate([*lines, "end"]) if at > begin and not line.startswith(" "))
    return " ".join(" ".join(lines[begin:end]).split())


def test_a_problem_of_all_listeners_is_told_once() -> None:
    with pytest.raises(ConfigError) as refused:
        config({**BOTH, "ssl.keystore.type": "JKS"})

    assert ("ssl.keystore.type = 'JKS' (--set): must be one of PEM",) == refused.value.problems


def test_without_listeners_it_is_said_that_they_are_missing() -> None:
    """And nothing of what is for one of them: which there are is not known."""
    given = {name: value for name, value in {**GATEWAY, **BOTH}.items() if name != "listeners"}
    argv = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    with pytest.raises(ConfigError) as refused:
        load(GatewayConfig, argv, {})

    (problem,) = refused.value.problems
    assert problem.startswith("listeners: is missing; it must be a comma-separated list")


def test_one_address_of_each_family_may_share_a_port() -> None:
    """Kafka's rule since KIP-797."""
    of_both = "CONTROLLER://0.0.0.0:9093,SECURE://[::]:9093"

    assert of_both == ",".join(map(str, config({**BOTH, "listeners": of_both}).listeners))


def test_a_listener_has_its_settings_from_the_environment_and_from_a_file_alike(tmp_path: Path) -> None:
    file = tmp_path / "gateway.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**GATEWAY, **BOTH}.items()))
    environ = {"QUORATE_LISTENER_NAME_SECURE_SSL_KEYSTORE_LOCATION": "/of/environment.pem"}

    assert Path("/a/store.pem") == load(GatewayConfig, ["--config", str(file)], {}).of_listeners["SECURE"].keystore
    found = load(GatewayConfig, ["--config", str(file)], environ)
    assert Path("/of/environment.pem") == found.of_listeners["SECURE"].keystore
    assert None is found.of_listeners["CONTROLLER"].keystore
