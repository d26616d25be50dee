"""`quorate history`: what became of a topic, a broker or all there is, record by record: before and after."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from kraft import Message
from quorate.cli.as_of import AsOf
from quorate.cli.documents import is_document, print_document
from quorate.cli.failures import Failed, Misused
from quorate.cli.image import shown_time
from quorate.cli.image_diff import row_in_json
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import VotersRecord
from quorate.sql.difference import compared
from quorate.sql.following import Changed, Place, trace_id_of
from quorate.sql.nouns import NOUNS, Image, rows
from quorate.sql.sentences import sentence
from quorate.sql.subjects import Subject, subject_of
from quorate.sql.touched import Touched
from quorate.wire.batch import BatchHeader

__all__ = ["Teller", "nothing_before", "print_change", "print_end", "read_subject"]

SHOWN_MAX: Final = 500
"""Characters of a sentence in the text; a document has all of it."""


def read_subject(text: str | None) -> Subject:
    """Reads what a history is asked of. Raises Misused, naming what there is."""
    try:
        return subject_of(text)
    except ValueError as problem:
        raise Misused(printable(str(problem))) from None


class Teller:
    """Prints a line for each row that a record has changed, while a log is read from `since` on.

    What a transaction does counts, and is told, at its end; what it has not ended, nobody is told (KIP-868).
    """

    def __init__(self, subject: Subject, since: AsOf, *, output: str) -> None:
        self.since = since
        self.count = 0
        """How many rows were told."""
        self._base: Offset = 0
        """The offset of the state to which the first record is applied: before it there is no log."""
        self._subject = subject
        self._output = output
        self._touched = Touched(Image(state=ClusterState()))
        self._voters: VotersRecord | None = None
        self._trace_id: str | None = None
        """That of the request that caused the present batch: its first record has it."""

    def begin(self, found: Offline) -> None:
        """Follows this state."""
        self._touched, self._voters = Touched(Image(state=found.state)), found.voters
        self._base = found.as_of_offset

    def before(self, found: Offline, header: BatchHeader, record: Message, offset: Offset) -> None:
        """Notes the rows that a record may change."""
        if offset == header.base_offset:
            self._trace_id = trace_id_of(record)
        self._touched.note(record)

    def after(self, found: Offline, header: BatchHeader, offset: Offset) -> None:
        """Tells of the rows that have changed."""
        if found.state.transactions.open is not None:
            return
        rows_changed = list(self._touched.take())
        if found.voters is not self._voters:
            before, self._voters = self._voters, found.voters
            old, new = (rows(NOUNS["voters"], Image(state=found.state, voters=each)) for each in (before, found.voters))
            rows_changed += compared(NOUNS["voters"], old, new)
        if offset < _offset(self.since):
            return
        trace_id = None if header.is_control else self._trace_id
        for each in filter(self._subject.has, rows_changed):
            self.count += 1
            place = Place(offset, header.epoch, header.max_timestamp, trace_id)
            print_change(Changed(place, each), str(sentence(each)), output=self._output)

    def end(self, found: Offline) -> None:
        """Prints how many changes there were, and notes. Raises Failed if the log ends before `since`."""
        if found.as_of_offset < _offset(self.since):
            raise Failed(f"{found.path} ends at offset {found.as_of_offset}; {self.since} lies beyond it")
        if is_document(self._output):
            return
        notes = list(found.notes)
        if self._base > _offset(self.since):
            notes.insert(0, nothing_before(self._base))
        print_end(self.count, begins=max(self._base, _offset(self.since)), ends=found.as_of_offset, notes=notes)


def print_change(told: Changed, said: str, *, output: str) -> None:
    """Prints a row that a record has changed, and what is `said` of it, on a line of its own."""
    (offset, epoch, timestamp_ms, trace_id), found = told
    if is_document(output):
        document = {
            "offset": offset,
            "epoch": epoch,
            "timestamp": timestamp_ms,
            "traceId": trace_id,
            "sentence": said,
            **row_in_json(found),
        }
        print_document(document, output)
        return
    what = printable(said if len(said) <= SHOWN_MAX else f"{said[:SHOWN_MAX]}…")
    trace = f"  trace {printable(trace_id)}" if trace_id else ""
    sys.stdout.write(f"{offset:>8}  {shown_time(timestamp_ms)}  epoch {epoch}  {what}{trace}\n")


def print_end(count: int, *, begins: Offset, ends: Offset, notes: Iterable[str]) -> None:
    """Prints how many changes were told, between which offsets, and what is to be known of them."""
    sys.stdout.write(f"{count} change{'s' * (count != 1)} between offset {begins} and offset {ends}\n")
    for note in notes:
        sys.stdout.write(f"note: {printable(note)}\n")


def nothing_before(offset: Offset) -> str:
    """Returns the note that a history begins at an offset."""
    return f"of what lies before offset {offset} there is no log"


def _offset(since: AsOf) -> Offset:
    """Returns the offset, which a time has become when the reading began."""
    assert isinstance(since, int), since
    return since
