"""The state that a log amounts to, which goes on with the log: a step adds a few records to thousands."""

from __future__ import annotations

from pathlib import Path

from quorate.errors import Corrupt
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.records import NoOpRecord, decode_record
from quorate.storage.names import LOG, PARTITION_DIRECTORY, segment_file
from quorate.wire.batch import batches, check_batch, data_values
from tests.interop.operations.step import View


def names_of(state: ClusterState) -> dict[str, str]:
    """Topics' names by the texts of their ids."""
    return {uuid_text(topic.id): topic.name for topic in state.topics}


class Followed:
    """A log of one segment, from offset 0, that is only ever appended to: that of a leader who stays it."""

    def __init__(self, log_dir: Path) -> None:
        self._log = segment_file(log_dir / PARTITION_DIRECTORY, 0, LOG)
        self._position = 0
        self._end: Offset = 0
        self._state = ClusterState()
        self._changed_at: Offset = 0
        self._view: View | None = None

    def view(self, active_id: NodeId) -> View:
        """What there is by now; the same as the last time if nothing was appended."""
        self._apply_more()
        if self._view is None or (self._end, active_id) != (self._view.offset, self._view.active_id):
            self._view = View(
                state=self._state,
                offset=self._end,
                changed_at=self._changed_at,
                active_id=active_id,
                names=names_of(self._state),
            )
        return self._view

    def _apply_more(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        begin = self._position
        try:
            for position, header in batches(data):
                check_batch(data, position)
                for offset, value in enumerate(() if header.is_control else data_values(data, position, header)):
                    record = decode_record(value)
                    self._state.apply(record, header.base_offset + offset)
                    if not isinstance(record, NoOpRecord):
                        self._changed_at = header.base_offset + offset + 1
                self._state.settle()
                self._position = begin + position + header.size
                if self._state.transactions.open is None:  # at its end all of its records count at once (KIP-868)
                    self._end = header.next_offset
        except Corrupt:
            return  # in the middle of a write: the rest is there at the next look
