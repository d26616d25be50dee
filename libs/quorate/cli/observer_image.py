"""`--observer` of the commands that ask a state: an observer's, as records, without a replay of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kraft.service.observer_pb2 import GetImageRequest
from quorate.cli.as_of import AsOf, Moment
from quorate.cli.failures import Failed
from quorate.cli.observer_call import TIMEOUT_S, ask_first, offset_of, parts_of, place_of
from quorate.cli.offline import Offline
from quorate.errors import Corrupt
from quorate.metadata.faults import ReplayFault
from quorate.records import decode_record

__all__ = ["load_observed"]

LED_MAX_MS: Final = 5_000
"""So long (ms) an observer may have known no leader before its state counts as outdated: an election takes less."""


def load_observed(observers: str, command_config: Path | None, as_of: AsOf | None) -> Offline:
    """Returns an observer's state at an offset or time; None for the present one, with a note if that may be outdated.

    It is of the first observer that can be reached. Raises Misused, Failed, Unreached, OSError.
    """

    def ask(address: str, stub: Any) -> Offline:  # Any: the generated types are those of asyncio's stub
        at = offset_of(address, stub, as_of) if isinstance(as_of, Moment) else as_of
        request = GetImageRequest(at=None if at is None else place_of(at))
        parts = parts_of(address, stub.GetImage(request, timeout=TIMEOUT_S))
        found = Offline(path=address, has_quorum=False)
        first = next(parts)
        found.as_of_offset = first.next_offset
        if at is not None and found.as_of_offset != at:
            reason = f"it answers with the state at {found.as_of_offset}: its release tells the present one alone"
            raise Failed(f"{address}: --as-of {as_of}: {reason}")
        if as_of is None and not 0 <= first.led_ms <= LED_MAX_MS:
            since = "yet" if first.led_ms < 0 else f"for {first.led_ms / 1_000:.0f} s"
            found.outdated = f"the observer has known no leader of the quorum {since}: its state may be long over"
            found.notes.append(found.outdated)
        records = (decode_record(value) for part in parts for value in part.records)
        try:
            found.state.load(records, found.as_of_offset)
        except (Corrupt, ReplayFault) as problem:
            raise Failed(f"{address}: its image cannot be read: {problem}") from None
        return found

    return ask_first(observers, command_config, ask)
