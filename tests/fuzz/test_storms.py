"""A service that is attacked by TLS goes on to answer a probe, and stays below its memory limit; PINGs are answered."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest
import pytest_asyncio

from deploy.local.plan import Process
from deploy.local.ports import HOST
from deploy.local.processes import Running
from quorate.runtime.calls.server import Server
from tests.fuzz.attacks import ATTACKS, PING, PREFACE, SETTINGS, Door, attack_alone, http2_frame
from tests.fuzz.storms import CHILD, MIB_MAX, door_of, highest_mib, plan_of, worst_wait_s

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
PLAIN_PROCESSES = True  # their memory is looked at

SECONDS: Final = 0.5
"""Of each attack: `python -m tests.fuzz.storms` goes on for longer, at each service, and prints the waits."""
PINGS: Final = 5_000
WITHIN_S: Final = 120
ACK: Final = 1


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """A placer's process, its door, and a process of attackers."""

    placer: Process
    door: Door
    running: Running
    others: ProcessPoolExecutor


@pytest.fixture(scope="module")
def others() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, CHILD) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(tmp_path_factory: pytest.TempPathFactory, others: ProcessPoolExecutor) -> AsyncIterator[Attacked]:
    plan, issuer = plan_of(tmp_path_factory.mktemp("storms"))
    plan.directory.mkdir()
    running = Running(plan)
    try:
        await running.spawn(plan.placer)
        await running.ready([plan.placer])
        yield Attacked(placer=plan.placer, door=door_of(plan.placer, issuer), running=running, others=others)
    finally:
        await running.stop()


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_probe_is_answered_and_memory_stays_below_its_limit(attacked: Attacked, name: str) -> None:
    """Each answer within the probe's deadline, which is a bound against hanging."""
    attack = asyncio.get_running_loop().run_in_executor(attacked.others, attack_alone, attacked.door, name, SECONDS)
    await worst_wait_s(attacked.placer, attack)
    await attack

    assert attacked.running.is_up(attacked.placer)
    assert highest_mib(attacked.running.pid(attacked.placer)) <= MIB_MAX[attacked.placer.service]


async def test_each_of_many_pings_is_answered_on_a_connection_that_stays_open() -> None:
    """A limit to them costs more than the answers: it held other connections for seconds."""
    server = Server()
    port = server.listen(f"{HOST}:0")
    await server.start()
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(PREFACE + http2_frame(SETTINGS, 0, 0))
    writer.write(b"".join(http2_frame(PING, 0, 0, struct.pack(">Q", each)) for each in range(PINGS)))
    answered = []
    async with asyncio.timeout(WITHIN_S):
        while len(answered) < PINGS:
            length, kind, flags, _ = struct.unpack(">IBBI", b"\0" + await reader.readexactly(9))
            payload = await reader.readexactly(length)
            if (kind, flags) == (PING, ACK):
                answered += struct.unpack(">Q", payload)
    writer.close()
    await server.stop(grace_s=0)

    assert list(range(PINGS)) == answered
