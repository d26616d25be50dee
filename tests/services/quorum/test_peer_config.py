"""How a quorum node logs in at peers on Kafka's wire: the settings of a listener, by Kafka's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.network.client_config import ClientConfig
from quorate.protocol.sasl.mechanism import ClientMechanism
from quorate.protocol.sasl.plain import PlainClient
from quorate.protocol.sasl.scram import ScramClient
from services.quorum.peer_config import CONTROLLER_MECHANISM, peer_config
from tests.network.certificates import authority

MODULE = 'LoginModule required username="nodes" password="a secret"'
PLAIN = {
    CONTROLLER_MECHANISM: "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'Plain{MODULE} user_nodes="x";',
}


def config(properties: dict[str, str], protocol: str = "SASL_PLAINTEXT") -> ClientConfig:
    return peer_config(properties, listener="CONTROLLER", protocol=protocol)


def begun(properties: dict[str, str]) -> ClientMechanism:
    begin = config(properties).begin
    assert begin is not None
    return begin()


def first_of_plain(properties: dict[str, str]) -> bytes | None:
    mechanism = begun(properties)
    assert isinstance(mechanism, PlainClient)
    return mechanism.evaluate(b"")


def test_the_credentials_are_those_of_the_mechanism() -> None:
    assert first_of_plain(PLAIN) == b"\0nodes\0a secret"


def test_a_setting_of_this_listener_counts_more_and_one_of_another_not_at_all() -> None:
    others = {
        "plain.sasl.jaas.config": 'PlainLoginModule required username="all" password="p";',
        "listener.name.client.plain.sasl.jaas.config": 'PlainLoginModule required username="c" password="p";',
    }

    assert first_of_plain(PLAIN | others) == b"\0nodes\0a secret"
    assert first_of_plain({CONTROLLER_MECHANISM: "PLAIN"} | others) == b"\0all\0p"


def test_by_scram_it_is_the_mechanism_of_this_name() -> None:
    jaas = {f"listener.name.controller.scram-sha-{bits}.sasl.jaas.config": f"Scram{MODULE};" for bits in (256, 512)}
    mechanism = begun(jaas | {CONTROLLER_MECHANISM: "SCRAM-SHA-512"})

    assert isinstance(mechanism, ScramClient)
    assert mechanism.name == "SCRAM-SHA-512"


def test_without_the_mechanism_of_controllers_they_are_a_clients_properties() -> None:
    client = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"Plain{MODULE};"}

    assert first_of_plain(client) == b"\0nodes\0a secret"


def test_stores_of_the_listener_are_pem(tmp_path: Path) -> None:
    issuer = authority(tmp_path)
    stores = {"listener.name.controller.ssl.truststore.location": str(issuer.certificate)}

    tls = config(PLAIN | stores, "SASL_SSL").tls
    assert tls is not None
    assert len(tls.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (PLAIN | {CONTROLLER_MECHANISM: "GSSAPI"}, f"{CONTROLLER_MECHANISM} is 'GSSAPI'; it is one of PLAIN, SCRAM"),
        ({CONTROLLER_MECHANISM: "PLAIN"}, "listener.name.controller.plain.sasl.jaas.config: is missing"),
        (
            {CONTROLLER_MECHANISM: "PLAIN", "plain.sasl.jaas.config": 'PlainLoginModule required user_a="secret";'},
            "listener.name.controller.plain.sasl.jaas.config has no username and no password",
        ),
        (
            {CONTROLLER_MECHANISM: "PLAIN", "plain.sasl.jaas.config": "secret"},
            "listener.name.controller.plain.sasl.jaas.config: it is like",
        ),
    ],
)
def test_what_is_wrong_is_named_without_secrets(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match="sasl") as refused:
        config(properties)

    assert str(refused.value).startswith(said)
    assert "secret" not in str(refused.value)
