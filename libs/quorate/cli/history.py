"""`quorate history`: what became of a topic, a broker or all there is, record by record: before and after."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Final

from kraft import Message
from quorate.cli.as_of import AsOf
from quorate.cli.failures import Failed, Misused
from quorate.cli.image import shown_time
from quorate.cli.image_diff import CHANGE_WIDTH, in_json, words
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.doubles import dumps
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import VotersRecord, trace_of
from quorate.sql.difference import Difference, compared
from quorate.sql.nouns import NOUNS, Image, rows
from quorate.sql.touched import Touched
from quorate.wire.batch import BatchHeader

__all__ = ["Subject", "Teller", "subject_of"]

Subject = Callable[[Difference], bool]
"""Whether a row is of what was asked for."""


def subject_of(text: str | None) -> Subject:
    """Reads `topic/NAME`, `broker/ID`, `controller/ID`, `user/NAME`, or the name of a table; None is all.

    Raises Misused, naming what there is.
    """
    if text is None:
        return lambda _: True
    if text in NOUNS:
        return lambda found: found.noun.name == text
    kind, slash, name = text.partition("/")
    of_kind = _OF.get(kind)
    if not slash or not name or of_kind is None:
        kinds = ", ".join(f"{each}/…" for each in _OF)
        raise Misused(f"{printable(text[:SHOWN_MAX])!r}: a history is of {kinds}, or of a table: {', '.join(NOUNS)}")
    return lambda found: of_kind(found, name)


SHOWN_MAX: Final = 80


def _is_of_topic(found: Difference, name: str) -> bool:
    if found.noun.name in ("topics", "partitions"):
        return name in (found.key.get("topic"), found.key.get("name"))
    return _is_config_of(found, "TOPIC", name)


def _is_of_broker(found: Difference, name: str) -> bool:
    return str(found.key.get("broker_id")) == name or _is_config_of(found, "BROKER", name)


def _is_of_controller(found: Difference, name: str) -> bool:
    return name in (str(found.key.get("controller_id")), str(found.key.get("voter_id")))


def _is_of_user(found: Difference, name: str) -> bool:
    match found.noun.name:
        case "scram_users":
            return found.key["name"] == name
        case "acls":
            return f"User:{name}" in (found.before.get("principal"), found.after.get("principal"))
        case "client_quotas":
            return {"entity_type": "user", "entity_name": name} in json.loads(str(found.key["entity"]))
        case "delegation_tokens":
            return name in (found.before.get("owner"), found.after.get("owner"))
    return False


def _is_config_of(found: Difference, kind: str, name: str) -> bool:
    return found.noun.name == "configs" and (found.key["resource_type"], found.key["resource_name"]) == (kind, name)


_OF: Final[Mapping[str, Callable[[Difference, str], bool]]] = {
    "topic": _is_of_topic,
    "broker": _is_of_broker,
    "controller": _is_of_controller,
    "user": _is_of_user,
}


class Teller:
    """Prints a line for each row that a record has changed, while a log is read from `since` on.

    What a transaction does counts, and is told, at its end; what it has not ended, nobody is told (KIP-868).
    """

    def __init__(self, subject: Subject, since: AsOf, *, as_json: bool) -> None:
        self.since = since
        self.count = 0
        """How many rows were told."""
        self._base: Offset = 0
        """The offset of the state to which the first record is applied: before it there is no log."""
        self._subject = subject
        self._as_json = as_json
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
            self._trace_id = _trace_id(trace_of(record))
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
        for each in filter(self._subject, rows_changed):
            self.count += 1
            self._tell(each, header, offset)

    def _tell(self, found: Difference, header: BatchHeader, offset: Offset) -> None:
        trace_id = None if header.is_control else self._trace_id
        if self._as_json:
            document = {
                "offset": offset,
                "epoch": header.epoch,
                "timestamp": header.max_timestamp,
                "traceId": trace_id,
                "table": found.noun.name,
                "key": in_json(found.key),
                "change": found.change.value,
                "before": in_json(found.before),
                "after": in_json(found.after),
            }
            sys.stdout.write(dumps(document) + "\n")
            return
        what = f"{found.change.value:{CHANGE_WIDTH}}  {found.noun.name} {' '.join(words(found))}"
        trace = f"  trace {printable(trace_id)}" if trace_id else ""
        sys.stdout.write(f"{offset:>8}  {shown_time(header.max_timestamp)}  epoch {header.epoch}  {what}{trace}\n")

    def end(self, found: Offline) -> None:
        """Prints how many changes there were, and notes. Raises Failed if the log ends before `since`."""
        if found.as_of_offset < _offset(self.since):
            raise Failed(f"{found.path} ends at offset {found.as_of_offset}; {self.since} lies beyond it")
        if self._as_json:
            return
        begins = max(self._base, _offset(self.since))
        rows_said = f"{self.count} change{'s' * (self.count != 1)}"
        sys.stdout.write(f"{rows_said} between offset {begins} and offset {found.as_of_offset}\n")
        if self._base > _offset(self.since):
            sys.stdout.write(f"note: of what lies before offset {begins} there is no log\n")
        for note in found.notes:
            sys.stdout.write(f"note: {printable(note)}\n")


def _trace_id(traceparent: bytes | None) -> str | None:
    """Returns the trace id of a W3C traceparent; None for bytes that are none."""
    parts = (traceparent or b"").decode("ascii", "replace").split("-")
    return parts[1] if len(parts) >= 4 else None


def _offset(since: AsOf) -> Offset:
    """Returns the offset, which a time has become when the reading began."""
    assert isinstance(since, int), since
    return since
