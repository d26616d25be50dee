"""The column `commit` of the source `kraft`: whether each record is committed, as far as that is known."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from quorate.pipeline.commitment import COMMITTED, UNCOMMITTED, UNKNOWN, Commitment

__all__ = ["COMMIT", "commit_column"]

COMMIT: Final = "commit"
_STATES: Final = (COMMITTED, UNCOMMITTED, UNKNOWN)


def commit_column(offset: Any, epoch: Any, corrupt: Any, committed: Commitment | None) -> pa.Array:  # Arrow's arrays
    """Returns the state of each record: `committed`, `uncommitted` or `unknown`; null for damage.

    Takes the columns of these names, as lists or Arrow arrays. `committed` is what is known; None if everything is.
    """
    damage = pa.array(corrupt, pa.string())
    if len(damage) == damage.null_count:
        return _states(pa.array(offset, pa.int64()), pa.array(epoch, pa.int32()), committed)
    sound = damage.is_null()
    of_sound = _states(pa.array(offset, pa.int64()).filter(sound), pa.array(epoch, pa.int32()).filter(sound), committed)
    places = np.cumsum(sound.to_numpy(zero_copy_only=False)) - 1
    return of_sound.take(pa.array(places, mask=~sound.to_numpy(zero_copy_only=False)))


def _states(offset: pa.Array, epoch: pa.Array, committed: Commitment | None) -> pa.Array:
    """Returns the state of each record by its offset and epoch; none of the records is damaged, so all have both."""
    if committed is None:
        return pa.repeat(pa.scalar(COMMITTED), len(offset))
    offsets, epochs = offset.to_numpy(), epoch.to_numpy()
    codes = np.empty(len(offsets), np.int8)
    # A run of one epoch is the rule, and not worth a sort.
    one = len(epochs) > 0 and bool((epochs == epochs[0]).all())
    for each in epochs[:1] if one else np.unique(epochs):
        limits = committed.limits(int(each))
        ends = np.array([end for end, _ in limits[:-1]])
        found = np.array([_STATES.index(state) for _, state in limits], np.int8)
        own = slice(None) if one else epochs == each
        codes[own] = found[np.searchsorted(ends, offsets[own], side="right")]
    return pa.array(_STATES).take(pa.array(codes))
