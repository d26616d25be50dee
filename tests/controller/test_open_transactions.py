"""What a new active controller does about a transaction that the last one left open. KIP-868, I-43."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft import Message
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Append, Engine
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.metadata.transactions import Transaction
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    TopicRecord,
    decode_record,
)
from tests.metadata.histories import STEPS, begin, end, write

SETTINGS = ControllerSettings(static_configs={"min.insync.replicas": "2"})
LEVEL = FeatureLevelRecord(METADATA_VERSION, 33)
ELR = FeatureLevelRecord("eligible.leader.replicas.version", 1)
MIN_ISR = ConfigRecord(4, "", "min.insync.replicas", "2")
BEGIN, END, ABORT = BeginTransactionRecord("Bootstrap records"), EndTransactionRecord(), AbortTransactionRecord("why")
CHORE = BeginTransactionRecord("a chore")
ORDERS, PAYMENTS = TopicRecord("orders", b"\x01" * 16), TopicRecord("payments", b"\x02" * 16)  # type: ignore[arg-type]
WHOLE = (BEGIN, LEVEL, ELR, MIN_ISR, END)


class Log:
    """What the quorum has, and one controller after the other over it."""

    def __init__(self, *records: Message) -> None:
        self.records = list(records)

    def activate(self, *, is_committed: bool = True) -> Engine:
        """A controller replays everything and becomes active; what it writes first is taken."""
        engine = Engine(ClusterState())
        engine.replay(self.records, base_offset=0, end_offset=len(self.records))
        engine.claim(1, len(self.records))
        engine.write("activation", activate((LEVEL, ELR), SETTINGS), now_ms=0)
        ready = engine.ready()
        self.taken(engine, ready.appends)
        engine.commit(len(self.records) if is_committed else 0)
        errors = [answer.error for answer in (*ready.answers, *engine.ready().answers) if answer.error]
        assert [] == errors
        return engine

    def taken(self, engine: Engine, appends: tuple[Append, ...]) -> None:
        for append in appends:
            assert append.base_offset == len(self.records), append
            self.records += map(decode_record, append.values)
            engine.note_appended(len(self.records))


def replayed(*records: Message) -> ClusterState:
    state = ClusterState()
    for offset, record in enumerate(records):
        state.apply(record, offset)
    return state


def marks(records: list[Message]) -> str:
    """The transaction marks in order: ( for a begin, ) for an end, ! for an abort."""
    signs: dict[type[Message], str] = {
        BeginTransactionRecord: "(",
        EndTransactionRecord: ")",
        AbortTransactionRecord: "!",
    }
    return "".join(signs.get(type(record), "") for record in records)


@pytest.mark.parametrize(
    ("left", "written"),
    [
        ((), WHOLE),
        ((BEGIN,), (ABORT, *WHOLE)),
        ((BEGIN, LEVEL), (ABORT, *WHOLE)),
        ((BEGIN, LEVEL, ELR, MIN_ISR), (ABORT, *WHOLE)),
        (WHOLE, ()),
        ((*WHOLE, ORDERS), ()),
        ((*WHOLE, CHORE), (ABORT,)),
        ((*WHOLE, CHORE, ORDERS, MIN_ISR), (ABORT,)),
        ((*WHOLE, CHORE, ORDERS, END), ()),
        ((*WHOLE, CHORE, ORDERS, ABORT, CHORE), (ABORT,)),
    ],
    ids=lambda records: " ".join(type(record).__name__.removesuffix("Record") for record in records) or "nothing",
)
def test_an_open_transaction_is_aborted_before_anything_else(
    left: tuple[Message, ...], written: tuple[Message, ...]
) -> None:
    """And what it had begun is begun anew, if it was the first records: the version in it is undone with it."""
    log = Log(*left)
    engine = log.activate()

    assert [type(record) for record in written] == [type(record) for record in log.records[len(left) :]]
    assert written[written[:1] == (ABORT,) :] == tuple(
        r for r in log.records[len(left) :] if type(r) is not type(ABORT)
    )
    assert (33, None) == (engine.state.features.metadata_version, engine.state.transactions.open)
    assert canonical(replayed(*log.records)) == canonical(engine.state)


def test_what_lay_in_it_never_was() -> None:
    engine = Log(*WHOLE, ORDERS, CHORE, PAYMENTS, ConfigRecord(2, "orders", "retention.ms", "1")).activate()

    assert canonical(replayed(*WHOLE, ORDERS)) == canonical(engine.state)


def test_a_controller_that_fails_on_its_way_leaves_it_to_the_next() -> None:
    """Each prefix of what it writes is a log that the next one can begin from, and ends as if nothing had happened."""
    whole = Log(BEGIN, LEVEL)
    expected = canonical(whole.activate().state)
    for cut in range(2, len(whole.records) + 1):
        log = Log(*whole.records[:cut])
        log.activate()

        assert expected == canonical(replayed(*log.records))
        assert "!" not in marks(log.records).replace("(!", "")  # an abort follows what has begun
        assert marks(log.records).endswith("()")


def test_an_abort_that_is_not_committed_is_replayed_from_the_beginning() -> None:
    """There is no going back over an abort, which has itself gone back: the state is empty, and says so."""
    log = Log(*WHOLE, ORDERS, CHORE, PAYMENTS)
    left = len(log.records)
    engine = log.activate(is_committed=False)
    engine.renounce()

    assert (0, 0) == (engine.next_offset, len(engine.state.topics))
    engine.replay(log.records[:left], base_offset=0, end_offset=left)
    assert Transaction(left - 2, "a chore") == engine.state.transactions.open
    assert canonical(replayed(*log.records[:left])) == canonical(engine.state)


@given(st.randoms(use_true_random=False), st.integers(0, 40), st.booleans())
def test_marks_never_nest_whatever_was_left_behind(chance: st.DrawFn, count: int, is_open: bool) -> None:
    history = [LEVEL, *write(chance, count, (*STEPS, begin, end))]  # type: ignore[arg-type]  # it is a random.Random
    left = [record for record in history if not isinstance(record, FeatureLevelRecord)]
    log = Log(LEVEL, *left, *((CHORE, NoOpRecord()) if is_open else ()))
    log.activate()

    rest = marks(log.records)
    while rest != (rest := rest.replace("()", "").replace("(!", "")):
        pass
    assert "" == rest
