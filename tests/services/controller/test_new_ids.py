"""Ids that the controller makes: as Kafka's `Uuid.randomUuid`, none that a command line takes for an option."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections import deque

import pytest

from kraft.api.create_topics_pb2 import CreateTopicsRequest
from quorate.controller.engine.engine import Engine
from quorate.nouns import parse_uuid
from quorate.random_uuid import random_uuid
from tests.controller.clusters import Cluster
from tests.services.controllers import controller
from tests.services.scripted import quorum_at_work

LIKE_AN_OPTION = b"\xf8" + bytes(range(1, 16))
"""Its text begins with `-`."""
FIT = bytes(range(16))
FIT_V4 = bytes.fromhex("0001020304054607 88090a0b0c0d0e0f")


def draw(monkeypatch: pytest.MonkeyPatch, *draws: bytes) -> None:
    """The machine's chance draws these, in this order."""
    rest = iter(draws)
    monkeypatch.setattr(secrets, "token_bytes", lambda _: next(rest))
    monkeypatch.setattr("quorate.random_uuid.DRAWN", deque())


def test_an_id_that_looks_like_an_option_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    draw(monkeypatch, LIKE_AN_OPTION, LIKE_AN_OPTION, FIT)

    assert FIT_V4 == random_uuid()


FORKED = """
import os
from quorate.random_uuid import random_uuid
random_uuid()
if child := os.fork():
    os.waitpid(child, 0)
print(random_uuid().hex(), flush=True)
"""


def test_a_process_that_is_forked_makes_other_ids_than_its_parent() -> None:
    told = subprocess.run([sys.executable, "-c", FORKED], check=True, capture_output=True, text=True).stdout.split()

    assert 2 == len(told)
    assert told[0] != told[1]


def test_one_call_of_the_kernel_draws_many_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    draw(monkeypatch, bytes(range(32)))
    made = [random_uuid(), random_uuid()]

    assert [FIT_V4, bytes.fromhex("1011121314154617 98191a1b1c1d1e1f")] == made


async def test_a_new_topic_has_a_fit_id(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster().brokers(1)
    async with quorum_at_work() as (quorum, address):
        engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
        async with controller(address, engine=engine) as here:
            quorum.lead(1, epoch=1, next_offset=cluster.next_offset)
            await here.until_active()
            quorum.commit(engine.next_offset)
            draw(monkeypatch, LIKE_AN_OPTION, FIT)
            assignment = CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment(broker_ids=[1])
            topic = CreateTopicsRequest.CreatableTopic(
                name="new", num_partitions=-1, replication_factor=-1, assignments=[assignment]
            )
            written = here.stub.CreateTopics(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), timeout=30)
            await quorum.until(1)
            quorum.commit(engine.next_offset)
            (created,) = (await written).topics

    assert 0 == created.error_code, created.error_message
    assert FIT_V4 == parse_uuid(created.topic_id)
