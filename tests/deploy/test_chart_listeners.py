"""The listeners of the chart's gateways: what a gateway takes of them, who reaches them, and what is refused."""

from __future__ import annotations

import re
import textwrap
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.runtime.settings.config import ConfigError
from services.gateway.config import GatewayConfig
from services.quorum.config import QuorumConfig
from tests.deploy.chart import CERT_MANAGER, ROOT, Json, containers, named, of_kind, pod_specs, refusal, render, yaml
from tests.deploy.chart_programs import environment, loaded
from tests.deploy.chart_values import README, listener_keys

KAFKA: Final[Json] = {"name": "KAFKA", "port": 9092}
SHOWN: Final[Json] = {**KAFKA, "name": "SHOWN", "port": 19092}
USERS: Final[Json] = {"saslMechanisms": ["PLAIN", "SCRAM-SHA-512"], "plainUsers": {"existingSecret": "users"}}
LOGINS: Final[Json] = {"name": "LOG_INS", "port": 19093, "protocol": "SASL_SSL", **USERS}
SCRAM: Final[Json] = {"name": "SCRAM", "port": 19094, "protocol": "SASL_SSL", "saslMechanisms": ["SCRAM-SHA-256"]}
OUTSIDE: Final[Json] = {"name": "outside", "port": 65535, "existingSecret": "public", "clientAuth": "requested"}
CLEAR: Final[Json] = {"name": "CLEAR", "port": 1024, "protocol": "PLAINTEXT"}
CLEAR_LOGINS: Final[Json] = {**LOGINS, "name": "NAMED", "port": 19095, "protocol": "SASL_PLAINTEXT"}
ELSEWHERE: Final[Json] = {"ipBlock": {"cidr": "10.0.0.0/8"}}
LISTS: Final[dict[str, list[Json]]] = {
    "the default": [KAFKA],
    "one at another port": [SHOWN],
    "one for logins alone": [LOGINS],
    "two by TLS": [KAFKA, SHOWN],
    "limits and peers": [{**KAFKA, "maxConnections": 7}, {**LOGINS, "networkPolicyPeers": [ELSEWHERE]}],
    "from nowhere": [KAFKA, {**SHOWN, "networkPolicyPeers": []}],
    "both certificates and logins": [KAFKA, {**SCRAM, "clientAuth": "required"}],
    "all protocols": [KAFKA, LOGINS, SCRAM, OUTSIDE, CLEAR, CLEAR_LOGINS],
}
IDENTITIES: Final = ("quorum", "gateway", "heartbeat", "placer", "observer", "admin")
SOURCES: Final[dict[str, Json]] = {
    "selfSigned": {},
    "certManager": {"source": "certManager"},
    "existingSecret": {"source": "existingSecret", "existingSecrets": {each: f"my-{each}" for each in IDENTITIES}},
}
DEFAULT_PROPERTIES: Final = {
    "listeners": "KAFKA://0.0.0.0:9092",
    "listener.security.protocol.map": "KAFKA:SSL",
    "ssl.client.auth": "required",
    "ssl.keystore.location": "/etc/quorate/tls/tls-combined.pem",
    "ssl.truststore.location": "/etc/quorate/tls/ca.crt",
    "controller.quorum.voters": ",".join(
        f"{each}@q-quorate-quorum-{each}.q-quorate-quorum.kraft.svc:9092" for each in (0, 1, 2)
    ),
}
"""What a gateway has of a listener of which only name and port are said."""


def values(*listeners: Json, **more: Any) -> Json:
    return {"gateway": {"enabled": True, "listeners": list(listeners)}, **more}


def nodes(objects: list[Json]) -> Json:
    """The spec of the pods with gateways."""
    spec: Json = named(objects, "StatefulSet", "q-quorate-quorum")["spec"]["template"]["spec"]
    return spec


def gateway(spec: Json) -> Json:
    (found,) = [each for each in spec["containers"] if each["name"] == "gateway"]
    return dict(found)


def config_of(objects: list[Json], directory: Path) -> GatewayConfig:
    """What a gateway takes out of its file and its environment. Raises ConfigError."""
    spec = nodes(objects)
    config = loaded(objects, spec, gateway(spec), directory)
    assert isinstance(config, GatewayConfig)
    return config


