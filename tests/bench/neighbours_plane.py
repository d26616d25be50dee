"""A plane like the chart's for `make neighbours`: TLS everywhere, an authorizer, gateways with two listeners, users.

Everybody comes from one address, as behind one NAT: good callers share the limits of an address with the bad ones.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from deploy.local.broker import BrokerStandIn, stand_in
from deploy.local.client import Admin
from deploy.local.own import format_broker, planned
from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process, make_plan, secured
from deploy.local.ports import HOST, free_ports
from deploy.local.processes import Running
from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.authorizer import CLUSTER_NAME, STANDARD_AUTHORIZER
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.runtime.clients.client import open_channel
from tests.bench.bad_neighbours import BAD, BROKER, USER, Doors
from tests.bench.bad_neighbours_broker import AT_GRPC, AT_LOGINS, AT_WIRE
from tests.bench.bad_neighbours_logins import SCRAM_NUMBER, VICTIM
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import PATIENT
from tests.e2e.kafka_listeners import KafkaListeners
from tests.fuzz.storms import MIB_MAX
from tests.network.certificates import Authority, authority

GOOD: Final = "admin"
"""A super user, by certificate; good callers are."""
USERS: Final = 400
"""Users whose logins are each the first of its user, as long as there are any."""
PASSWORD: Final = "correct horse battery"
OWN_BROKER: Final = 7
BROKER_MIB_MAX: Final = 1_024
"""The chart starts no broker of ours; so this is what a small one may be given."""
TOPIC: Final = "of-the-good"
"""The topic that the broker of ours leads."""
OF_BROKERS: Final = "BROKERS"
CERTIFIED, LOGGED_IN = "CONTROLLER", "LOGIN"
"""The gateways' listeners: by SSL with certificates, and by SASL_SSL."""
PRINCIPAL_RULES: Final = r"RULE:^CN=(.*?),O=cluster$/$1/L,DEFAULT"
PROCESS_RULES: Final = r"RULE:^(quorum|controller|gateway|heartbeat|placer|observer|broker)-[0-9]{1,3}$/$1/"
NODE_RULES: Final = (
    r"RULE:^(quorum|controller|observer|broker)-([0-9]+)$/$2/,RULE:^(heartbeat|gateway|clients|admin).*$/*/"
)
RIGHTS: Final = [
    (f"User:{USER}", ResourceType.TOPIC, "topic-", AclOperation.ALL),
    (f"User:{USER}", ResourceType.GROUP, "topic-", AclOperation.ALL),
    (f"User:{USER}", ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE),
    (f"User:{BROKER}", ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.CLUSTER_ACTION),
]
"""Who has which right, on what begins with which name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The plane, where the node that leads is reached, and a supply of users who have never logged in."""

    plan: ClusterPlan
    running: Running
    issuer: Authority
    leader: int
    ports: Mapping[str, int]
    broker: BrokerStandIn
    own_broker: Process
    fresh_users: Iterator[str]

    @property
    def doors(self) -> Doors:
        """Where bad callers come in."""
        return Doors(host=HOST, ports=self.ports, directory=self.issuer.directory, truststore=self.issuer.certificate)

    @property
    def processes(self) -> list[Process]:
        """Those at which good and bad callers meet."""
        place = self.leader - 1
        own = [self.plan.quorum[place], self.plan.controllers[place], self.plan.gateways[place]]
        return [*own, self.plan.heartbeat, self.plan.placer, self.plan.observer, self.own_broker]

    @property
    def pids(self) -> dict[str, int]:
        """Of the same, by name."""
        return {each.name: self.running.pid(each) for each in self.processes}

    @property
    def limits_mib(self) -> dict[str, int]:
        """The chart's memory limits of the same."""
        return {each.name: {**MIB_MAX, "broker": BROKER_MIB_MAX}[each.service] for each in self.processes}


@asynccontextmanager
async def like_the_charts(directory: Path, *, voters: int, users: int = USERS) -> AsyncIterator[Plane]:
    """Started, with users and rights; everything is ended at the end."""
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    issuer = authority(directory)
    for name in (GOOD, USER, BROKER, BAD):
        issuer.issue(name, f"/O=cluster/CN={name}")
    plan = _plan(directory, issuer, voters)
    own_broker = _own_broker(plan, issuer)
    running = Running(plan)
    broker = stand_in(plan, plan.brokers[0])
    admin = Admin(plan)
    try:
        await running.start()
        await broker.start()
        leader = (await admin.describe_quorum()).topics[0].partitions[0].leader_id
        names = await _peopled(plan, plan.controllers[leader - 1], users)
        await _serving(plan, running, own_broker, plan.controllers[leader - 1])
        yield Plane(
            plan=plan,
            running=running,
            issuer=issuer,
            leader=leader,
            ports={**_ports(plan, leader), **_broker_ports(own_broker)},
            broker=broker,
            own_broker=own_broker,
            fresh_users=itertools.cycle(names),
        )
    finally:
        await broker.close()
        await admin.close()
        await running.stop()


def _plan(directory: Path, issuer: Authority, voters: int) -> ClusterPlan:
    plan = make_plan(directory / "plane", voters=voters, with_gateways=True, session_timeout_ms=60_000)
    plan = replace(plan, brokers=plan.brokers[:1])
    for process in plan.processes:
        process.settings.update(_rights(process))
    for process in plan.quorum:
        process.settings.update(PATIENT[1])
    names = [*(each.name for each in plan.processes), CLIENTS]
    stores = {name: (issuer.issue(name, f"/O=cluster/CN={name}"), issuer.certificate) for name in names}
    plan = secured(plan, PlanTls(stores=stores))
    listeners = KafkaListeners.beside(plan, {CERTIFIED: "SSL", LOGGED_IN: "SASL_SSL"})
    for node_id, gateway in enumerate(plan.gateways, start=1):
        gateway.settings.update(listeners.settings(node_id, CERTIFIED, LOGGED_IN))
        gateway.settings.update(
            {
                "ssl.keystore.location": str(stores[gateway.name][0]),
                "ssl.principal.mapping.rules": PRINCIPAL_RULES,
                f"listener.name.{CERTIFIED.lower()}.ssl.truststore.location": str(issuer.certificate),
                f"listener.name.{CERTIFIED.lower()}.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                f"listener.name.{LOGGED_IN.lower()}.plain.sasl.jaas.config": (
                    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{VICTIM}="{PASSWORD}";'
                ),
            }
        )
    return plan


