"""A controller's callers that leave while their request is decided: it runs to its end, and nothing is left unheard."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kraft.api.unregister_broker_pb2 import UnregisterBrokerRequest
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from services.controller.outliving import to_the_end
from tests.controller.clusters import Cluster
from tests.services.controllers import controller
from tests.services.scripted import quorum_at_work


async def unheard() -> list[str]:
    """What asyncio says of tasks whose exception nobody has asked for."""
    found: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(str(context["message"])))
    await asyncio.sleep(0.3)
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    return found


async def test_a_refusal_that_comes_when_the_caller_has_gone_is_no_lost_exception() -> None:
    """It rests on a write that is not committed yet, so the caller waits for that; and then waits no more."""
    cluster = Cluster().brokers(1, 2)
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine, settings=ControllerSettings()) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            written = here.stub.UnregisterBroker(UnregisterBrokerRequest(broker_id=2), timeout=30)
            await quorum.until(1)
            refused = here.stub.UnregisterBroker(UnregisterBrokerRequest(broker_id=7), timeout=30)
            await asyncio.sleep(0.2)
            refused.cancel()
            await asyncio.sleep(0.2)
            quorum.commit(engine.next_offset)

            assert not (await written).error_code
            assert [] == await unheard()


async def test_work_goes_on_when_its_caller_has_gone() -> None:
    done, may_go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_go_on.wait()
        done.set()
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 7 is not registered")

    caller = asyncio.ensure_future(to_the_end(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    del caller  # what it holds is looked at only when nothing else holds it
    may_go_on.set()

    assert [] == await unheard()
    assert done.is_set()


async def test_who_stays_is_told() -> None:
    async def refuse() -> None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 7 is not registered")

    with pytest.raises(ApiError, match="broker 7 is not registered"):
        await to_the_end(refuse())
