"""Who is late: by script, by law, and against a table that is searched whole each time."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.liveness import SESSION_TIMEOUT_MS, UNKNOWN_OFFSET, Contact, Sessions

TIMEOUT = 1000


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(timeout_ms=TIMEOUT)


def late_ones(sessions: Sessions, now_ms: int) -> tuple[int, ...]:
    """All that are late, as they are found when each is fenced in its turn; nothing is changed by asking."""
    asked = deepcopy(sessions)
    found = []
    while (broker_id := asked.first_late(now_ms)) is not None:
        asked.unwatch(broker_id)
        found.append(broker_id)
    return tuple(found)


def test_a_session_lasts_nine_seconds_unless_told_otherwise() -> None:
    assert Sessions().timeout_ms == SESSION_TIMEOUT_MS == 9_000


def test_a_timeout_is_positive() -> None:
    with pytest.raises(AssertionError, match="0"):
        Sessions(timeout_ms=0)


def test_a_new_tracker_gives_everyone_a_full_session(sessions: Sessions) -> None:
    """I-64: nobody has been heard of yet, and nobody is late for it."""
    for broker_id in (1, 2, 3):
        sessions.watch(broker_id, broker_epoch=10, now_ms=5000)

    assert late_ones(sessions, 5000 + TIMEOUT) == ()
    assert late_ones(sessions, 5000 + TIMEOUT + 1) == (1, 2, 3)


def test_a_silent_broker_is_late_when_its_session_is_over_and_not_before(sessions: Sessions) -> None:
    """I-65."""
    sessions.watch(1, broker_epoch=10, now_ms=0)
    sessions.touch(1, broker_epoch=10, metadata_offset=12, now_ms=700)

    assert sessions.first_late(700 + TIMEOUT) is None
    assert sessions.first_late(700 + TIMEOUT + 1) == 1


def test_the_late_are_named_the_most_silent_first(sessions: Sessions) -> None:
    for broker_id in (1, 2, 3, 4):
        sessions.watch(broker_id, broker_epoch=10, now_ms=0)
    for broker_id, at_ms in ((1, 300), (2, 100), (3, 200), (4, 900)):
        sessions.touch(broker_id, broker_epoch=10, metadata_offset=1, now_ms=at_ms)

    assert late_ones(sessions, 1500) == (2, 3, 1)
    assert late_ones(sessions, 1500) == (2, 3, 1)
    assert sessions.first_late(1500) == 2


def test_a_late_broker_stays_late_until_it_is_fenced_or_heard_of(sessions: Sessions) -> None:
    sessions.watch(1, broker_epoch=10, now_ms=0)
    sessions.watch(2, broker_epoch=11, now_ms=0)

    assert sessions.first_late(1001) == 1

    sessions.touch(1, broker_epoch=10, metadata_offset=1, now_ms=1001)
    assert sessions.first_late(1001) == 2

    sessions.unwatch(2)
    assert sessions.first_late(1001) is None


def test_a_fenced_broker_may_be_silent_and_has_a_full_session_once_unfenced(sessions: Sessions) -> None:
    sessions.watch(1, broker_epoch=10, now_ms=0)
    sessions.unwatch(1)

    assert late_ones(sessions, 50_000) == ()

    sessions.watch(1, broker_epoch=10, now_ms=60_000)

    assert sessions.watched == {1}
    assert late_ones(sessions, 60_000 + TIMEOUT) == ()
    assert late_ones(sessions, 60_000 + TIMEOUT + 1) == (1,)


def test_a_heartbeat_of_an_epoch_that_is_over_changes_nothing(sessions: Sessions) -> None:
    """I-68: the old incarnation's last heartbeat does not keep the new one's session, or its offset."""
    sessions.touch(1, broker_epoch=20, metadata_offset=25, now_ms=100)

    sessions.touch(1, broker_epoch=10, metadata_offset=99, now_ms=500)

    assert sessions.contacts == {1: Contact(broker_epoch=20, at_ms=100, metadata_offset=25)}


def test_a_broker_that_registers_anew_tells_its_offset_anew(sessions: Sessions) -> None:
    """Its disk may be empty: what its former incarnation had applied says nothing."""
    sessions.touch(1, broker_epoch=10, metadata_offset=99, now_ms=100)
    sessions.touch(1, broker_epoch=20, metadata_offset=3, now_ms=200)

    assert sessions.contacts[1].metadata_offset == 3


def test_nothing_known_ever_falls(sessions: Sessions) -> None:
    sessions.touch(1, broker_epoch=10, metadata_offset=5, now_ms=300)
    sessions.touch(1, broker_epoch=10, metadata_offset=4, now_ms=200)

    assert sessions.contacts == {1: Contact(broker_epoch=10, at_ms=300, metadata_offset=5)}


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "now_ms", "has"),
    [
        (1, 10, 100 + TIMEOUT, True),
        (1, 10, 100 + TIMEOUT + 1, False),
        (1, 9, 100, False),
        (1, 11, 100, False),
        (2, 10, 100, False),
        (3, 30, 50 + TIMEOUT, True),
        (3, 30, 50 + TIMEOUT + 1, False),
    ],
    ids=["on time", "over", "older epoch", "newer epoch", "unknown", "presumed", "presumed, over"],
)
def test_has_a_session(sessions: Sessions, broker_id: int, broker_epoch: int, now_ms: int, has: bool) -> None:
    sessions.touch(1, broker_epoch=10, metadata_offset=1, now_ms=100)
    sessions.presume(3, broker_epoch=30, now_ms=50)

    assert has is sessions.has_session(broker_id, broker_epoch=broker_epoch, now_ms=now_ms)


def test_the_lowest_offset_is_that_of_the_active_brokers_in_their_present_epochs(sessions: Sessions) -> None:
    sessions.touch(1, broker_epoch=10, metadata_offset=50, now_ms=0)
    sessions.touch(2, broker_epoch=11, metadata_offset=40, now_ms=0)
    sessions.touch(3, broker_epoch=12, metadata_offset=30, now_ms=0)
    sessions.presume(4, broker_epoch=13, now_ms=0)

    assert sessions.lowest_metadata_offset([]) is None
    assert sessions.lowest_metadata_offset([(1, 10), (2, 11)]) == 40
    assert sessions.lowest_metadata_offset([(1, 10), (3, 99)]) == UNKNOWN_OFFSET
    assert sessions.lowest_metadata_offset([(1, 10), (4, 13)]) == UNKNOWN_OFFSET


def test_the_offset_of_a_shutdown_is_remembered_once_an_epoch(sessions: Sessions) -> None:
    sessions.begin_shutdown(1, broker_epoch=10, offset=50)
    sessions.begin_shutdown(1, broker_epoch=10, offset=60)

    assert sessions.shutdown_offset(1, broker_epoch=10) == 50
    assert sessions.shutdown_offset(1, broker_epoch=11) is None
    assert sessions.shutdown_offset(2, broker_epoch=10) is None

    sessions.begin_shutdown(1, broker_epoch=11, offset=70)
    sessions.begin_shutdown(1, broker_epoch=10, offset=80)

    assert sessions.shutdown_offset(1, broker_epoch=11) == 70


def test_forgets_a_broker_that_is_no_longer_registered(sessions: Sessions) -> None:
    sessions.watch(1, broker_epoch=10, now_ms=0)
    sessions.touch(1, broker_epoch=10, metadata_offset=5, now_ms=0)
    sessions.begin_shutdown(1, broker_epoch=10, offset=50)
    assert sessions.known == {1}

    sessions.forget(1)
    sessions.forget(2)

    assert sessions.contacts == {}
    assert sessions.watched == sessions.known == frozenset()
    assert late_ones(sessions, 50_000) == ()
    assert not sessions.has_session(1, broker_epoch=10, now_ms=0)
    assert sessions.shutdown_offset(1, broker_epoch=10) is None


def test_of_a_fenced_broker_the_last_contact_and_the_shutdown_are_kept(sessions: Sessions) -> None:
    for broker_id in (1, 2, 3):
        sessions.watch(broker_id, broker_epoch=10, now_ms=0)
    sessions.touch(2, broker_epoch=10, metadata_offset=5, now_ms=0)
    sessions.end(3)
    sessions.begin_shutdown(3, broker_epoch=10, offset=50)
    for broker_id in (1, 2):
        sessions.unwatch(broker_id)

    assert sessions.watched == frozenset()
    assert sessions.known == {1, 2, 3}


class AgainstSearch(RuleBasedStateMachine):
    """Sessions against a table of last contacts that is searched whole. I-64 and I-65."""

    BROKERS = st.integers(1, 5)

    def __init__(self) -> None:
        super().__init__()
        self.sessions = Sessions(timeout_ms=10)
        self.now_ms = 0
        self.epochs = dict.fromkeys(range(1, 6), 1)
        self.seen: dict[int, int] = {}
        self.watched: set[int] = set()

    def saw(self, broker_id: int, at_ms: int) -> None:
        self.seen[broker_id] = max(at_ms, self.seen.get(broker_id, at_ms))

    @rule(ms=st.integers(0, 12))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(broker_id=BROKERS)
    def heartbeat(self, broker_id: int) -> None:
        self.sessions.touch(
            broker_id, broker_epoch=self.epochs[broker_id], metadata_offset=self.now_ms, now_ms=self.now_ms
        )
        self.saw(broker_id, self.now_ms)

    @rule(broker_id=BROKERS)
    def heartbeat_of_an_epoch_that_is_over(self, broker_id: int) -> None:
        if broker_id in self.sessions.contacts:
            self.sessions.touch(broker_id, broker_epoch=0, metadata_offset=0, now_ms=self.now_ms)

    @rule(broker_id=BROKERS)
    def register(self, broker_id: int) -> None:
        self.epochs[broker_id] += 1
        self.sessions.presume(broker_id, broker_epoch=self.epochs[broker_id], now_ms=self.now_ms)
        self.saw(broker_id, self.now_ms)

    @rule(broker_id=BROKERS)
    def unfence(self, broker_id: int) -> None:
        self.sessions.watch(broker_id, broker_epoch=self.epochs[broker_id], now_ms=self.now_ms)
        self.watched.add(broker_id)
        self.saw(broker_id, self.now_ms)

    @rule(broker_id=BROKERS)
    def fence(self, broker_id: int) -> None:
        self.sessions.unwatch(broker_id)
        self.watched.discard(broker_id)

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self.sessions.forget(broker_id)
        self.watched.discard(broker_id)
        self.seen.pop(broker_id, None)

    @rule()
    def fence_whoever_is_late(self) -> None:
        while (broker_id := self.sessions.first_late(self.now_ms)) is not None:
            assert self.now_ms - self.seen[broker_id] > 10
            self.fence(broker_id)

    @invariant()
    def the_late_are_those_that_a_search_finds(self) -> None:
        late = sorted((self.seen[id], id) for id in self.watched if self.now_ms - self.seen[id] > 10)

        assert late_ones(self.sessions, self.now_ms) == tuple(id for _, id in late)
        assert self.sessions.first_late(self.now_ms) == (late[0][1] if late else None)
        assert self.sessions.watched == self.watched


TestAgainstSearch = AgainstSearch.TestCase
TestAgainstSearch.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
