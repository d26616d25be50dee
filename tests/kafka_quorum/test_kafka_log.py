"""The log of a Kafka cluster, from controllers that answer by a script: read on and on, or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from kraft import Message, Uuid
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchRequest
from quorate.errors import ApiError, ErrorCode
from quorate.kafka_quorum.log import TOLD_EVERY_MS, KafkaLog
from quorate.network.client_config import Endpoint as Address
from quorate.network.listening import ConnectedClient
from quorate.network.metadata_fetch import UNNAMED
from quorate.nouns import Offset, ReplicaKey
from quorate.protocol import Request, api_of
from quorate.runtime.following.log_reader import Event, LoadedSnapshot
from quorate.runtime.settings.setting_types import Endpoint
from quorate.tls.listener_tls import listener_tls
from quorate.tls.ssl_principals import SslPrincipals, parse_rules
from tests.network.certificates import authority
from tests.network.test_observer import CLUSTER_ID, Partition, Script, answer, batch, elsewhere, listening
from tests.protocol.pair import SERVED
from tests.services.clocks import MovedClock
from tests.services.scripted import WITHIN_S

FETCH = api_of(FetchRequest).key
DESCRIBE_CLUSTER = api_of(DescribeClusterRequest).key
FAILURE = "a controller does not give its log"


class Broker(Script):
    """It answers DescribeCluster as a Kafka broker does, which is not a controller."""

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        if isinstance(request.message, DescribeClusterRequest):
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message="it was sent to a broker"
            )
        return await super().__call__(request, client)


def log_at(
    addresses: Sequence[Address],
    clock: MovedClock | None = None,
    cluster_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    replica: ReplicaKey = UNNAMED,
) -> KafkaLog:
    controllers = [Endpoint(*each) for each in addresses]
    return KafkaLog(controllers, properties or {}, clock or MovedClock(), cluster_id=cluster_id, replica=replica)


async def read(log: KafkaLog, *, until: Offset) -> list[Event]:
    """The events of a reader, up to an offset."""
    found: list[Event] = []
    async with asyncio.timeout(WITHIN_S), aclosing(log.events()) as events:
        async for event in events:
            found.append(event)
            if reached(event) >= until:
                break
    return found


def reached(event: Event) -> Offset:
    return event.end_offset if isinstance(event, LoadedSnapshot) else event.header.next_offset


async def test_it_reads_on_past_the_first_high_watermark_from_leader_to_leader_and_through_a_checkpoint() -> None:
    second = Partition.LeaderIdAndEpoch(2, 7)
    leader = Script(
        answer(batch(1, epoch=7), end=2, current_leader=second),
        answer(end=42, snapshot_id=Partition.SnapshotId(40, 7), current_leader=second),
        answer(batch(40, 2, epoch=7), end=42, current_leader=second),
        checkpoint=batch(0, 40),
    )
    async with listening(Script(answer(batch(0), end=1), elsewhere), leader) as addresses:
        log = log_at(addresses[:1])
        before = (log.cluster_id, log.leader_id, log.high_watermark)
        events = await read(log, until=42)

    assert (None, -1, 0) == before
    assert [1, 2, 40, 42] == [reached(event) for event in events]
    assert [True] == [event.data == leader.checkpoint for event in events if isinstance(event, LoadedSnapshot)]
    assert (CLUSTER_ID, 2, 42) == (log.cluster_id, log.leader_id, log.high_watermark)


async def test_where_the_leader_is_is_known_from_its_answers_and_forgotten_with_them() -> None:
    told: list[Address | None] = []
    asked_again = asyncio.Event()
    nobody = answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=Partition.LeaderIdAndEpoch(-1, 8))

    def still_nobody(_: FetchRequest) -> Message:
        asked_again.set()
        return nobody

    ended = Script(answer(batch(0), end=1), answer(batch(1), end=2), answer(whole=ErrorCode.UNKNOWN_SERVER_ERROR))
    async with listening(Script(elsewhere, nobody, still_nobody), ended) as addresses:
        log = log_at(addresses[:1])
        told.append(log.leader_at)
        async with asyncio.timeout(WITHIN_S), aclosing(log.events()) as events:
            for _ in range(2):
                await anext(events)
                told.append(log.leader_at)
            reading = asyncio.ensure_future(anext(events))
            await asked_again.wait()
            told.append(log.leader_at)
            reading.cancel()
            await asyncio.wait([reading])

    assert [None, addresses[1], addresses[1], None] == told


async def test_who_takes_part_is_listed_under_its_id_and_directory() -> None:
    named = ReplicaKey(101, Uuid(bytes(range(16))))
    leader = Script(answer(end=9, snapshot_id=Partition.SnapshotId(9, 1)), checkpoint=batch(0, 9))
    async with listening(leader) as addresses:
        await read(log_at(addresses, replica=named), until=9)
        await read(log_at(addresses), until=9)

    asked = [
        (each.replica_state.replica_id, each.topics[0].partitions[0].replica_directory_id) for each in leader.fetches
    ]
    assert [(named.id, named.directory_id), (-1, Uuid(bytes(16)))] == asked


def versions(**newest: int) -> Mapping[int, range]:
    """What a node serves that has no newer version of these APIs, as an older Kafka release."""
    keys = {"DescribeCluster": DESCRIBE_CLUSTER, "Fetch": FETCH}
    return SERVED | {keys[name]: range(version + 1) for name, version in newest.items()}


@pytest.mark.parametrize(
    ("script", "served", "cluster_id", "says"),
    [
        (
            Script(answer(whole=ErrorCode.INCONSISTENT_CLUSTER_ID)),
            SERVED,
            "dGhpcyBpcyBhbm90aGVyIQ",
            "INCONSISTENT_CLUSTER_ID: {}: Fetch: it is of another cluster than dGhpcyBpcyBhbm90aGVyIQ",
        ),
        (Broker(), SERVED, None, "MISMATCHED_ENDPOINT_TYPE: {}: it was sent to a broker"),
        (
            Script(answer(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
            SERVED,
            CLUSTER_ID,
            "CLUSTER_AUTHORIZATION_FAILED: {}: Fetch requires CLUSTER_ACTION on the cluster",
        ),
        (
            Script(),
            {key: each for key, each in SERVED.items() if key != DESCRIBE_CLUSTER},
            None,
            "UNSUPPORTED_VERSION: {}: the node does not support DescribeCluster (key 60)",
        ),
        (Script(), versions(DescribeCluster=0), None, "UNSUPPORTED_VERSION: {}: "),
        (
            Script(),
            versions(Fetch=12),
            CLUSTER_ID,
            "UNSUPPORTED_VERSION: {}: the node supports Fetch up to version 12; version 13 is needed, for topic ids",
        ),
    ],
    ids=["foreign", "broker", "entitled", "without DescribeCluster", "DescribeCluster 0", "Fetch 12"],
)
async def test_a_refusal_that_no_try_heals_ends_a_reading_that_has_not_begun(
    script: Script, served: Mapping[int, range], cluster_id: str | None, says: str
) -> None:
    async with listening(script, served=served) as addresses:
        with pytest.raises(ApiError) as refusal:
            await read(log_at(addresses, cluster_id=cluster_id), until=1)
        ((host, port),) = addresses

    assert says.format(f"{host}:{port}") in str(refusal.value)


async def test_a_reading_that_has_begun_goes_on_after_such_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    refused = answer(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    async with listening(Script(answer(batch(0), end=1), refused, answer(batch(1), end=2))) as addresses:
        events = await read(log_at(addresses), until=2)
    told = [record.getMessage() for record in caplog.records if record.name == KafkaLog.__module__]

    assert [1, 2] == [reached(event) for event in events]
    assert [FAILURE, "the log is read again"] == told


async def test_a_failure_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock, told = MovedClock(), []

    def failures() -> int:
        return [record.getMessage() for record in caplog.records].count(FAILURE)

    def refuse(_: FetchRequest) -> Message:
        told.append(failures())
        if len(told) == 3:
            clock.now_ms = TOLD_EVERY_MS
        return answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER) if len(told) < 5 else answer(batch(0), end=1)

    async with listening(Script(refuse)) as addresses:
        await read(log_at(addresses, clock), until=1)

    assert [0, 1, 1, 2, 2] == told
    assert 2 == failures()


class WhoAsks(Script):
    """It notes the principal of each request."""

    def __init__(self, *answers: Message | Callable[[FetchRequest], Message]) -> None:
        super().__init__(*answers)
        self.principals: list[str] = []

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        if isinstance(request.message, FetchRequest):
            self.principals.append(request.principal.name)
        return await super().__call__(request, client)


async def test_a_new_certificate_is_for_the_next_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    issuer, keystore = authority(tmp_path), tmp_path / "client.pem"
    issuer.issue("first", "/CN=first").rename(keystore)
    second, unfit = issuer.issue("second", "/CN=second"), tmp_path / "unfit.pem"
    unfit.write_text("a letter to a friend")

    def replaced_by(file: Path) -> Callable[[FetchRequest], Message]:
        """It ends the connection once this is the client's key store."""

        def said(_: FetchRequest) -> Message:
            file.rename(keystore)
            return answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)

        return said

    controller = WhoAsks(answer(batch(0), end=1), replaced_by(unfit), replaced_by(second), answer(batch(1), end=2))
    tls = listener_tls(
        keystore=issuer.issue("server", "/CN=localhost"), truststore=issuer.certificate, client_auth="required"
    )
    properties = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(issuer.certificate),
        "ssl.truststore.type": "PEM",
    }
    by_name = SslPrincipals(parse_rules("RULE:^CN=(.*)$/$1/"))
    async with listening(controller, tls=lambda: tls, certified=by_name) as addresses:
        await read(log_at(addresses, properties=properties), until=2)
    told = [record.getMessage() for record in caplog.records if record.name == KafkaLog.__module__]

    assert ["first", "first", "first", "second"] == controller.principals
    assert 1 == told.count("the new certificate is not taken, and the old one stays")
    assert 1 == told.count("took a new certificate")
