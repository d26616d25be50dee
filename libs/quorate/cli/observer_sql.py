"""`quorate sql --observer`: an observer answers the query, from its database of the state and its past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kraft.service.observer_pb2 import QueryRequest
from quorate.cli.as_of import AsOf
from quorate.cli.observer_call import TIMEOUT_S, ask_first, offset_of, parts_of, value_of
from quorate.cli.sql import print_answer
from quorate.sql.as_of import query_as_of
from quorate.sql.guarded import Answer

__all__ = ["ask_observer"]


def ask_observer(
    observers: str, command_config: Path | None, query: str, *, output: str, as_of: AsOf | None = None
) -> None:
    """Has an observer answer a query by SQL, on its state at `as_of` (None: the present one), and prints the rows.

    Raises Misused, Failed for what the observer refuses, Unreached if none is reached, OSError.
    """

    def ask(address: str, stub: Any) -> None:  # Any: the generated types are those of asyncio's stub
        at = None if as_of is None else offset_of(address, stub, as_of)
        asked = QueryRequest(sql=query if at is None else query_as_of(query, at))
        parts = parts_of(address, stub.Query(asked, timeout=TIMEOUT_S))
        first = next(parts)
        rows = (tuple(map(value_of, row.values)) for part in parts for row in part.rows)
        as_of_offset = first.next_offset if at is None else at
        print_answer(Answer(tuple(first.columns), rows), output, as_of_offset=as_of_offset, notes=())

    ask_first(observers, command_config, ask)
