"""The finalized feature levels in the log that a node stores, of which it warns where this release does not know them.

The node works with any level: it is the controller beside it that ends, and other controllers and brokers of this
release. The levels are followed as the records are written, committed or not; a start reads them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from quorate.errors import Corrupt
from quorate.metadata.features import unfamiliar
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import FeatureLevelRecord, decode_record, encode_record
from quorate.runtime.logging.logs import logger
from quorate.wire.batch import BatchHeader, data_values, read_header

__all__ = ["UNFAMILIAR", "FeatureLevels"]

log = logger(__name__)

UNFAMILIAR: Final = "a feature is finalized that this release does not know"
_FRAME: Final = encode_record(FeatureLevelRecord(), 0)[:3]
FIRST_VALUES: Final = 1_000
"""The levels stand at the beginning of a checkpoint, ours or Kafka's; so many records of it are looked at."""


class FeatureLevels:
    """Follows the finalized feature levels that the log's records set, and warns of those that are not known here."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._told: list[str] = []

    def begin_with(self, values: Iterable[bytes]) -> None:
        """Adds the levels of the checkpoint at which the log starts; levels from batches, which are later, stay.

        `values` are the checkpoint's encoded records. If one cannot be decoded, none is added; loading the
        checkpoint names it.
        """
        with suppress(Corrupt):
            self._levels = _levels_in(islice(values, FIRST_VALUES)) | self._levels

    def restart_with(self, values: Iterable[bytes]) -> None:
        """Replaces all levels by those of a checkpoint that replaces the log, from its encoded records, and warns."""
        self._levels.clear()
        self.begin_with(values)
        self.warn()

    def note(self, data: bytes, header: BatchHeader | None = None) -> bool:
        """Takes over the levels that an encoded batch sets, without a warning; returns whether it may have set any.

        A batch that cannot be decoded may have; replay names it.
        """
        if _FRAME not in data or (header or read_header(data)).is_control:
            return False
        with suppress(Corrupt):
            self._levels |= _levels_in(data_values(data, 0, header))
        return True

    def warn(self) -> None:
        """Logs a warning for each level that this release does not know, once for as long as it lasts.

        Nothing is said before the log has a metadata.version.
        """
        levels = {name: level for name, level in self._levels.items() if level}
        reasons = list(unfamiliar(levels)) if METADATA_VERSION in levels else []
        for reason in reasons:
            if reason not in self._told:
                log.warning(UNFAMILIAR, reason=reason)
        self._told = reasons


def _levels_in(values: Iterable[bytes]) -> dict[str, int]:
    records = (decode_record(value) for value in values if value[:3] == _FRAME)
    return {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