def kafka_ports(ports: list[Json]) -> dict[str, int]:
    """The named ports that are gateways' listeners."""
    names = {each["name"]: each.get("port", each.get("containerPort")) for each in ports if "name" in each}
    return {name: port for name, port in names.items() if name.startswith("gateway")}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", LISTS)
def test_a_gateway_listens_as_the_values_say(name: str, source: str, tmp_path: Path) -> None:
    listeners = LISTS[name]
    config = config_of(render(values(*listeners, tls=SOURCES[source]), apis=(CERT_MANAGER,)), tmp_path)

    assert [(each["name"].upper(), each["port"]) for each in listeners] == [
        (each.name, each.endpoint.port) for each in config.listeners
    ]
    for each in listeners:
        name = each["name"].upper()  # as Kafka has it
        of_listener, protocol = config.of_listeners[name], each.get("protocol", "SSL")
        assert protocol == config.security_protocol(name)
        assert tuple(each.get("saslMechanisms", ())) == of_listener.sasl_mechanisms
        assert ("PLAIN" in of_listener.sasl_mechanisms) == bool(of_listener.plain_jaas)
        if protocol.endswith("SSL"):
            wanted = each.get("clientAuth", "required" if protocol == "SSL" else "none")
            assert wanted == of_listener.client_auth
        if "maxConnections" in each:
            assert each["maxConnections"] == of_listener.connections_max
        else:
            assert "max.connections" not in config.of_listeners.own[name]


@pytest.mark.parametrize("name", LISTS)
def test_each_node_is_told_at_each_listener_by_a_name_that_its_certificate_has(name: str, tmp_path: Path) -> None:
    objects = render(values(*LISTS[name], tls=SOURCES["certManager"]), apis=(CERT_MANAGER,))
    in_certificate = named(objects, "Certificate", "q-quorate-gateway")["spec"]["dnsNames"]
    told = config_of(objects, tmp_path).gateways_at

    assert [each["name"].upper() for each in LISTS[name]] == list(told)
    for each in LISTS[name]:
        assert [0, 1, 2] == list(told[each["name"].upper()])
        for node_id, endpoint in told[each["name"].upper()].items():
            assert each["port"] == endpoint.port
            assert endpoint.host.startswith(f"q-quorate-quorum-{node_id}.")
            assert any(fnmatchcase(endpoint.host, pattern) for pattern in in_certificate), endpoint
    assert "q-quorate-gateway.kraft.svc" in in_certificate


@pytest.mark.parametrize("name", LISTS)
def test_a_node_announces_its_gateway_at_each_listener(name: str, tmp_path: Path) -> None:
    """Kafka's brokers find the voters in the log, and a voter's address by the name of the listener."""
    objects = render(values(*LISTS[name]))
    spec = nodes(objects)
    quorum = loaded(objects, spec, spec["containers"][0], tmp_path)
    assert isinstance(quorum, QuorumConfig)
    told = config_of(objects, tmp_path).gateways_at
    announced = {each.name: each.endpoint for each in quorum.announced}

    assert ("CONTROLLER", 9093) == (quorum.own_controller_listener.name, announced.pop("CONTROLLER").port)
    assert {name: at[quorum.node_id] for name, at in told.items()} == announced
    assert {each["name"].upper(): each.get("protocol", "SSL") for each in LISTS[name]} == dict(quorum.kafka_protocols)
    assert LISTS[name][0]["name"].upper() == quorum.raft.listener_name


@pytest.mark.parametrize("name", LISTS)
def test_each_listener_is_a_port_of_pods_and_services_and_open_to_its_peers(name: str) -> None:
    policy = {"clients": [{"podSelector": {}}], "brokers": [ELSEWHERE]}
    objects = render(values(*LISTS[name], networkPolicy=policy))
    listeners = LISTS[name]
    wanted = {("gateway" if each["port"] == 9092 else f"gateway-{each['port']}"): each["port"] for each in listeners}
    of_pods = named(objects, "Service", "q-quorate-quorum")["spec"]["ports"]
    of_clients = named(objects, "Service", "q-quorate-gateway")["spec"]["ports"]

    assert wanted == kafka_ports(gateway(nodes(objects))["ports"]) == kafka_ports(of_pods) == kafka_ports(of_clients)
    assert len(wanted) == len(of_clients)
    assert all(each["name"] == each["targetPort"] for each in of_clients)
    names = [port["name"] for each in nodes(objects)["containers"] for port in each["ports"] if "name" in port]
    assert len(set(names)) == len(names)
    rules = named(objects, "NetworkPolicy", "q-quorate-quorum")["spec"]["ingress"]
    for each in listeners:
        peers = each.get("networkPolicyPeers", policy["clients"] + policy["brokers"])
        let = [rule["from"] for rule in rules if each["port"] in [port["port"] for port in rule["ports"]]]
        assert ([peers] if peers else []) == let


