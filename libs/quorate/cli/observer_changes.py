"""`quorate history --observer`, `quorate image diff --observer`: an observer's database tells, without a replay."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    HistoryGap,
    ListChangesRequest,
    ListChangesResponse,
    LoggedChange,
    RowChange,
    WatchImageRequest,
)
from quorate.cli.as_of import AsOf
from quorate.cli.failures import Failed, Passed
from quorate.cli.history import Unknown, print_change, print_end, print_unknown
from quorate.cli.image_diff import print_differences
from quorate.cli.observer_call import TIMEOUT_S, ask_first, parts_of, place_of, value_of
from quorate.nouns import Offset
from quorate.sql.difference import Change, Difference
from quorate.sql.following import Changed, Place
from quorate.sql.nouns import NOUNS, Value

__all__ = ["diff_by_observer", "tell_by_observer", "watch_by_observer"]

KINDS: Final = {
    RowChange.KIND_CREATED: Change.CREATED,
    RowChange.KIND_CHANGED: Change.CHANGED,
    RowChange.KIND_DELETED: Change.DELETED,
}


def tell_by_observer(
    observers: str,
    command_config: Path | None,
    subject: str | None,
    *,
    since: AsOf | None,
    until: AsOf | None,
    output: str,
) -> None:
    """Prints what changed from `since` on, up to `until` (exclusive); None for the begin, or the end.

    Raises Misused, Failed, Unreached, OSError, as `ask_first`.
    """
    request = ListChangesRequest(subject=subject or "", to=place_of(until))
    getattr(request, "from").CopyFrom(place_of(since))

    def ask(address: str, stub: Any) -> None:  # Any: the generated types are those of asyncio's stub
        count, begins, unknown = 0, None, set[Unknown]()
        for page in _pages(address, stub, request):
            begins = page.from_offset if begins is None else begins
            unknown |= _gaps(page.gaps)
            count += _print(page.changes, output=output)
        assert begins is not None, "there is at least one page"
        if begins <= page.begins_at_offset > _least(since):
            unknown.add(Unknown(-1, page.begins_at_offset - 1))
        print_end(count, begins=begins, ends=page.to_offset, output=output, unknown=sorted(unknown))

    ask_first(observers, command_config, ask)


def watch_by_observer(
    observers: str, command_config: Path | None, subject: str | None, *, since: Offset | None, output: str
) -> None:
    """Prints what changes from the offset `since` on (None: from now on), until it is ended.

    Raises Misused, Failed, Unreached, OSError; once an answer has begun, Failed says from which offset to go on.
    """
    request = WatchImageRequest(subject=subject or "", from_offset=since)

    def ask(address: str, stub: Any) -> None:
        following, told = None, set[Unknown]()
        try:
            for part in parts_of(address, stub.WatchImage(request)):
                for gap in sorted(_gaps(part.gaps) - told):
                    print_unknown(gap, output=output)
                    told.add(gap)
                following = part.next_offset
                if _print(part.changes, output=output) or part.gaps:
                    sys.stdout.flush()
        except Failed as failure:
            if following is None or isinstance(failure, Passed):
                raise
            raise Failed(f"{failure}; --from {following} goes on") from None

    ask_first(observers, command_config, ask)


def diff_by_observer(
    observers: str, command_config: Path | None, *, first: AsOf, last: AsOf | None, output: str
) -> None:
    """Prints the rows that differ between the states at `first` and `last` (None: the present one).

    Raises Misused, Failed, Unreached, OSError, as `ask_first`.
    """
    request = DiffImagesRequest(to=place_of(last))
    getattr(request, "from").CopyFrom(place_of(first))

    def ask(address: str, stub: Any) -> None:
        parts = parts_of(address, stub.DiffImages(request, timeout=TIMEOUT_S))
        begun = next(parts)
        rows = (_difference(address, row) for part in _chained(begun, parts) for row in part.rows)
        print_differences(rows, begins=begun.from_offset, ends=begun.to_offset, notes=(), output=output)

    ask_first(observers, command_config, ask)


def _pages(address: str, stub: Any, request: ListChangesRequest) -> Iterator[ListChangesResponse]:
    while True:
        # A unary call is an answer of one part.
        page = next(parts_of(address, (stub.ListChanges(each, timeout=TIMEOUT_S) for each in (request,))))
        yield page
        if not page.next_page_token:
            return
        request = ListChangesRequest(subject=request.subject, page_token=page.next_page_token)


def _chained(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _gaps(gaps: Iterable[HistoryGap]) -> set[Unknown]:
    """Returns the gaps, without one from the log's start: a note of its own says where the history begins."""
    return {Unknown(each.after_offset, each.until_offset) for each in gaps if each.after_offset >= 0}


def _print(changes: Iterable[LoggedChange], *, output: str) -> int:
    """Prints changes, and returns how many."""
    count = 0
    for each in changes:
        place = Place(each.offset, each.epoch, each.timestamp_ms, each.trace_id or None)
        print_change(Changed(place, _difference("the observer", each.row)), each.sentence, output=output)
        count += 1
    return count


def _difference(source: str, row: RowChange) -> Difference:
    if row.table not in NOUNS or row.kind not in KINDS:
        raise Failed(f"{source} tells of {row.table or 'nothing'!r}, which this release of the command does not know")
    key, before, after = ({each.name: _value(each) for each in side} for side in (row.key, row.before, row.after))
    return Difference(noun=NOUNS[row.table], key=key, change=KINDS[row.kind], before=before, after=after)


def _value(column: RowChange.Column) -> Value:
    found: Value = value_of(column.value)
    return found


def _least(since: AsOf | None) -> Offset:
    """Returns the offset from which on changes were asked for, as far as that is known without the log."""
    return since if isinstance(since, int) else 0
