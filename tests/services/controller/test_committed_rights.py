"""What a caller may do rests on what is committed: what may yet be undone grants nothing, and takes nothing away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft import Message
from quorate.authorizer import StandardAuthorizer
from quorate.controller.engine.committed import Committed
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.nouns import Principal
from quorate.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveAccessControlEntryRecord,
)
from services.controller.api import Api
from services.controller.authorizing import Authorizing, Caller
from services.controller.handlers import APIS
from tests.controller.clusters import uuid
from tests.services.engines import active, commit, standing_by, write

ALICE = Caller(Principal("User", "alice"), "10.1.2.3")
GRANT = AccessControlEntryRecord(
    uuid(1),
    ResourceType.CLUSTER,
    "kafka-cluster",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.ALTER,
    AclPermission.ALLOW,
)
REMOVAL = RemoveAccessControlEntryRecord(uuid(1))
AT_THE_QUORUM = APIS["AddRaftVoter"]
"""Its answer waits for no commit of the controller's: only its right stands between a caller and the quorum."""


def may(engine: Engine) -> bool:
    return is_let_in(Authorizing(engine, StandardAuthorizer()))


def refusal(engine: Engine, authorizer: StandardAuthorizer | None = None, api: Api = AT_THE_QUORUM) -> dict[str, str]:
    """What a refusal says beside the words."""
    with pytest.raises(ApiError) as refused:
        Authorizing(engine, authorizer).check(api, ALICE)
    return refused.value.metadata


def is_let_in(authorizing: Authorizing) -> bool:
    try:
        authorizing.check(AT_THE_QUORUM, ALICE)
    except ApiError as refusal:
        assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == refusal.code
        return False
    return True


def test_a_grant_opens_nothing_before_it_is_committed() -> None:
    engine = active()
    write(engine, GRANT)
    assert GRANT == engine.state.acls.get(uuid(1))

    before = may(engine)
    engine.note_appended(engine.next_offset)  # on the leader's disk alone
    taken = may(engine)
    engine.commit(engine.next_offset)

    assert (False, False, True) == (before, taken, may(engine))


def test_a_grant_that_is_lost_with_the_leadership_has_opened_nothing() -> None:
    engine = active()
    write(engine, GRANT)
    before = may(engine)
    engine.renounce()

    assert (False, False) == (before, may(engine))
    assert 0 == len(engine.state.acls)


def test_a_removal_takes_nothing_away_before_it_is_committed() -> None:
    engine = active(GRANT)
    write(engine, REMOVAL)
    before = may(engine)
    commit(engine)

    assert (True, False) == (before, may(engine))


def test_what_lies_after_the_last_commit_is_left_out_and_no_more() -> None:
    engine = active()
    write(engine, GRANT)
    granted = engine.next_offset
    write(engine, NoOpRecord())
    write(engine, REMOVAL)

    told = [may(engine)]
    for end in (granted, granted + 1, granted + 2):
        commit(engine, end)
        told.append(may(engine))

    assert [False, True, True, False] == told


def test_the_same_door_sees_every_change() -> None:
    """It remembers what it found, and a state may be back where it was, and be another."""
    engine = active()
    authorizing = Authorizing(engine, StandardAuthorizer())
    begin = engine.next_offset

    write(engine, NoOpRecord())
    told = [is_let_in(authorizing)]
    engine.renounce()
    engine.replay([GRANT], base_offset=begin, end_offset=begin + 1)
    told.append(is_let_in(authorizing))
    engine.claim(2, engine.next_offset)
    write(engine, REMOVAL)
    told.append(is_let_in(authorizing))
    engine.renounce()
    engine.claim(3, engine.next_offset)
    write(engine, NoOpRecord())
    told.append(is_let_in(authorizing))
    write(engine, REMOVAL)
    commit(engine)

    assert [False, True, True, True, False] == [*told, is_let_in(authorizing)]


