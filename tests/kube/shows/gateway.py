"""Gateways, switched on by a value; Kafka's tools reach them from a pod's network, by TLS and by name."""

from __future__ import annotations

from typing import Any, Final

from deploy.kafka.release import java
from tests.kube.places import STATE, say
from tests.kube.pods import add_pod, run_in_network
from tests.kube.release import CLIENT, Release, under_load
from tests.network.certificates import openssl_says

TOOLS: Final = "org.apache.kafka.tools."
PORT: Final = 9092
CONFIG: Final = "message.max.bytes=2097152"


def show(release: Release) -> None:
    """While writes go on: gateways come up beside the nodes, describe the quorum, and write."""
    pod = add_pod(release, "tools", CLIENT)
    with under_load(release, "gateways switched on"):
        release.upgrade("gateway.enabled=true")
        release.wait_for("quorum", 3)
        leader = release.quorum()["leader"]
        status = _says(release, pod, TOOLS + "MetadataQuorumCommand", "describe", "--status")
        brokers = ("--entity-type", "brokers", "--entity-default")
        _says(release, pod, "kafka.admin.ConfigCommand", "--alter", *brokers, "--add-config", CONFIG)
        config = _says(release, pod, "kafka.admin.ConfigCommand", "--describe", *brokers)
    release.kubectl("delete", "pod", "tools")
    if f"LeaderId: {leader} " not in f"{' '.join(status.split())} " or CONFIG not in config:
        raise SystemExit(f"not what was hoped for, with leader {leader}: {status}{config}")
    say(f"kafka-metadata-quorum and kafka-configs at {release.host('gateway')}: {' '.join(config.split())}")


def _says(release: Release, pod: dict[str, Any], main: str, *arguments: object) -> str:
    """What a tool prints in the network of a client, with the admin's certificate."""
    certificate, truststore = release.certificate()
    # Java takes a key as PKCS #8 alone; Helm makes it in the older form.
    keystore = STATE / "tool.pem"
    key, begin = openssl_says("pkcs8", "-topk8", "-nocrypt", "-in", certificate), "-----BEGIN CERTIFICATE-----"
    keystore.write_text(key + begin + certificate.read_text().partition(begin)[2])
    config = STATE / "tool.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={keystore}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={truststore}\n"
    )
    where = ("--bootstrap-controller", f"{release.host('gateway')}:{PORT}", "--command-config", config)
    return run_in_network(release, pod, "it", *java(main, *where, *arguments))
