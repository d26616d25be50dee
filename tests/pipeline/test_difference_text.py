"""What a job prints of a checkpoint that differs from the log: no key of a user, no password, no record as a whole."""

from __future__ import annotations

import pytest

from services.pipeline.difference_text import difference_text

SECRET = "c2FsdA=="


@pytest.mark.parametrize("kind", ["scram", "config", "delegation_token", "unknown"])
@pytest.mark.parametrize("side", ["replayed", "checkpoint"])
def test_what_may_be_a_secret_is_not_printed(kind: str, side: str) -> None:
    key = SECRET if kind == "unknown" else "alice"
    row = {"cluster_id": "c", "snapshot_offset": 7, "kind": kind, "key": key, "replayed": None, "checkpoint": None}
    told = difference_text({**row, side: f"salt={SECRET}"})

    assert SECRET not in told
    assert "c at offset 7: " in told
    assert (1 if kind != "unknown" else 2, 1) == (told.count("(redacted)"), told.count("None"))


def test_other_values_are_printed_as_they_are() -> None:
    row = {"cluster_id": "c", "snapshot_offset": 7, "kind": "topic", "key": "a", "replayed": "1", "checkpoint": "2"}

    assert "c at offset 7: topic a: replayed 1, the checkpoint has 2" == difference_text(row)
