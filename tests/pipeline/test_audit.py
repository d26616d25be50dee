"""The audit timeline of configs and of what is kept whole: who may what, credentials, tokens …, and never a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy.spark import HOW_TO_GET, is_installed
from kraft import Message, Uuid
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.configs import BROKER
from quorate.nouns import uuid_text
from quorate.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from quorate.sql.nouns import NOUNS
from tests.pipeline.hand_made import Story, config, controller, silver_tables, uuid_of
from tests.pipeline.logs import NOON_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

CLUSTER = "kept"
SALT, STORED, SERVER = b"salt of alice", b"stored key of alice", b"server key of alice"
HOUR_MS = 3_600_000


def acl(
    number: int,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermission = AclPermission.ALLOW,
) -> AccessControlEntryRecord:
    """An entry with this number as its id."""
    return AccessControlEntryRecord(
        Uuid(number.to_bytes(16, "big")), kind, name, pattern, principal, host, operation, permission
    )


def no_acl(number: int) -> Message:
    return RemoveAccessControlEntryRecord(Uuid(number.to_bytes(16, "big")))


def quota(key: str, value: float, *entity: tuple[str, str | None], remove: bool = False) -> Message:
    parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
    return ClientQuotaRecord(parts, key, value, remove)


def scram(user: str, mechanism: int, iterations: int) -> Message:
    return UserScramCredentialRecord(user, mechanism, SALT, STORED, SERVER, iterations)


def token(expires_ms: int) -> Message:
    return DelegationTokenRecord(
        "User:alice", "User:admin", ("User:bob",), NOON_MS, NOON_MS + 9 * HOUR_MS, expires_ms, "t1"
    )


def plugin(value: str | None) -> Message:
    return ConfigRecord(BROKER, "1", "my.plugin.api.key", value)


TABLE: list[tuple[Message, str]] = [
    (acl(1, "orders"), "ACL of topic orders is added: User:alice may READ from any host"),
    (
        acl(
            2,
            "pay",
            pattern=PatternType.PREFIXED,
            operation=AclOperation.WRITE,
            permission=AclPermission.DENY,
            host="10.0.0.7",
        ),
        "ACL of topic prefix pay is added: User:alice may not WRITE from 10.0.0.7",
    ),
    (
        acl(3, "*", kind=ResourceType.GROUP, principal="User:*", operation=AclOperation.DESCRIBE),
        "ACL of every group is added: User:* may DESCRIBE from any host",
    ),
    (
        acl(4, "kafka-cluster", kind=ResourceType.CLUSTER, operation=AclOperation.IDEMPOTENT_WRITE),
        "ACL of cluster kafka-cluster is added: User:alice may IDEMPOTENT_WRITE from any host",
    ),
    (
        acl(5, "tx", kind=ResourceType.TRANSACTIONAL_ID, operation=AclOperation.ALL),
        "ACL of transactional id tx is added: User:alice may ALL from any host",
    ),
    (no_acl(2), "ACL of topic prefix pay is removed: User:alice may not WRITE from 10.0.0.7"),
    (no_acl(1), "ACL of topic orders is removed: User:alice may READ from any host"),
    (
        quota("consumer_byte_rate", 1024.0, ("user", "alice"), ("client-id", "app")),
        "quota of client-id app, user alice: consumer_byte_rate not set → 1024",
    ),
    (
        quota("consumer_byte_rate", 0.5, ("user", "alice"), ("client-id", "app")),
        "quota of client-id app, user alice: consumer_byte_rate 1024 → 0.5",
    ),
    (
        quota("request_percentage", 2e7, ("user", None)),
        "quota of user (default): request_percentage not set → 20000000",
    ),
    (
        quota("consumer_byte_rate", 0.0, ("user", "alice"), ("client-id", "app"), remove=True),
        "quota of client-id app, user alice: consumer_byte_rate 0.5 → not set",
    ),
    (
        quota("consumer_byte_rate", 7.0, ("client-id", "app"), ("user", "alice")),
        "quota of client-id app, user alice: consumer_byte_rate not set → 7",
    ),
    (scram("alice", 1, 4096), "SCRAM-SHA-256 credential of user alice is set, with 4096 iterations"),
    (scram("alice", 2, 8192), "SCRAM-SHA-512 credential of user alice is set, with 8192 iterations"),
    (scram("alice", 1, 4096), "SCRAM-SHA-256 credential of user alice is replaced, with 4096 iterations"),
    (scram("alice", 1, 9000), "SCRAM-SHA-256 credential of user alice is replaced: 4096 iterations → 9000 iterations"),
    (RemoveUserScramCredentialRecord("alice", 1), "SCRAM-SHA-256 credential of user alice is removed"),
    (token(NOON_MS + HOUR_MS), "delegation token t1 of User:alice is issued, until 2026-11-21 13:00:00"),
    (
        token(NOON_MS + 2 * HOUR_MS),
        "delegation token t1 of User:alice is renewed: until 2026-11-21 13:00:00 → 2026-11-21 14:00:00",
    ),
    (
        RemoveDelegationTokenRecord("t1"),
        "delegation token t1 of User:alice is removed; it was good until 2026-11-21 14:00:00",
    ),
    (ProducerIdsRecord(1, 5, 1000), "producer ids the next block begins at 1000"),
    (ProducerIdsRecord(2, 6, 2000), "producer ids the next block begins at 1000 → 2000"),
    (controller(7), f"controller 7 registers as incarnation {uuid_text(uuid_of('controller 7 first'))}"),
    (UnregisterControllerRecord(7), "controller 7 is unregistered"),
    (plugin("hush 1"), "broker 1 my.plugin.api.key: not set → (redacted)"),
    (plugin("hush 2"), "broker 1 my.plugin.api.key: (redacted) → (redacted)"),
    (plugin(None), "broker 1 my.plugin.api.key: (redacted) → not set"),
    (config(None, "log.retention.ms", "7"), "broker (default) log.retention.ms: not set → 7"),
    (config(None, "log.retention.ms", "8"), "broker (default) log.retention.ms: 7 → 8"),
    (config(None, "retention.ms", "hush 3"), "broker (default) retention.ms: not set → (redacted)"),
]
"""What is written, and the sentence about it; each in a batch of its own, from offset 0 on."""


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The sentences about the table's records, in order."""
    from services.pipeline.gold.audit import audit_timeline
    from services.pipeline.tables import frame_of

    story = Story(TABLE[0][0])
    for record, _ in TABLE[1:]:
        story.after(minutes=1).say(record)
    rows = audit_timeline(silver_tables(spark, tmp_path_factory.mktemp("audit"), {CLUSTER: story}))
    mine = [row for row in frame_of(rows).collect() if row["cluster_id"] == CLUSTER]
    return [row["sentence"] for row in sorted(mine, key=lambda row: row["offset"])]


def test_each_change_is_a_sentence_of_what_was_and_what_is(told: list[str]) -> None:
    assert [sentence for _, sentence in TABLE] == told


def test_no_sentence_has_a_secret(told: list[str]) -> None:
    import base64

    secrets = [form for key in (SALT, STORED, SERVER) for form in (key.decode(), base64.b64encode(key).decode())]

    assert [] == [(secret, sentence) for secret in (*secrets, "hush") for sentence in told if secret in sentence]


def test_every_kind_that_silver_keeps_is_worded_or_has_its_reason() -> None:
    from services.pipeline.gold.audit_sentences import QUIET, TABLES
    from services.pipeline.silver.image import UNKNOWN_KIND
    from services.pipeline.silver.kept import KINDS

    assert {*(kind.name for kind in KINDS), "topic", "config", "broker", UNKNOWN_KIND} == {*QUIET, *TABLES}
    assert {*NOUNS} == {*TABLES.values(), "partitions", "voters"}
