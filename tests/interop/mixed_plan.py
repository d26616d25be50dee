"""The plan of a quorum of our nodes and Kafka controllers: who listens where, and speaks what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from deploy.kafka.node import Node
from deploy.kafka.release import POM, QUICK, SERVER
from deploy.local.plan import RELEASE, ClusterPlan, Process, announcing_gateways, make_plan
from deploy.local.ports import HOST, free_ports
from quorate.nouns import NodeId
from quorate.protocol.sasl.plain import PLAIN
from tests.interop.kafka.quorum import QUIET, SECURITY, data_of
from tests.network.certificates import Authority

SESSION_TIMEOUT_MS: Final = 600_000
Settings = dict[str, object]
PATIENT: Final[Settings] = {
    "controller.quorum.fetch.timeout.ms": 10_000,
    "controller.quorum.election.timeout.ms": 1_000,
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    **QUIET,
}
"""A leader that is only slow is not replaced; the broker of these stories sends few heartbeats."""
PEERS: Final = "peers.properties"
"""The file that says how our nodes log in at their peers."""
NODES: Final = "nodes"
"""The name of the certificate that all nodes have."""
OWN: Final = "listener.name.controller."
"""What may stand before a setting of the listener CONTROLLER."""
USER: Final = "nodes"
PASSWORD: Final = "a secret, of all nodes"
LOGIN_MODULES: Final = "org.apache.kafka.common.security."
OF_QUORUM: Final = ("controller.quorum.", "metadata.max.retention.", "metadata.log.cleaning.", "file.delete.")
OF_CONTROLLER: Final = ("metadata.log.max.", "metadata.max.idle.")
"""How the settings begin that are for our quorum nodes and controllers; a Kafka controller gets all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Which release the Kafka controllers are of, and what all speak on Kafka's wire.

    With an `issuer` it is TLS; with a `mechanism` all log in as `USER`, else TLS wants certificates of all.
    `level` is what the cluster is formatted with: a metadata.version that the release knows. `options` are those of
    the JVMs.
    """

    pom: Path = POM
    level: str = RELEASE
    issuer: Authority | None = None
    mechanism: str | None = None
    options: Sequence[str] = QUICK

    @property
    def protocol(self) -> str:
        clear, by_tls = ("PLAINTEXT", "SSL") if self.mechanism is None else ("SASL_PLAINTEXT", "SASL_SSL")
        return clear if self.issuer is None else by_tls

    @property
    def keystore(self) -> Path | None:
        """One certificate for all nodes, which are on one machine."""
        return None if self.issuer is None else self.issuer.directory / f"{NODES}.pem"

    @property
    def users(self) -> tuple[str, ...]:
        """What is to be in the log of a new cluster, as `--add-scram` has it."""
        if self.mechanism is None or self.mechanism == PLAIN:
            return ()
        return (f'{self.mechanism}=[name={USER},password="{PASSWORD}"]',)

    def listener(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of a listener for Kafka's wire: of gateways, of our nodes' peers, and of Kafka controllers."""
        return {**self._stores(), **self._logins(password)}

    def client(self) -> dict[str, str]:
        """The properties of a client, of Kafka's or ours."""
        return {"security.protocol": self.protocol, **self._stores(), **self._login()}

    def _stores(self) -> dict[str, str]:
        if self.issuer is None:
            return {}
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.issuer.certificate),
            f"{OWN}ssl.client.auth": "required" if self.mechanism is None else "none",
        }

    def _logins(self, password: str) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        return {
            f"{OWN}sasl.enabled.mechanisms": self.mechanism,
            "sasl.mechanism.controller.protocol": self.mechanism,
            f"{OWN}{self.mechanism.lower()}.sasl.jaas.config": self._jaas(password, f' user_{USER}="{PASSWORD}"'),
        }

    def _login(self) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas(PASSWORD)}

    def _jaas(self, password: str, more: str = "") -> str:
        module, more = ("plain.PlainLoginModule", more) if self.mechanism == PLAIN else ("scram.ScramLoginModule", "")
        return f'{LOGIN_MODULES}{module} required username="{USER}" password="{password}"{more};'


