"""Equal states have equal numbers, whatever the order of dicts and the seed of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.records import (
    ConfigRecord,
    FeatureLevelRecord,
    TopicRecord,
    UnknownRecord,
    ZkMigrationStateRecord,
    with_trace,
)
from tests.metadata.histories import write

ROOT = Path(__file__).parents[2]
PROGRAM = """
from random import Random
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from tests.metadata.histories import write
state = ClusterState()
for offset, record in enumerate(write(Random(7), 200)):
    state.apply(record, offset)
print(canonical(state))
"""


def test_is_the_same_under_any_hash_seed() -> None:
    found = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "libs")])}
        found.add(
            subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True).stdout
        )

    assert len(found) == 1
    assert len(found.pop().strip()) == 64


def test_says_nothing_of_the_order_in_which_things_were_made() -> None:
    records = [TopicRecord("b", b"\x01" * 16), TopicRecord("a", b"\x02" * 16), ConfigRecord(2, "a", "x", "1")]
    one, other = ClusterState(), ClusterState()
    for offset, (here, there) in enumerate(zip(records, reversed(records), strict=True)):
        one.apply(here, offset)
        other.apply(there, offset)

    assert canonical(one) == canonical(other)


def test_says_nothing_of_traces_and_of_a_migration_that_never_was() -> None:
    one, other = ClusterState(), ClusterState()
    one.apply(TopicRecord("a", b"\x01" * 16), 0)
    other.apply(with_trace(TopicRecord("a", b"\x01" * 16), b"00-trace"), 5)
    other.apply(ZkMigrationStateRecord(0), 6)

    assert canonical(one) == canonical(other)


def test_a_trace_on_any_record_stays_in_the_log() -> None:
    log = [record for record in write(Random(11), 300) if not isinstance(record, UnknownRecord)]
    plain, traced = ClusterState(), ClusterState()
    for offset, record in enumerate(log):
        plain.apply(record, offset)
        traced.apply(with_trace(record, b"00-trace"), offset)

    assert {len(plain.acls), len(plain.scram), len(plain.delegation_tokens), len(plain.controllers)} != {0}
    assert canonical(plain) == canonical(traced)


def test_tells_states_apart() -> None:
    found = set()
    for level in (None, 25, 33):
        state = ClusterState()
        for offset, record in enumerate(write(Random(3), 40)):
            state.apply(record, offset)
        if level:
            state.apply(FeatureLevelRecord("metadata.version", level), 100)
        found.add(canonical(state))

    assert len(found) >= 2
    assert canonical(ClusterState()) not in found
