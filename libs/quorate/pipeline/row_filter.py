"""Which rows of a log are wanted: the bounds and options that the decoding of a part observes."""

from __future__ import annotations

from typing import NamedTuple

from quorate.nouns import Offset

__all__ = ["RowFilter"]


class RowFilter(NamedTuple):
    """Selects rows by offset, timestamp (ms since 1970) and type name; ends are exclusive, `types` None selects all.

    Damage is always reported. Data batches entirely outside the ranges are not decoded. `kinds` and `cluster_ids`
    select whole files, None all; a caller that lists files asks `is_of`. Without `decoded` only the head of a record is
    read: its payload, trace id and raw bytes are None, and damage within its own bytes is not found, unless `failfast`
    asks for it.
    """

    start_offset: Offset = 0
    end_offset: Offset = (1 << 63) - 1
    start_ms: int = -(1 << 63)
    end_ms: int = (1 << 63) - 1
    types: frozenset[str] | None = None
    control: bool = True
    failfast: bool = False
    kinds: frozenset[str] | None = None
    cluster_ids: frozenset[str] | None = None
    decoded: bool = True

    def is_of(self, cluster_id: str, kind: str) -> bool:
        """Returns whether files of this cluster and kind are selected."""
        return (self.kinds is None or kind in self.kinds) and (
            self.cluster_ids is None or cluster_id in self.cluster_ids
        )

    @property
    def is_decoded(self) -> bool:
        """Whether the bodies of records are decoded: for their payloads, or to find damage in them."""
        return self.decoded or self.failfast