CLEAR: Final = Peers()
"""The release whose tools there are, in the clear."""
MEASURED: Final = Peers(options=SERVER)
"""The same for benches."""


def planned(
    directory: Path, *, ours: int, kafkas: int, is_static: bool, settings: Settings, peers: Peers
) -> tuple[ClusterPlan, dict[NodeId, Node]]:
    """Our part, and Kafka's nodes by id; nothing is formatted yet."""
    at = {ours + 1 + place: f"{HOST}:{port}" for place, port in enumerate(free_ports(kafkas))}
    directory.mkdir(exist_ok=True)
    if peers.issuer is not None:
        peers.issuer.issue(NODES, f"/O=test/CN={NODES}")
    plan = _plan(directory, ours=ours, kafkas=at, is_static=is_static, settings=settings, peers=peers)
    voters = plan.gateways[0].settings["controller.quorum.voters"]
    servers = ",".join(each.partition("@")[2] for each in voters.split(","))
    known = {"controller.quorum.voters": voters} if is_static else {"controller.quorum.bootstrap.servers": servers}
    own = settings | known
    return plan, {node_id: _controller(plan, node_id, address, own, peers) for node_id, address in at.items()}


def _plan(
    directory: Path, *, ours: int, kafkas: Mapping[NodeId, str], is_static: bool, settings: Settings, peers: Peers
) -> ClusterPlan:
    """Our part of a mixed quorum: each node announces its gateway beside its own listener."""
    session_ms = int(str(settings["broker.session.timeout.ms"]))
    plan = make_plan(directory, voters=ours, dynamic=not is_static, with_gateways=True, session_timeout_ms=session_ms)
    named = ",".join(f"{node_id}@CONTROLLER://{address}" for node_id, address in kafkas.items())
    to_peers = directory / PEERS
    to_peers.write_text(as_properties(peers.listener()))
    plan = announcing_gateways(plan, peers.protocol)
    at = plan.bootstrap_controllers.split(",")
    everybody = ",".join(f"{node_id}@{address}" for node_id, address in (*enumerate(at, 1), *kafkas.items()))

    def quorum(process: Process) -> Process:
        own = {
            "controller.quorum.peer.config": str(to_peers),
            **_named(settings, OF_QUORUM),
        }
        if is_static and kafkas:
            own["controller.quorum.voters"] = f"{process.settings['controller.quorum.voters']},{named}"
        return replace(process, settings={**process.settings, **own})

    def controller(process: Process) -> Process:
        return replace(process, settings={**process.settings, **_named(settings, OF_CONTROLLER)})

    def gateway(process: Process) -> Process:
        protocol = {"listener.security.protocol.map": f"CONTROLLER:{peers.protocol}"}
        own = {"controller.quorum.voters": everybody, **protocol, **peers.listener()}
        return replace(process, settings={**process.settings, **own})

    return replace(
        plan,
        release=peers.level,
        users=peers.users,
        is_observed=False,
        quorum=tuple(map(quorum, plan.quorum)),
        controllers=tuple(map(controller, plan.controllers)),
        gateways=tuple(map(gateway, plan.gateways)),
    )


def _named(settings: Settings, begin: tuple[str, ...]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items() if name.startswith(begin)}


def as_properties(settings: Mapping[str, object]) -> str:
    """The text of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _controller(plan: ClusterPlan, node_id: NodeId, address: str, settings: Mapping[str, object], peers: Peers) -> Node:
    """A Kafka controller; its settings say what it knows of the others, and tools use them, too."""
    data = data_of(plan.directory, node_id)
    own = {
        "process.roles": "controller",
        "node.id": node_id,
        "listeners": f"CONTROLLER://{address}",
        "log.dirs": data,
        "listener.security.protocol.map": f"CONTROLLER:{peers.protocol},PLAINTEXT:PLAINTEXT",
    }
    spoken = peers.listener() | peers.client()
    return Node(data.parent, SECURITY | dict(settings) | own | spoken, pom=peers.pom, options=peers.options)