def test_the_default_is_one_listener_by_tls_without_settings_of_its_own() -> None:
    objects = render({"gateway": {"enabled": True}})
    lines = named(objects, "ConfigMap", "q-quorate-quorum")["data"]["gateway.properties"].splitlines()
    found = dict(line.split("=", 1) for line in lines)

    assert found.items() >= DEFAULT_PROPERTIES.items()
    assert not [key for key in found if key.startswith("listener.name.")]
    assert [{"name": "gateway", "port": 9092, "targetPort": "gateway"}] == (
        named(objects, "Service", "q-quorate-gateway")["spec"]["ports"]
    )


def test_a_port_keeps_its_name_wherever_it_is_in_the_list() -> None:
    """Else a Service would lead to another port of the pods that are not restarted yet."""
    orders = ([KAFKA, SHOWN, LOGINS], [LOGINS, SHOWN, KAFKA], [SHOWN])
    first, second, third = (kafka_ports(gateway(nodes(render(values(*each))))["ports"]) for each in orders)

    assert first == second
    assert third.items() <= first.items()


def test_passwords_are_in_no_file_of_settings() -> None:
    """And of all containers only the gateway has them."""
    objects = render(values(KAFKA, LOGINS))
    having = [
        (name, container["name"])
        for name, _, spec in pod_specs(objects)
        for container in containers(spec)
        if any("plain.sasl" in value or "user_" in value for value in environment(container).values())
    ]

    assert [("StatefulSet/q-quorate-quorum", "gateway")] == having
    assert not [each for each in of_kind(objects, "ConfigMap") if "jaas" in str(each["data"])]


