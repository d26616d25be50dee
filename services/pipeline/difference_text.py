"""The text of a difference between the replayed log and a checkpoint, without what may be a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quorate.controller.secrets import REDACTED

__all__ = ["difference_text"]

SECRET_KINDS: Final = frozenset({"scram", "config", "delegation_token", "unknown"})
"""Kinds of state whose values may be secrets; of an unknown one the key is the whole record, too."""


def difference_text(row: Mapping[str, Any]) -> str:
    """Returns the line about a row of `verify.differences`; values of kinds that may be secrets are redacted.

    >>> of_alice = {"kind": "scram", "key": "alice,1", "replayed": "salt and keys", "checkpoint": None}
    >>> difference_text({"cluster_id": "c", "snapshot_offset": 7, **of_alice})
    'c at offset 7: scram alice,1: replayed (redacted), the checkpoint has None'
    """
    is_secret = row["kind"] in SECRET_KINDS
    key = REDACTED if row["kind"] == "unknown" else row["key"]
    replayed, checkpoint = (
        REDACTED if is_secret and row[side] is not None else row[side] for side in ("replayed", "checkpoint")
    )
    place = f"{row['cluster_id']} at offset {row['snapshot_offset']}: {row['kind']} {key}"
    return f"{place}: replayed {replayed}, the checkpoint has {checkpoint}"
