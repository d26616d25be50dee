"""Follows a metadata log record by record, and says which rows each record has changed: what a database is kept by.

The changes of a metadata transaction count at its end; those of an open one are not returned (KIP-868).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset
from quorate.records import VotersRecord, trace_of
from quorate.sql.difference import Difference, compared
from quorate.sql.nouns import NOUNS, Image, rows
from quorate.sql.touched import Touched

__all__ = ["RECORDS_PER_STEP", "Changed", "Following", "Place", "trace_id_of"]

RECORDS_PER_STEP: Final = 100
"""Records that are followed at once: some 5 ms of CPU."""
TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL)
"""A trace context as W3C spells it."""


class Place(NamedTuple):
    """Where a log has a record: its offset, its leader epoch, and when it was appended, in ms since 1970.

    `trace_id` is that of the request that caused it, in 32 hexadecimal digits; None if the record's batch has none.
    """

    offset: Offset
    epoch: Epoch
    timestamp_ms: int
    trace_id: str | None = None


class Changed(NamedTuple):
    """A row that the record at a place has changed."""

    place: Place
    row: Difference


class Following:
    """Applies a metadata log to a state batch by batch, and notes which rows each record has changed.

    `changes` are those that were noted since the last `take`.
    """

    def __init__(
        self, state: ClusterState | None = None, *, end: Offset = 0, voters: VotersRecord | None = None
    ) -> None:
        """`end` is the offset up to which (exclusive) the state has the log."""
        self._image = Image(state=ClusterState() if state is None else state, voters=voters)
        self._touched = Touched(self._image)
        self._end = end
        self.changes: list[Changed] = []

    @property
    def image(self) -> Image:
        """The state, with the voters that the log has."""
        return self._image

    @property
    def end(self) -> Offset:
        """The offset up to which (exclusive) the log is followed."""
        return self._end

    @property
    def is_between_transactions(self) -> bool:
        """Whether all that was followed counts: no metadata transaction is open."""
        return self._image.state.transactions.open is None

    def apply(self, records: Sequence[Message], first: Place, *, end: Offset) -> Generator[None, None, None]:
        """Applies a batch, of which the first record is at `first`; `end` is the offset after the batch.

        It yields after each `RECORDS_PER_STEP` records, and has to be iterated to its end. The changes of a metadata
        transaction are noted at the record that ends it. The trace id is that of the batch's first record, not that of
        `first`. Raises ReplayFault.
        """
        state = self._image.state
        first = first._replace(trace_id=trace_id_of(records[0]) if records else None)
        for count, record in enumerate(records):
            self._touched.note(record)
            state.apply(record, first.offset + count)
            if state.transactions.open is None:
                place = first._replace(offset=first.offset + count)
                self.changes += [Changed(place, each) for each in self._touched.take()]
            if count % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                yield
        state.settle()
        self._end = end

    def skip(self, records: Sequence[Message], base_offset: Offset, *, end: Offset) -> None:
        """Applies a batch without noting changes, as the database has them; `end` is the offset after it.

        Raises ReplayFault.
        """
        self._image.state.apply_all(records, base_offset)
        self._image.state.settle()
        self._end = end

    def vote(self, voters: VotersRecord | None, place: Place, *, end: Offset) -> None:
        """Goes past a batch of control records; `end` is the offset after it.

        `voters` is the last set of voters in the batch, None if it has none. How the voters have changed by it is noted
        at `place`.
        """
        if voters is not None:
            before, self._image = self._image, Image(state=self._image.state, voters=voters)
            noun = NOUNS["voters"]
            changed = compared(noun, rows(noun, before), rows(noun, self._image))
            self.changes += [Changed(place, each) for each in changed]
        self._end = end

    def take(self) -> list[Changed]:
        """Returns the changes since the last call, in the order of the log. No metadata transaction may be open."""
        assert self.is_between_transactions, self._image.state.transactions.open
        taken, self.changes = self.changes, []
        return taken


def trace_id_of(record: Message) -> str | None:
    """Returns the trace id, in 32 hexadecimal digits, of the W3C trace context that a batch's first record carries.

    None if it carries none, or bytes that are no trace context.
    """
    found = TRACEPARENT.fullmatch(trace_of(record) or b"")
    return None if found is None else found[1].decode()
