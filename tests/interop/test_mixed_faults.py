"""Faults at random in a mixed quorum, for a moment; `make mixed-faults` goes on for half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.interop.mixed_faults", "tests.interop.mixed_quorum", "tests.e2e.cluster")

from tests.interop import mixed_faults  # noqa: E402  # its assertions tell values from here on
from tests.interop.kafka.release import absent  # noqa: E402

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]


async def test_nothing_acknowledged_is_lost_and_all_logs_are_equal(tmp_path: Path) -> None:
    said = await mixed_faults.run(tmp_path, ours=2, kafkas=1, seconds=15, seed=7)

    assert "each there once; equal logs below" in said
