"""Bugs that lose records, keep deleted ones, or change their order: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

PARTITIONS: Final = "tests/services/broker/test_partitions.py"
MOVES: Final = "tests/services/broker/test_moves.py"
RECOVERY: Final = "tests/partition_log/test_recovery.py"
UPKEEP: Final = "tests/services/broker/test_upkeep.py"

RECORD_BUGS: Final = (
    Planted(
        number="C140",
        what="what an fsync that failed has not written is taken for flushed by the next start",
        file="libs/quorate/storage/opening.py",
        right="        last.rewrite(last.position_of(max(course.durable, last.base_offset)))\n",
        wrong="",
        test="tests/storage/test_power_cut.py::test_what_a_failed_fsync_has_not_written_is_written_by_the_next_start",
    ),
    Planted(
        number="C180",
        what="an fsync that fails while a node stops is asked once more, and the mark says that all is on disk",
        file="services/quorum/driver.py",
        right="        if self._peers is None and error is None:\n",
        wrong="        if self._peers is None:\n",
        test="tests/services/quorum/test_driver.py::test_a_flush_that_fails_during_a_stop_is_told_and_never_repeated",
    ),
    Planted(
        number="C183",
        what="a standby hears who leads, and that it has all, only once nobody writes",
        file="services/quorum/controller_events.py",
        right="return found if self._next < high_watermark else [*found",
        wrong="return found if found or self._next < high_watermark else [*found",
        test="tests/services/quorum/test_listener.py"
        "::test_is_told_who_leads_and_that_it_has_all_while_more_is_committed_all_the_time",
    ),
    Planted(
        number="C181",
        what="a power cut takes the directory of a new log, and with it the vote that it has flushed",
        file="services/quorum/disk.py",
        right="        make_directory(self._directory)\n",
        wrong="        self._directory.mkdir(parents=True, exist_ok=True)\n",
        test="tests/services/quorum/test_disk.py::test_the_directory_of_a_new_log_is_durable_where_it_is_named",
    ),
    Planted(
        number="C141",
        what="records are told of before they are on the disk, whatever flush.messages says",
        file="libs/quorate/partition_log/log.py",
        right="if self.leo - self.recovery_point >= self.settings.flush_messages:",
        wrong="if False:",
        test=f"{RECOVERY}::test_with_flush_messages_an_append_is_on_the_disk_before_anybody_hears_of_it",
    ),
    Planted(
        number="C142",
        what="a topic's flush.messages changes nothing",
        file="services/broker/topic_settings.py",
        right='        flush_messages=_whole(state, topic, "flush.messages"),\n',
        wrong="",
        test=f"{PARTITIONS}::test_a_config_of_the_topic_counts_at_once",
    ),
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
    Planted(
        number="B85",
        what="who is stopped while it opens its logs marks them clean, torn as they may be",
        file="services/broker/driver.py",
        right="            if self._store.has_opened_all:",
        wrong="            if True:",
        test=f"{PARTITIONS}::test_a_stop_while_logs_are_opened_leaves_no_mark_and_keeps_the_checkpoints",
    ),
    Planted(
        number="B86",
        what="who is stopped while it opens its logs forgets their log starts, and deleted records are read again",
        file="services/broker/store.py",
        right="every = {each.path: dict(self._checkpoints[each.path][file]) for each in self._directories}",
        wrong="every: dict[Path, dict[TopicPartition, Offset]] = {each.path: {} for each in self._directories}",
        test=f"{PARTITIONS}::test_a_stop_while_logs_are_opened_leaves_no_mark_and_keeps_the_checkpoints",
    ),
    Planted(
        number="B87",
        what="a stop leaves the thread that opens a log to itself, and unlocks the directory",
        file="services/broker/threads.py",
        right="        await asyncio.wait([done])\n",
        wrong="",
        test=f"{PARTITIONS}::test_a_stop_waits_for_the_log_that_is_just_opened",
    ),
    Planted(
        number="B88",
        what="full segments are never flushed: after a kill a flipped bit in the oldest cuts off all that follows",
        file="services/broker/upkeep.py",
        right="                written.end_flush(full)\n",
        wrong="",
        test=f"{UPKEEP}::test_a_full_segment_is_flushed_in_a_thread_and_is_no_more_read_by_a_start",
    ),
    Planted(
        number="B89",
        what="what was truncated during a flush, and written anew, passes for flushed",
        file="libs/quorate/partition_log/log.py",
        right="        self.leo, self._flushing = leo, None\n",
        wrong="        self.leo = leo\n",
        test="tests/partition_log/test_recovery.py::"
        "test_what_is_truncated_while_it_is_flushed_does_not_count_as_flushed",
    ),
    Planted(
        number="B90",
        what="ListOffsets by time answers an offset that is deleted, and the consumer gets OFFSET_OUT_OF_RANGE",
        file="services/broker/offsets.py",
        right="timestamp_ms=timestamp, least=log.start)",
        wrong="timestamp_ms=timestamp, least=0)",
        test="tests/services/broker/test_offsets.py::test_a_time_finds_no_record_that_is_deleted",
    ),
    Planted(
        number="B91",
        what="a copy that has a part of a log takes the place of a replica whose disk is gone, and may lead",
        file="services/broker/store.py",
        right="if copy is None or not (copy.path / READY).exists():",
        wrong="if copy is None:",
        test=f"{MOVES}::test_a_copy_that_has_a_part_takes_no_place",
    ),
    Planted(
        number="B92",
        what="a broker tells what it has read as what it has applied, and its old leader stops before it leads",
        file="services/broker/partitions.py",
        right="            await self._apply_news()\n            self._replicas.applied = end\n",
        wrong="            self._replicas.applied = end\n            await self._apply_news()\n",
        test=f"{PARTITIONS}::test_a_state_is_applied_only_with_what_was_replayed_while_logs_were_opened",
    ),
    Planted(
        number="B165",
        what="a log that was truncated is read where its batches were before",
        file="libs/quorate/storage/sparse_index.py",
        right="                column.pop()\n        self._forget_recent()\n",
        wrong="                column.pop()\n        self._since_entry = 0\n",
        test="tests/storage/test_indexes.py::test_the_batches_from_the_last_entry_on_are_found_without_a_search",
    ),
)
