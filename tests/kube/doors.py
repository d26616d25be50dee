"""The ports at which a release serves gRPC by TLS, as one who has a certificate finds them."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.kube.release import Release

SERVICES: Final = ("quorum", "heartbeat", "placer", "observer")
PORTS: Final = {"quorum": (9093, 9094), "heartbeat": (9095,), "placer": (9096,), "observer": (9097,)}
TRY: Final = """
import hashlib, json, socket, ssl, sys
keystore, truststore, *doors = sys.argv[1:]
found = {}
for door in doors:
    context = ssl.create_default_context(cafile=truststore)
    context.check_hostname = False
    context.load_cert_chain(keystore)
    context.set_alpn_protocols(["h2"])
    host, port = door.split(":")
    try:
        with context.wrap_socket(socket.create_connection((host, int(port)), timeout=5)) as connection:
            # With TLS 1.3 a server refuses a client's certificate only after the handshake; else HTTP/2 begins.
            begun = connection.recv(1)
            found[door] = hashlib.sha256(connection.getpeercert(True)).hexdigest() if begun else ""
    except OSError:
        found[door] = ""
print(json.dumps(found))
"""


def shown(release: Release, keystore: Path, truststore: Path) -> dict[str, str]:
    """The digest of the certificate that each door of each pod shows; empty where one of the two refuses the other.

    Each door is tried from its pod's node, which no policy keeps from its pods.
    """
    doors = defaultdict[str, list[str]](list)
    for service in SERVICES:
        for pod in release.pods(service):
            doors[pod["spec"]["nodeName"]] += [f"{pod['status']['podIP']}:{port}" for port in PORTS[service]]
    found: dict[str, str] = {}
    for node, there in doors.items():
        said = release.cluster.node(node).run(sys.executable, "-c", TRY, keystore, truststore, *there)
        found |= json.loads(said)
    return found


def restarts(release: Release) -> dict[str, int]:
    """How often each container was started again."""
    return {
        f"{pod['metadata']['name']}/{each['name']}": each["restartCount"]
        for service in SERVICES
        for pod in release.pods(service)
        for each in pod["status"]["containerStatuses"]
    }
