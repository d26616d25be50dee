"""`quorate history`: what became of a topic, a broker or all there is, record by record: before and after."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

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

__all__ = ["Teller", "Unknown", "print_change", "print_end", "print_unknown", "read_subject"]

SHOWN_MAX: Final = 500
"""Characters of a sentence in the text; a document has all of it."""


class Unknown(NamedTuple):
    """A part of the log whose changes are not known one by one: after `after_offset`, up to `until_offset` (inclusive).

    `after_offset` -1 is the log's start.
    """

    after_offset: Offset
    until_offset: Offset

    @property
    def note(self) -> str:
        """The sentence that tells a reader of the history about this part."""
        if self.after_offset < 0:
            return f"of what lies before offset {self.until_offset + 1} there is no log"
        return (
            f"all that changed after offset {self.after_offset} is one change at offset {self.until_offset}: "
            "a checkpoint has replaced the log"
        )


def read_subject(text: str | None) -> Subject:
    """Reads whose history is asked for: `topic/NAME`, a table and so on, None for all. Raises Misused."""
    try:
        return subject_of(text)
    except ValueError as problem:
        raise Misused(printable(str(problem))) from None


class Teller:
    """Prints a line for each row that a record has changed, while `load` reads a log and calls it, from `since` on.

    The changes of a transaction are printed at its end; those of an open one are not printed (KIP-868).
    """

    def __init__(self, subject: Subject, since: AsOf, *, output: str) -> None:
        self.since = since
        self.count = 0
        """How many rows were printed."""
        self._base: Offset = 0
        """The offset of the state to which the first record is applied: before it there is no log."""
        self._subject = subject
        self._output = output
        self._touched = Touched(Image(state=ClusterState()))
        self._voters: VotersRecord | None = None
        self._trace_id: str | None = None
        """That of the request that caused the present batch: its first record has it."""

    def begin(self, found: Offline) -> None:
        """Takes the state to which the first record will be applied."""
        self._touched, self._voters = Touched(Image(state=found.state)), found.voters
        self._base = found.as_of_offset

    def before(self, found: Offline, header: BatchHeader, record: Message, offset: Offset) -> None:
        """Notes the rows that a record may change, with their values before it is applied."""
        if offset == header.base_offset:
            self._trace_id = trace_id_of(record)
        self._touched.note(record)

    def after(self, found: Offline, header: BatchHeader, offset: Offset) -> None:
        """Prints the rows changed since the last call, unless `offset` is below `since`; a transaction at its end."""
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
        """Prints how many changes were printed, and notes (both as text only), and the parts it cannot tell.

        Raises Failed if the log ends before `since`.
        """
        if found.as_of_offset < _offset(self.since):
            raise Failed(f"{found.path} ends at offset {found.as_of_offset}; {self.since} lies beyond it")
        unknown = [Unknown(-1, self._base - 1)] if self._base > _offset(self.since) else []
        begins = max(self._base, _offset(self.since))
        print_end(self.count, begins=begins, ends=found.as_of_offset, output=self._output, unknown=unknown)
        for note in found.notes if not is_document(self._output) else ():
            _print_note(note)


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


def print_end(count: int, *, begins: Offset, ends: Offset, output: str, unknown: Iterable[Unknown]) -> None:
    """Prints how many changes were printed between `begins` and `ends`, as text only.

    Then, also as documents, it prints each part of the log whose changes are not known.
    """
    if not is_document(output):
        sys.stdout.write(f"{count} change{'s' * (count != 1)} between offset {begins} and offset {ends}\n")
    for each in unknown:
        print_unknown(each, output=output)


def print_unknown(part: Unknown, *, output: str) -> None:
    """Prints that the changes of a part of the log are not known: a note, or a document that has no `offset`."""
    if is_document(output):
        document = {"afterOffset": part.after_offset, "untilOffset": part.until_offset, "note": part.note}
        print_document(document, output)
    else:
        _print_note(part.note)


def _print_note(note: str) -> None:
    sys.stdout.write(f"note: {printable(note)}\n")


def _offset(since: AsOf) -> Offset:
    """Returns the offset, which a time has become when the reading began."""
    assert isinstance(since, int), since
    return since