def test_until_all_that_is_committed_has_come_only_super_users_are_let_in() -> None:
    """A denial may be in the part that is still to come. Kafka's is LOADING up to the high watermark (KIP-801)."""
    engine = Engine(ClusterState())
    engine.begin_load()
    engine.load_more([FeatureLevelRecord(METADATA_VERSION, LATEST), GRANT], end_offset=7)
    admin = StandardAuthorizer(super_users=frozenset({"User:alice"}))
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        Authorizing(engine, StandardAuthorizer()).check(AT_THE_QUORUM, ALICE)
    assert is_let_in(Authorizing(engine, admin))
    engine.end_load(end_offset=7)
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):  # of the records after it
        Authorizing(engine, StandardAuthorizer()).check(AT_THE_QUORUM, ALICE)
    engine.is_loaded = True

    assert may(engine)


def test_before_anything_is_replayed_nothing_is_open_to_everyone() -> None:
    kind = StandardAuthorizer(allow_everyone_if_no_acl_found=True)
    others = StandardAuthorizer(super_users=frozenset({"User:alice"}))

    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        Authorizing(Engine(ClusterState()), kind).check(AT_THE_QUORUM, ALICE)
    assert is_let_in(Authorizing(active(), kind))
    assert is_let_in(Authorizing(Engine(ClusterState()), others))


OPEN = (BeginTransactionRecord("metadata"), GRANT)


@pytest.mark.parametrize(
    ("records", "allowed"),
    [
        (OPEN, False),
        ((*OPEN, EndTransactionRecord()), True),
        ((*OPEN, AbortTransactionRecord("failover")), False),
        ((GRANT, BeginTransactionRecord("metadata"), REMOVAL), True),
        ((GRANT, BeginTransactionRecord("metadata"), REMOVAL, EndTransactionRecord()), False),
    ],
)
@pytest.mark.parametrize("replayed", [False, True])
def test_a_transaction_counts_at_its_end(records: Sequence[Message], allowed: bool, replayed: bool) -> None:
    """Committed, it may still be aborted. KIP-868."""
    engine = standing_by(*records) if replayed else active()
    if not replayed:
        for record in records:
            write(engine, record)
        commit(engine)

    assert allowed == may(engine)


def test_the_present_is_read_unless_something_of_it_is_in_flight() -> None:
    """So a decision costs no more than it did, most of the time."""

    def is_present() -> bool:
        return acls.now() is engine.state.acls

    engine = active(GRANT)
    acls = Committed(engine, engine.state.acls)
    told = [is_present()]
    for record in (NoOpRecord(), REMOVAL):
        write(engine, record)
        told.append(is_present())
    commit(engine)

    assert [True, True, False, True] == [*told, is_present()]


def test_a_refusal_says_which_state_it_rests_on() -> None:
    """As one by a command does: of the leader's epoch, and below that offset everything counts."""
    engine = active(NoOpRecord())
    committed = engine.next_offset
    write(engine, GRANT)
    before = refusal(engine, StandardAuthorizer())
    commit(engine)
    write(engine, REMOVAL)
    commit(engine)

    assert {"leader_epoch": "1", "offset": str(committed)} == before
    assert {"leader_epoch": "1", "offset": str(committed + 2)} == refusal(engine, StandardAuthorizer())
    assert {"leader_epoch": "1", "offset": str(committed + 2)} == refusal(engine, None, APIS["DescribeAcls"])


def test_a_refusal_within_a_transaction_rests_on_what_was_before() -> None:
    engine = active(NoOpRecord())
    start = engine.next_offset
    write(engine, BeginTransactionRecord("many"), GRANT)
    commit(engine)
    within = refusal(engine, StandardAuthorizer())
    write(engine, AbortTransactionRecord("none of it"))
    commit(engine)

    assert {"leader_epoch": "1", "offset": str(start)} == within
    assert {"leader_epoch": "1", "offset": str(engine.next_offset)} == refusal(engine, StandardAuthorizer())


def test_who_is_standing_by_speaks_for_no_state() -> None:
    assert {} == refusal(standing_by(), StandardAuthorizer())
