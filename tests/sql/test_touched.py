"""A look record by record comes to the same as comparing the whole states before and after."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kraft import Message
from quorate.metadata.replay import ROWS
from quorate.metadata.state import ClusterState
from quorate.sql.difference import Difference, differences
from quorate.sql.nouns import Image
from quorate.sql.touched import SCOPES, Touched
from tests.metadata.histories import histories
from tests.metadata.test_properties import replayed

OF_NO_TABLE = {
    "AbortTransactionRecord",
    "BeginTransactionRecord",
    "EndTransactionRecord",
    "NoOpRecord",
    "UnknownRecord",
    "ZkMigrationStateRecord",
}


def batches(log: list[Message], chance: Random) -> list[list[Message]]:
    """The log in batches of one to five records."""
    found = []
    while log:
        count = chance.randint(1, 5)
        found.append(log[:count])
        log = log[count:]
    return found


@given(histories(), st.randoms(use_true_random=False))
def test_it_finds_what_comparing_the_states_finds(log: list[Message], chance: Random) -> None:
    """A batch within a transaction is compared with what follows, as it counts at the transaction's end."""
    state, applied, before = ClusterState(), 0, 0
    touched = Touched(Image(state=state))
    for batch in batches(log, chance):
        for record in batch:
            touched.note(record)
            state.apply(record, applied)
            applied += 1
        state.settle()
        if state.transactions.open is None:
            found: list[Difference] = list(touched.take())
            expected = list(differences(Image(state=replayed(log[:before])), Image(state=state)))
            assert expected == found
            assert [list(each.key) for each in expected] == [list(each.key) for each in found]
            before = applied


def test_every_record_is_of_a_row_or_of_none() -> None:
    assert {row.record.__name__ for row in ROWS} == OF_NO_TABLE | {record.__name__ for record in SCOPES}
    assert OF_NO_TABLE.isdisjoint(record.__name__ for record in SCOPES)
