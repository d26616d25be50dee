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
from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process, make_plan, secured
from deploy.local.ports import HOST
from deploy.local.processes import Running
from kraft.api.alter_user_scram_credentials_pb2 import AlterUserScramCredentialsRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.authorizer import CLUSTER_NAME, STANDARD_AUTHORIZER
from quorate.controller.access.scram_keys import ITERATIONS_MIN, salted_password
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.runtime.client import open_channel
from tests.bench.bad_neighbours import BAD, BROKER, USER, Doors
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
        return [*own, self.plan.heartbeat, self.plan.placer, self.plan.observer]

    @property
    def pids(self) -> dict[str, int]:
        """Of the same, by name."""
        return {each.name: self.running.pid(each) for each in self.processes}

    @property
    def limits_mib(self) -> dict[str, int]:
        """The chart's memory limits of the same."""
        return {each.name: MIB_MAX[each.service] for each in self.processes}


@asynccontextmanager
async def like_the_charts(directory: Path, *, voters: int, users: int = USERS) -> AsyncIterator[Plane]:
    """Started, with users and rights; everything is ended at the end."""
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    issuer = authority(directory)
    for name in (GOOD, USER, BROKER, BAD):
        issuer.issue(name, f"/O=cluster/CN={name}")
    plan = _plan(directory, issuer, voters)
    running = Running(plan)
    broker = stand_in(plan, plan.brokers[0])
    admin = Admin(plan)
    try:
        await running.start()
        await broker.start()
        leader = (await admin.describe_quorum()).topics[0].partitions[0].leader_id
        names = await _peopled(plan, plan.controllers[leader - 1], users)
        yield Plane(
            plan=plan,
            running=running,
            issuer=issuer,
            leader=leader,
            ports=_ports(plan, leader),
            broker=broker,
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
