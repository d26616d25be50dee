"""Bugs in what an observer says of the past, and of a database that is not what it seems: each names its test."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

GAPS: Final = "tests/services/observer/test_gaps.py"
ANOTHER_LOG: Final = "tests/services/observer/test_another_log.py"

PAST_BUGS: Final = (
    Planted(
        number="C190",
        what="of a part of the log within a gap it is said that nothing has changed",
        file="libs/quorate/sql/state_past.py",
        right="            if begin <= gap.until_offset or",
        wrong="            if begin <= gap.until_offset < end or",
        test=f"{GAPS}::test_a_list_names_each_gap_that_has_a_part_in_it",
    ),
    Planted(
        number="C191",
        what="a watch passes a gap without a word",
        file="services/observer/changes.py",
        right="next_offset=following.offset, gaps=map(gap_message, gaps))",
        wrong="next_offset=following.offset)",
        test=f"{GAPS}::test_a_watch_names_the_gap_that_it_passes",
    ),
    Planted(
        number="C192",
        what="a database of a cluster that was formatted anew with its id is written on",
        file="services/observer/state_keeper.py",
        right="        if is_batch and not self._database.is_replaced and at",
        wrong="        if not is_batch and not self._database.is_replaced and at",
        test=f"{ANOTHER_LOG}::test_what_another_log_has_is_refused",
    ),
    Planted(
        number="C193",
        what="a checkpoint's time is compared with that of a batch, and the log is taken for another one",
        file="libs/quorate/sql/state_database.py",
        right="self.is_replaced = found is not None and _ends_with_gap(connection, found.next_offset)",
        wrong="self.is_replaced = False",
        test=f"{ANOTHER_LOG}::test_the_same_log_is_taken_by_batches_and_from_a_checkpoint_on",
    ),
    Planted(
        number="C194",
        what="a change of a row that is not there is passed over",
        file="libs/quorate/sql/state_writes.py",
        right="            if connection.exec_driver_sql(text, told).rowcount != len(rows) and not count:\n",
        wrong="            if connection.exec_driver_sql(text, told).rowcount < 0:\n",
        test=f"{ANOTHER_LOG}::test_a_change_of_a_row_that_is_not_there_is_refused",
    ),
    Planted(
        number="C195",
        what="a checkpoint of an older epoch takes the place of what the database has",
        file="services/observer/state_keeper.py",
        right="if self._at is not None and event.epoch < self._at.epoch:",
        wrong="if self._at is not None and event.epoch < 0:",
        test=f"{ANOTHER_LOG}::test_what_another_log_has_is_refused",
    ),
    Planted(
        number="C196",
        what="an election that may have been clean is called unclean, as it was in a gap",
        file="services/observer/change_messages.py",
        right="sentence_of_gap(row) if offset in ends else",
        wrong="sentence_of_gap(row) if offset < 0 else",
        test=f"{GAPS}::test_of_what_happened_in_a_gap_nothing_is_inferred",
    ),
    Planted(
        number="C197",
        what="one record of a leader whose clock is ahead drops all of the past",
        file="services/observer/state_keeper.py",
        right="min(at.timestamp_ms, self._clock.wall_ms()) - self._retention_ms",
        wrong="at.timestamp_ms - self._retention_ms",
        test="tests/services/observer/test_state_retention.py::test_a_leader_whose_clock_is_ahead_drops_no_past",
    ),
    Planted(
        number="C198",
        what="a watch goes on behind what the retention has dropped, as if nothing had changed there",
        file="services/observer/changes.py",
        right="    if cursor.offset < (begins := past.begins()):\n",
        wrong="    if cursor.offset < (begins := 0):\n",
        test="tests/services/observer/test_state_retention.py"
        "::test_a_watch_that_the_retention_has_passed_ends_with_the_first_offset_that_is_there",
    ),
    Planted(
        number="C199",
        what="what an upgrade has filled is told as changes, and states of before as if they were whole",
        file="libs/quorate/sql/state_database.py",
        right="            if self.is_grown:\n",
        wrong="            if not self.is_grown and self.is_replaced:\n",
        test="tests/sql/test_state_past.py::test_after_tables_have_grown_the_history_begins_anew",
    ),
    Planted(
        number="C200",
        what="a row of a query takes all memory of the machine, as Python's copy of it is not bounded",
        file="services/observer/query_process.py",
        right="    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_BYTES, PROCESS_BYTES))\n",
        wrong="",
        test="tests/services/observer/test_queries.py"
        "::test_rows_of_long_texts_take_no_more_memory_than_their_process_may_have",
    ),
    Planted(
        number="C201",
        what="a query that is within one function goes on beyond the cap of its time",
        file="services/observer/queries.py",
        right="            async with asyncio.timeout(ANSWERED_S):\n",
        wrong="            async with asyncio.timeout(TAKEN_S):\n",
        test="tests/services/observer/test_queries.py::test_a_function_that_takes_too_long_is_ended_from_outside",
    ),
    Planted(
        number="C203",
        what="a slow caller holds a transaction of the database as long as it likes",
        file="services/observer/changes.py",
        right="                if loop.time() >= ends_s:\n",
        wrong="                if loop.time() < 0:\n",
        test="tests/services/observer/test_changes.py::test_a_state_of_the_past_is_held_for_a_bounded_time",
    ),
    Planted(
        number="C202",
        what="of a damaged database it is said that it may be read later",
        file="services/observer/engines.py",
        right="in DAMAGED_STATES or is_damaged(error.orig)",
        wrong="in DAMAGED_STATES",
        test="tests/services/observer/test_queries.py::test_of_a_database_that_is_damaged_query_and_changes_say_so",
    ),
    Planted(
        number="C204",
        what="each page of a topic sorts all of the topic's past",
        file="libs/quorate/sql/state_tables.py",
        right="            if noun.name in OWNED:\n",
        wrong="            if False:\n",
        test="tests/sql/test_state_past.py::test_a_page_of_a_topic_reads_no_more_of_its_past_than_it_tells",
    ),
    Planted(
        number="C205",
        what="of a schema that is not there it is said for ever that another observer writes it",
        file="libs/quorate/sql/state_database.py",
        right="    if connection.scalar(sa.select(sa.func.current_schema())) is None:\n",
        wrong='    if connection.scalar(sa.select(sa.func.current_schema())) == "":\n',
        test="tests/services/observer/test_state_keeper.py::test_a_schema_that_is_not_there_ends_the_start",
    ),
    Planted(
        number="C206",
        what="a list from an offset to one below it says that nothing has changed",
        file="services/observer/changes.py",
        right="        if end < first:\n",
        wrong="        if end < 0:\n",
        test="tests/services/observer/test_state_retention.py"
        "::test_a_list_of_what_lies_before_the_history_says_so_and_one_backwards_is_refused",
    ),
    Planted(
        number="C207",
        what="a question about the past that begins with a comment is refused",
        file="libs/quorate/sql/as_of.py",
        right='WITH: Final = re.compile(rf"{BLANK}*WITH',
        wrong='WITH: Final = re.compile(rf"\\s*WITH',
        test="tests/sql/test_state_past.py::test_a_query_as_of_an_offset_may_have_comments_and_may_be_explained",
    ),
    Planted(
        number="C208",
        what="a list goes on behind what the retention has dropped between two pages",
        file="services/observer/changes.py",
        right="        if begin.offset < begins:  # the retention",
        wrong="        if begin.offset < 0:  # the retention",
        test="tests/services/observer/test_state_retention.py"
        "::test_a_list_that_the_retention_has_passed_between_two_pages_ends_with_the_first_offset_that_is_there",
    ),
)
