"""Bugs of the broker that lose records, keep deleted ones, or change their order: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

PARTITIONS: Final = "tests/services/broker/test_partitions.py"

RECORD_BUGS: Final = (
    Planted(
        number="B83",
        what="a leader that is deposed with a lower min.insync.replicas acknowledges what nobody else has",
        file="libs/quorate/replication/partition.py",
        right="            self.role.min_insync_replicas = min_insync_replicas\n",
        wrong="            self.role.min_insync_replicas = min_insync_replicas\n"
        "            return self.role.advance(now_ms) + self.apply(registration, now_ms=now_ms)\n",
        test=f"{PARTITIONS}::test_who_is_deposed_with_a_lower_min_isr_acknowledges_nothing",
    ),
    Planted(
        number="B84",
        what="a producer's large request is overtaken by its next one, on the same connection",
        file="services/broker/produce.py",
        right="self._arrived.turn(caller.connections)",
        wrong="self._arrived.turn(frozenset())",
        test="tests/services/broker/test_turns.py::test_a_connections_requests_are_appended_in_their_order",
    ),
)
