"""Gateways, switched on by a value; Kafka's tools reach them from a pod's network, by TLS and by name.

Then they get another listener, for logins by password, which only pods of another label may call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from deploy.kafka.release import java
from tests.kube.places import STATE, say
from tests.kube.pods import add_pod, run_in_network
from tests.kube.release import CLIENT, Release, under_load
from tests.kube.tools import TOOLS, by_certificate
from tests.kube.volumes import manifest

ACLS: Final = TOOLS + "AclCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
QUORUM: Final = TOOLS + "MetadataQuorumCommand"
PORT: Final = 9092
CONFIG: Final = "message.max.bytes=2097152"

LOGINS_PORT: Final = 19092
LOGIN: Final = {"may-log-in": "true"}
"""The label of pods that the listener for logins is open to."""
USERS: Final = "gateway-users"
"""The Secret with the users of PLAIN."""
USER, PASSWORD = "tool", "of-the-tool"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS: Final[list[dict[str, Any]]] = [
    {"name": "KAFKA", "port": PORT},
    {
        "name": "LOGINS",
        "port": LOGINS_PORT,
        "protocol": "SASL_SSL",
        "saslMechanisms": ["PLAIN"],
        "plainUsers": {"existingSecret": USERS},
        "maxConnections": 100,
        "networkPolicyPeers": [{"podSelector": {"matchLabels": LOGIN}}],
    },
]


def show(release: Release) -> None:
    """While writes go on: gateways come up beside the nodes, describe the quorum, and write; and get a listener."""
    pod = add_pod(release, "tools", CLIENT)
    with under_load(release, "gateways switched on"):
        release.upgrade("gateway.enabled=true")
        release.wait_for("quorum", 3)
        status = _described(release, pod, PORT, by_certificate(release))
        brokers = ("--entity-type", "brokers", "--entity-default")
        certificate = by_certificate(release)
        _says(release, pod, PORT, certificate, CONFIGS, "--alter", *brokers, "--add-config", CONFIG)
        config = _says(release, pod, PORT, certificate, CONFIGS, "--describe", *brokers)
    if CONFIG not in config:
        raise SystemExit(f"not what was hoped for: {config}")
    say(f"kafka-metadata-quorum and kafka-configs at {release.host('gateway')}: {status}; {' '.join(config.split())}")
    logins = add_pod(release, "logins", LOGIN)
    with under_load(release, "a listener added to gateways"):
        _add_listener(release)
        _log_in(release, logins, admins=pod)
    release.kubectl("delete", "pod", "tools", "logins")


def _add_listener(release: Release) -> None:
    users = {"sasl.jaas.config": f'{MODULE} user_{USER}="{PASSWORD}";'}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": USERS}, "stringData": users}
    release.kubectl.apply(manifest([secret]))
    release.upgrade(values={"gateway": {"listeners": LISTENERS}})
    release.wait_for("quorum", 3)


def _log_in(release: Release, pod: dict[str, Any], *, admins: dict[str, Any]) -> None:
    """From a pod that no other port is open to: a wrong password is refused, and a user may do what an ACL allows."""
    user = _by_password(release, PASSWORD)
    _refused("Authentication failed", release, pod, _by_password(release, "wrong"))
    _refused("ClusterAuthorizationException", release, pod, user)
    # A client that asks for controllers needs ALTER, which lets it describe, too.
    entry = ("--add", "--allow-principal", f"User:{USER}", "--operation", "Alter", "--cluster")
    _says(release, admins, PORT, by_certificate(release), ACLS, *entry)
    say(f"kafka-metadata-quorum by PLAIN at port {LOGINS_PORT}: {_described(release, pod, LOGINS_PORT, user)}")


def _described(release: Release, pod: dict[str, Any], port: int, config: Path) -> str:
    """The line of the leader as kafka-metadata-quorum tells it. Raises SystemExit if another one leads."""
    status = _says(release, pod, port, config, QUORUM, "describe", "--status")
    leader = release.quorum()["leader"]
    told = next((line for line in status.splitlines() if line.startswith("LeaderId:")), "")
    if told.split() != ["LeaderId:", str(leader)]:
        raise SystemExit(f"not what was hoped for, with leader {leader}: {status}")
    return " ".join(told.split())


def _refused(why: str, release: Release, pod: dict[str, Any], config: Path) -> None:
    try:
        said = _says(release, pod, LOGINS_PORT, config, QUORUM, "describe", "--status")
    except SystemExit as error:
        if why not in str(error):
            raise
        say(f"refused at port {LOGINS_PORT}: {why}")
    else:
        raise SystemExit(f"not refused with {why}: {said}")


def _says(release: Release, pod: dict[str, Any], port: int, config: Path, main: str, *arguments: object) -> str:
    """What a tool prints in the network of a pod. Raises SystemExit with all that it said."""
    where = ("--bootstrap-controller", f"{release.host('gateway')}:{port}", "--command-config", config)
    return run_in_network(release, pod, "it", *java(main, *where, *arguments))


def _by_password(release: Release, password: str) -> Path:
    """The properties of a tool that logs in, by TLS without a certificate."""
    _, truststore = release.certificate()
    config = STATE / f"tool-{password}.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="{USER}" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={truststore}\n"
    )
    return config
