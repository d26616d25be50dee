"""Faults at random in a mixed quorum, for a moment; `make mixed-faults` goes on for half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import mixed_faults
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]


async def test_nothing_acknowledged_is_lost_and_all_logs_are_equal(tmp_path: Path) -> None:
    said = await mixed_faults.run(tmp_path, ours=2, kafkas=1, seconds=15, seed=7)

    assert "each there once; equal logs below" in said
