"""UnregisterController: what a refusal names; the rest is in its table."""

from __future__ import annotations

import pytest

from kraft.api.unregister_controller import UnregisterControllerRequest
from quorate.controller.commands.unregister_controller import unregister_controller
from tests.controller.clusters import Cluster


@pytest.mark.parametrize("level", [32, 33])
def test_the_refusal_of_the_active_controller_names_the_field(level: int) -> None:
    command = unregister_controller(UnregisterControllerRequest(3001), active_id=3001)

    assert "controller_id" == Cluster(level).refusal(command).metadata["field"]