def _own_broker(plan: ClusterPlan, issuer: Authority) -> Process:
    """A broker of ours with the same listeners as the gateways, and one for gRPC."""
    name = f"broker-{OWN_BROKER}"
    store = str(issuer.issue(name, f"/O=cluster/CN={name}"))
    certified, logins, by_grpc, *ports = free_ports(5)
    of_login = f"listener.name.{LOGGED_IN.lower()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        **_rights(plan.gateways[0]),
        "super.users": f"User:{CLIENTS};User:{GOOD};User:{name}",
        "listeners": f"{OF_BROKERS}://{HOST}:{certified},{LOGGED_IN}://{HOST}:{logins}",
        "listener.security.protocol.map": f"{OF_BROKERS}:SSL,{LOGGED_IN}:SASL_SSL",
        "inter.broker.listener.name": OF_BROKERS,
        "ssl.keystore.location": store,
        "ssl.truststore.location": str(issuer.certificate),
        "ssl.principal.mapping.rules": PRINCIPAL_RULES,
        f"listener.name.{OF_BROKERS.lower()}.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{of_login}.plain.sasl.jaas.config": f'{module} required user_{VICTIM}="{PASSWORD}";',
        "grpc.listeners": f"GRPC://{HOST}:{by_grpc}",
        "grpc.security.protocol": "SSL",
        "grpc.ssl.keystore.location": store,
        "grpc.ssl.truststore.location": str(issuer.certificate),
    }
    return planned(plan, OWN_BROKER, iter(ports), settings=settings)


def _broker_ports(broker: Process) -> dict[str, int]:
    addresses = [*broker.settings["listeners"].split(","), broker.settings["grpc.listeners"]]
    return dict(zip((AT_WIRE, AT_LOGINS, AT_GRPC), (int(each.rpartition(":")[2]) for each in addresses), strict=True))


async def _serving(plan: ClusterPlan, running: Running, broker: Process, active: Process) -> None:
    """The broker of ours is started, and leads the topic of the good callers."""
    format_broker(plan, broker)
    await running.spawn(broker)
    await running.ready([broker])
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1)
    topic.assignments.add(partition_index=0, broker_ids=[OWN_BROKER])
    async with open_channel(active.address, plan.transport) as channel:
        made = await call_with_retries(ControllerStub(channel).CreateTopics, CreateTopicsRequest(topics=[topic]))
        assert ErrorCode.NONE == made.response.topics[0].error_code, made


def _rights(process: Process) -> dict[str, str]:
    """What the chart gives a process of this service."""
    found = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": f"User:{CLIENTS};User:{GOOD}"}
    if process.service != "gateway":
        found |= {"principal.process.mapping.rules": PROCESS_RULES, "ssl.principal.mapping.rules": PRINCIPAL_RULES}
    if process.service in ("quorum", "controller", "heartbeat"):
        found["principal.node.id.mapping.rules"] = NODE_RULES
    if process.service == "controller":
        found["sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        found["delegation.token.secret.key"] = "of this cluster"
    return found


def _ports(plan: ClusterPlan, leader: int) -> dict[str, int]:
    gateway = plan.gateways[leader - 1].settings["listeners"]
    at_gateway = [int(each.rpartition(":")[2]) for each in gateway.split(",")]
    return {
        "gateway": at_gateway[0],
        "logins": at_gateway[1],
        "quorum": plan.quorum[leader - 1].port,
        "controller": plan.controllers[leader - 1].port,
        "heartbeat": plan.heartbeat.port,
        "placer": plan.placer.port,
        "observer": plan.observer.port,
    }


async def _peopled(plan: ClusterPlan, active: Process, count: int) -> list[str]:
    """Rights and users are in the log, and the active controller has them; the users' names."""
    creation = CreateAclsRequest.AclCreation
    entries = [
        creation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL if kind is ResourceType.CLUSTER else PatternType.PREFIXED,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=AclPermission.ALLOW,
        )
        for principal, kind, name, operation in RIGHTS
    ]
    names = [f"good-{number}" for number in range(count)]
    upsert, salt = AlterUserScramCredentialsRequest.ScramCredentialUpsertion, secrets.token_bytes(16)
    # One salt for all, so that it is hashed here but once; a server cannot know, and hashes for each.
    salted = salted_password(SCRAM_NUMBER, PASSWORD.encode(), salt, ITERATIONS_MIN)
    upserts = [
        upsert(name=name, mechanism=SCRAM_NUMBER, iterations=ITERATIONS_MIN, salt=salt, salted_password=salted)
        for name in (VICTIM, *names)
    ]
    async with open_channel(active.address, plan.transport) as channel:
        stub = ControllerStub(channel)
        made = await call_with_retries(stub.CreateAcls, CreateAclsRequest(creations=entries))
        assert {ErrorCode.NONE} == {each.error_code for each in made.response.results}
        asked = AlterUserScramCredentialsRequest(upsertions=upserts)
        done = await call_with_retries(stub.AlterUserScramCredentials, asked)
        assert {ErrorCode.NONE} == {each.error_code for each in done.response.results}
    return names