def test_the_users_are_read_from_the_key_that_the_values_name() -> None:
    listener = {**LOGINS, "plainUsers": {"existingSecret": "users", "key": "url"}}
    (reference,) = [
        each["valueFrom"]["secretKeyRef"]
        for each in gateway(nodes(render(values(listener))))["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    ]

    assert {"name": "users", "key": "url"} == reference


def test_a_listener_has_its_own_certificate_and_takes_nobody_for_one_of_the_release(tmp_path: Path) -> None:
    """A caller with CN=admin of the other authorities is User:CN=admin there; User:admin may do everything."""
    objects = render(values(KAFKA, OUTSIDE))
    spec = nodes(objects)
    mounts = {each["mountPath"]: each["name"] for each in gateway(spec)["volumeMounts"]}
    secrets = {each["name"]: each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    config = config_of(objects, tmp_path)
    shown = {}
    for name, of_listener in config.of_listeners.items():
        assert of_listener.keystore is not None
        assert of_listener.truststore is not None
        assert of_listener.keystore.parent == of_listener.truststore.parent
        shown[name] = secrets[mounts[str(of_listener.keystore.parent)]]

    assert {"KAFKA": "q-quorate-gateway-tls", "OUTSIDE": "public"} == shown
    assert "DEFAULT" == config.of_listeners["OUTSIDE"].principal_rules
    assert "DEFAULT" != config.of_listeners["KAFKA"].principal_rules


def test_settings_of_a_listener_are_for_it_alone(tmp_path: Path) -> None:
    rules = "RULE:^CN=(.*?),.*$/out-$1/,DEFAULT"
    settings = {"connections.max.reauth.ms": 60000, "sasl.server.max.receive.size": 2147483647}
    outside = {**OUTSIDE, "settings": {"ssl.principal.mapping.rules": rules}}
    config = config_of(render(values(KAFKA, {**LOGINS, "settings": settings}, outside)), tmp_path)

    assert [0, 60_000, 0] == [each.reauth_ms_max for each in config.of_listeners.values()]
    assert 2_147_483_647 == config.of_listeners["LOG_INS"].sasl_receive_bytes_max
    assert rules == config.of_listeners["OUTSIDE"].principal_rules


def test_a_setting_that_a_listener_does_not_have_is_found_by_the_gateway(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.kafka\.no\.such\.setting"):
        config_of(render(values({**KAFKA, "settings": {"no.such.setting": 1}})), tmp_path)


def test_without_gateways_nothing_is_left_of_the_list() -> None:
    """An upgrade with --reuse-values from a chart that had no such key has none."""
    for listeners in ([LOGINS, OUTSIDE], None):
        objects = render({"gateway": {"enabled": False, "listeners": listeners}})
        assert "gateway" not in str([each for each in objects if each["kind"] != "Secret"])


@pytest.mark.parametrize("file", [README, ROOT / "services" / "TO_TLS.md"], ids=lambda file: file.name)
def test_a_gateway_takes_the_example_of_a_readme(file: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"^ +gateway:\n +enabled: true\n(?: +.*\n)+", file.read_text(), flags=re.MULTILINE)
    example = yaml.safe_load(textwrap.dedent(block))

    assert len(config_of(render(example), tmp_path).listeners) == len(example["gateway"]["listeners"]) > 1


REFUSED: Final[list[tuple[Any, str]]] = [
    ([], "/gateway/listeners': minItems: got 0, want 1"),
    ([{"name": "A"}], "/gateway/listeners/0': missing property 'port'"),
    ([{"port": 9092}], "/gateway/listeners/0': missing property 'name'"),
    ([{**KAFKA, "tls": True}], "/gateway/listeners/0': additional properties 'tls' not allowed"),
    ([{**KAFKA, "name": "CON-TROLLER"}], "/gateway/listeners/0/name': 'CON-TROLLER' does not match pattern"),
    ([{**KAFKA, "port": 80}], "/gateway/listeners/0/port': minimum: got 80, want 1,024"),
    ([{**KAFKA, "port": 65536}], "/gateway/listeners/0/port': maximum: got 65,536, want 65,535"),
    ([{**KAFKA, "protocol": "TLS"}], "/gateway/listeners/0/protocol': value must be one of 'SSL', 'SASL_SSL', "),
    ([{**SCRAM, "saslMechanisms": ["GSSAPI"]}], "/saslMechanisms/0': value must be one of 'PLAIN', 'SCRAM-SHA-256', "),
    ([{**SCRAM, "saslMechanisms": ["SCRAM-SHA-256"] * 2}], "/saslMechanisms': items at 0 and 1 are equal"),
    ([{**KAFKA, "clientAuth": "yes"}], "/clientAuth': value must be one of 'required', 'requested', 'none'"),
    ([{**KAFKA, "maxConnections": 0}], "/maxConnections': minimum: got 0, want 1"),
    ([{**KAFKA, "networkPolicyPeers": [{}]}], "/networkPolicyPeers/0': minProperties: got 0, want 1"),
    ([{**LOGINS, "plainUsers": {}}], "/plainUsers': missing property 'existingSecret'"),
    (
        [KAFKA, {**SHOWN, "name": "Kafka"}],
        "gateway.listeners[1].name = KAFKA: gateway.listeners[0] has it; names differ by more than small and",
    ),
    (
        [SHOWN, {**KAFKA, "port": 19092}],
        "gateway.listeners[1].port = 19092: is a port of gateway.listeners[0]; ports differ",
    ),
    ([{**KAFKA, "port": 9093}], "listeners[0].port = 9093: is a port of the container quorum of the same pod"),
    ([{**KAFKA, "port": 9294}], "listeners[0].port = 9294: is a port of the container controller of the same pod"),
    ([{**KAFKA, "port": 9192}], "listeners[0].port = 9192: is a port of the container gateway of the same pod"),
    (
        [{**KAFKA, "protocol": "SASL_SSL"}],
        "gateway.listeners[0].protocol = SASL_SSL: saslMechanisms is empty; clients log in by one of PLAIN, SCRAM-",
    ),
    (
        [{**SCRAM, "protocol": "SSL"}],
        "gateway.listeners[0].saslMechanisms = SCRAM-SHA-256: has no effect with protocol = SSL; logins take SASL_SSL",
    ),
    (
        [{**SCRAM, "saslMechanisms": ["PLAIN", "SCRAM-SHA-512"]}],
        "gateway.listeners[0].saslMechanisms = PLAIN,SCRAM-SHA-512: PLAIN takes plainUsers.existingSecret, a Secret",
    ),
    (
        [{**SCRAM, "plainUsers": {"existingSecret": "users"}}],
        "gateway.listeners[0].plainUsers.existingSecret = users: has no effect, as saslMechanisms has no PLAIN",
    ),
    (
        [{**CLEAR, "clientAuth": "required"}],
        "gateway.listeners[0].clientAuth = required: has no effect with protocol = PLAINTEXT, which has no TLS",
    ),
    (
        [{**CLEAR_LOGINS, "existingSecret": "public"}],
        "gateway.listeners[0].existingSecret = public: has no effect with protocol = SASL_PLAINTEXT, which has no TLS",
    ),
    (
        [{**KAFKA, "settings": {"max.connections": 7}}],
        "gateway.listeners[0].settings: max.connections is set as gateway.listeners[0].maxConnections",
    ),
    (
        [{**KAFKA, "settings": {"listener.name.kafka.x": 7}}],
        "gateway.listeners[0].settings: listener.name.kafka.x is set without listener.name.kafka. before it",
    ),
    (
        [{**KAFKA, "name": "Controller"}],
        "gateway.listeners[0].name = CONTROLLER: the nodes' own listener, for gRPC, has it; names differ by more than",
    ),
    (None, "gateway.listeners is missing: with gateway.enabled = true it has one listener at least; an upgrade from"),
]


@pytest.mark.parametrize(("listeners", "why"), REFUSED, ids=[why[-45:] for _, why in REFUSED])
def test_a_list_that_cannot_be_is_refused_with_the_reason(listeners: Any, why: str) -> None:
    assert why in refusal({"gateway": {"enabled": True, "listeners": listeners}})


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (
            "listener.name.kafka.max.connections",
            "is of one listener; it is set without the prefix in gateway.list",
        ),
        ("sasl.enabled.mechanisms", "is set for each listener, as gateway.listeners[].saslMechanisms"),
        ("plain.sasl.jaas.config", "is set for each listener, as gateway.listeners[].plainUsers"),
        ("listeners", "the chart sets listeners = KAFKA://0.0.0.0:9092 itself"),
        ("ssl.client.auth", "the chart sets ssl.client.auth = required itself"),
    ],
)
def test_a_setting_of_all_that_belongs_to_the_list_is_refused_with_its_new_place(key: str, why: str) -> None:
    says = refusal({"gateway": {"enabled": True, "settings": {key: "7"}}})

    assert "gateway.settings: " in says
    assert key in says
    assert why in says


OTHERS: Final[dict[str, Any]] = {
    "name": "OTHER",
    "port": 19999,
    "protocol": "SASL_PLAINTEXT",
    "clientAuth": "requested",
    "saslMechanisms": ["PLAIN", "SCRAM-SHA-256"],
    "plainUsers.existingSecret": "others",
    "plainUsers.key": "url",
    "existingSecret": "public",
    "maxConnections": 7,
    "networkPolicyPeers": [ELSEWHERE],
    "settings": {"connections.max.reauth.ms": 60000},
}
"""Of each key of a listener another value than LOGINS has, which it may have as well."""


@pytest.mark.parametrize("place", [place for place, _, _ in listener_keys()])
def test_a_key_of_a_listener_that_is_changed_changes_what_is_rendered(place: str) -> None:
    outer, _, inner = place.partition(".")
    value = {**LOGINS[outer], inner: OTHERS[place]} if inner else OTHERS[place]
    before, after = (
        repr([each for each in render(values(KAFKA, listener)) if each["kind"] != "Secret"])
        for listener in (LOGINS, {**LOGINS, outer: value})
    )

    assert before != after


def test_a_default_in_the_schema_is_what_is_taken_without_the_key() -> None:
    defaults = {place: shape["default"] for place, shape, _ in listener_keys() if "default" in shape}
    for listener in (KAFKA, SCRAM, LOGINS):
        given = {key: value for key, value in defaults.items() if "." not in key} | listener
        if "plainUsers" in listener:
            given["plainUsers"] = {**listener["plainUsers"], "key": defaults["plainUsers.key"]}
        without, with_them = (
            [each for each in render(values(each)) if each["kind"] != "Secret"] for each in (listener, given)
        )
        assert without == with_them
