"""`quorate sql --observer`: an observer answers the query, from its database of the state and its past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kraft.service.observer_pb2 import QueryRequest
from quorate.cli.observer_call import TIMEOUT_S, ask_first, parts_of, value_of
from quorate.cli.sql import print_answer
from quorate.sql.guarded import Answer

__all__ = ["ask_observer"]


def ask_observer(observers: str, command_config: Path | None, query: str, *, output: str) -> None:
    """Prints the rows. Raises Misused, Failed for what an observer refuses and if none is reached, OSError."""

    def ask(address: str, stub: Any) -> None:  # Any: the generated types are those of asyncio's stub
        parts = parts_of(address, stub.Query(QueryRequest(sql=query), timeout=TIMEOUT_S))
        first = next(parts)
        rows = (tuple(map(value_of, row.values)) for part in parts for row in part.rows)
        print_answer(Answer(tuple(first.columns), rows), output, as_of_offset=first.next_offset, notes=())

    ask_first(observers, command_config, ask)
