"""`--observer` of the commands that ask a state: an observer's, as records, without a replay of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kraft.service.observer_pb2 import GetImageRequest
from quorate.cli.as_of import AsOf, Moment
from quorate.cli.failures import Failed
from quorate.cli.observer_call import TIMEOUT_S, ask_first, offset_of, parts_of, place_of
from quorate.cli.offline import Offline
from quorate.errors import Corrupt
from quorate.metadata.faults import ReplayFault
from quorate.records import decode_record

__all__ = ["load_observed"]


def load_observed(observers: str, command_config: Path | None, as_of: AsOf | None) -> Offline:
    """Returns the state of the first observer that answers, as of None the present one. Raises as `ask_first`."""

    def ask(address: str, stub: Any) -> Offline:  # Any: the generated types are those of asyncio's stub
        at = offset_of(address, stub, as_of) if isinstance(as_of, Moment) else as_of
        request = GetImageRequest(at=None if at is None else place_of(at))
        parts = parts_of(address, stub.GetImage(request, timeout=TIMEOUT_S))
        found = Offline(path=address, has_quorum=False)
        found.as_of_offset = next(parts).next_offset
        if at is not None and found.as_of_offset != at:
            reason = f"it answers with the state at {found.as_of_offset}: its release tells the present one alone"
            raise Failed(f"{address}: --as-of {as_of}: {reason}")
        records = (decode_record(value) for part in parts for value in part.records)
        try:
            found.state.load(records, found.as_of_offset)
        except (Corrupt, ReplayFault) as problem:
            raise Failed(f"{address}: its image cannot be read: {problem}") from None
        return found

    return ask_first(observers, command_config, ask)
