"""Stand-ins for brokers that cannot start: their operator learns why, as of any other part of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.broker import BrokerStandIns
from deploy.local.plan import make_plan
from quorate.errors import ApiError


async def test_brokers_whose_control_plane_is_away_fail_with_the_reason_of_one(tmp_path: Path) -> None:
    brokers = BrokerStandIns(make_plan(tmp_path))
    with pytest.raises(ApiError):
        await brokers.start()
    await brokers.close()
