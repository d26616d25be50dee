"""What a quorum by TLS with an authorizer has committed: read by whom it lets read, and by nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import pytest_asyncio

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.pipeline.grpc_nodes import GrpcNodes
from quorate.pipeline.grpc_security import parse_security
from quorate.pipeline.live import QuorumReader
from quorate.pipeline.nodes import Unanswered
from tests.bench.quorum_nodes import Writer, quorum, value
from tests.network.certificates import Authority, authority
from tests.pipeline.test_live_quorum import BRIEF_S, PATIENT_S, log_of
from tests.pipeline.test_main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

RECORDS: Final = 9


@dataclass(frozen=True, slots=True)
class Secured:
    """A quorum of one node, and who issues the certificates that it takes."""

    node: Process
    issuer: Authority

    def properties(self, keystore: Path, truststore: Path | None = None) -> dict[str, str]:
        """A client's properties, under Kafka's names."""
        return {
            "security.protocol": "SSL",
            "ssl.keystore.location": str(keystore),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(truststore or self.issuer.certificate),
            "ssl.truststore.type": "PEM",
        }

    def reader(self) -> Path:
        """The key store of one who may read."""
        return self.issuer.issue("reader", "/O=cluster/CN=reader")

    async def read(self, properties: Mapping[str, str], *, retry_s: float = PATIENT_S) -> bytes:
        """The log from its start."""

        def ask() -> bytes:
            nodes = GrpcNodes((self.node.address,), parse_security(properties))
            with closing(QuorumReader(nodes, retry_s=retry_s)) as found:
                return found.records(0).records

        return await asyncio.to_thread(ask)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    issuer = authority(tmp_path_factory.mktemp("certificates"))
    common = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:reader",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=cluster$/$1/",
    }

    def certificates(plan: ClusterPlan) -> PlanTls:
        stores = (issuer.issue("node", "/O=cluster/CN=node"), issuer.certificate)
        return PlanTls(stores=dict.fromkeys([*(each.name for each in plan.processes), CLIENTS], stores))

    async with (
        quorum(voters=1, tls=certificates, settings=common) as (plan, _),
        Writer(plan.quorum, plan.transport) as writer,
    ):
        await writer.active()
        await writer.append(value(), 1, may_join=False, records=RECORDS)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        yield Secured(plan.quorum[0], issuer)


async def test_who_may_read_reads_what_is_committed(secured: Secured) -> None:
    assert log_of(secured.node) == await secured.read(secured.properties(secured.reader()))


async def test_others_are_refused(secured: Secured, tmp_path: Path) -> None:
    stranger = secured.issuer.issue("stranger", "/O=cluster/CN=stranger")
    foreign = authority(tmp_path, "foreign")
    impostor = foreign.issue("reader", "/O=cluster/CN=reader")
    where = f"^endpoint {secured.node.address}: "
    with pytest.raises(Unanswered, match=f"{where}PERMISSION_DENIED: .*User:stranger"):
        await secured.read(secured.properties(stranger), retry_s=BRIEF_S)
    with pytest.raises(Unanswered, match=f"{where}UNAVAILABLE: "):
        await secured.read(secured.properties(impostor, foreign.certificate), retry_s=BRIEF_S)
    with pytest.raises(Unanswered, match=f"{where}UNAVAILABLE: "):
        await secured.read({}, retry_s=BRIEF_S)
    with pytest.raises(ValueError, match=r"^ssl\.keystore\.location = .*reader\.pem: .* refuses it"):
        await secured.read(secured.properties(impostor), retry_s=BRIEF_S)


async def test_the_command_makes_tables_and_a_page_of_it(
    secured: Secured, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has no checkpoint yet, which is nothing wrong, and said."""
    from services.pipeline import bronze
    from services.pipeline.exits import DONE
    from services.pipeline.tables import ParquetTables

    properties = secured.properties(secured.reader())
    file, lake = tmp_path / "client.properties", str(tmp_path / "lake")
    file.write_text("".join(f"{name}={each}\n" for name, each in properties.items()))
    given = ("--endpoints", secured.node.address, "--command-config", str(file), "--report", str(tmp_path / "page"))

    assert DONE == await asyncio.to_thread(run, spark, "run", "--to", lake, *given)
    page = (tmp_path / "page").read_text()
    assert "verify: there is no checkpoint to compare the replay with" in capsys.readouterr().err
    assert "There was no checkpoint to compare the replay with." in page
    assert "run verify" not in page
    records = ParquetTables(spark, lake).read(bronze.RECORDS)
    assert records is not None
    assert RECORDS == records.where("type = 'CONFIG_RECORD'").count()


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"security.protocol": "SASL_SSL"}, "security.protocol is 'SASL_SSL'; over gRPC it is one of PLAINTEXT, SSL"),
        ({"security.protocol": "SSL"}, "ssl.keystore.location is missing; security.protocol is SSL, with certificates"),
        ({"ssl.truststore.location": "ca.pem"}, "ssl.truststore.location is 'ca.pem', and security.protocol is PLAIN"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type is JKS; only PEM is read here"),
        ({"ssl.key.password": "hunter2"}, "ssl.key.password is not read here"),
        ({"ssl.keystore.locaton": "a"}, "ssl.keystore.locaton is not read here; did you mean ssl.keystore.location?"),
    ],
)
async def test_a_property_that_cannot_be_meant_is_named(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refusal:
        parse_security(properties)
    assert "hunter2" not in str(refusal.value)
