"""Bugs in the database that an observer keeps: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

KEEPER: Final = "tests/services/observer/test_state_keeper.py"
STATE_LOG: Final = "tests/services/observer/test_state_log.py"

DATABASE_BUGS: Final = (
    Planted(
        number="C130",
        what="PostgreSQL refuses a long name for its index, and the database stands still from there on",
        file="libs/quorate/sql/state_tables.py",
        right='postgresql_using="hash"',
        wrong='postgresql_using="btree"',
        test=f"{KEEPER}::test_names_of_any_length_are_written_to_postgresql_by_record_and_by_checkpoint",
    ),
    Planted(
        number="C131",
        what="what a database refuses for good is told as if the database were away",
        file="services/observer/state_keeper.py",
        right="            if is_away(error):",
        wrong="            if is_away(error) or self._is_taken:",
        test=f"{KEEPER}::test_what_a_database_refuses_is_told_and_is_written_once_it_is_taken",
    ),
    Planted(
        number="C132",
        what="a process that ends before it has filled new columns leaves them empty for good",
        file="libs/quorate/sql/state_schema.py",
        right="    if grown:\n",
        wrong="    if not known:\n",
        test="tests/sql/test_state_database.py::test_a_table_of_an_earlier_release_grows_and_its_rows_with_it",
    ),
    Planted(
        number="C133",
        what="what an earlier release has written after a rollback lacks the values of this one's columns for good",
        file="libs/quorate/sql/state_database.py",
        right="found.whole != whole_at(found.next_offset)",
        wrong="found.whole is None",
        test="tests/sql/test_state_database.py::test_what_an_earlier_release_has_written_in_between_is_made_whole",
    ),
    Planted(
        number="C134",
        what="an observer ends after a rollback, as a later release's view has a column more",
        file="libs/quorate/sql/state_schema.py",
        right="        if not sa.inspect(connection).has_table(name):\n            raise\n        return False\n",
        wrong="        raise\n",
        test=f"{KEEPER}::test_views_of_a_later_release_and_of_others_stay_on_postgresql",
    ),
    Planted(
        number="C135",
        what="an observer ends where a table has grown and somebody's view stands on its history",
        file="libs/quorate/sql/state_tables.py",
        right="dict.fromkeys([*had, *(",
        wrong="dict.fromkeys([*(",
        test=f"{KEEPER}::test_views_of_a_later_release_and_of_others_stay_on_postgresql",
    ),
    Planted(
        number="C136",
        what="a server keeps the lock of a writer for hours whose host has died",
        file="libs/quorate/sql/state_database.py",
        right="for name, value in ALIVE.items():",
        wrong="for name, value in dict[str, int]().items():",
        test=f"{KEEPER}::test_a_server_notices_within_half_a_minute_that_the_host_of_the_writer_has_died",
    ),
    Planted(
        number="C137",
        what="the history does not say from where on it is whole, once its beginning is dropped",
        file="libs/quorate/sql/state_retention.py",
        right='{"after_offset": -1, "until_offset": until, ',
        wrong='{"after_offset": until - 1, "until_offset": until, ',
        test="tests/sql/test_state_database.py::test_what_is_too_old_is_dropped_and_all_that_is_later_is_whole",
    ),
    Planted(
        number="C138",
        what="the retention drops rows that held until after its time",
        file="libs/quorate/sql/state_retention.py",
        right="ms = tables.past.c[TO[0]], tables.past.c[TO[2]]",
        wrong="ms = tables.past.c[TO[0]], tables.past.c.valid_from_ms",
        test="tests/sql/test_state_database.py::test_what_is_too_old_is_dropped_and_all_that_is_later_is_whole",
    ),
    Planted(
        number="B120",
        what="a state of a time that the retention has dropped is answered as of the first change that is left",
        file="services/observer/changes.py",
        right="past.offset_of_state_at(place.timestamp_ms, end=applied)",
        wrong="past.offset_at(place.timestamp_ms, end=applied)",
        test="tests/services/observer/test_state_retention.py"
        "::test_a_state_of_a_time_before_what_the_retention_has_dropped_is_refused",
    ),
    Planted(
        number="B121",
        what="of a gap that an earlier release has noted no time is known, and any is answered",
        file="libs/quorate/sql/state_past.py",
        right="self._first_ms_after(gap) if gap.until_ms is None else gap.until_ms",
        wrong="gap.until_ms or 0",
        test="tests/services/observer/test_state_retention.py"
        "::test_a_state_of_a_time_before_what_the_retention_has_dropped_is_refused",
    ),
    Planted(
        number="B93",
        what="a state of the past lacks the rows that have changed since",
        file="libs/quorate/sql/state_past.py",
        right='((tables.past, holds["past"]), (tables.present, holds["present"])):\n            query',
        wrong='((tables.present, holds["present"]),):\n            query',
        test="tests/services/observer/test_changes.py"
        "::test_by_an_observers_process_the_commands_print_what_they_print_of_the_log",
    ),
    Planted(
        number="B94",
        what="the doctor is asked about the past, and the observer answers about the present",
        file="services/observer/examinations.py",
        right="self._images.tell(at)",
        wrong="self._images.tell()",
        test="tests/services/observer/test_changes.py::test_a_state_of_the_past_is_examined_as_the_doctor_does",
    ),
    Planted(
        number="B97",
        what="the present of an observer that knows no past is shown as the past",
        file="libs/quorate/cli/observer_image.py",
        right="if at is not None and found.as_of_offset != at:",
        wrong="if at is None and found.as_of_offset != at:",
        test="tests/services/observer/test_changes.py"
        "::test_an_observer_that_tells_the_present_alone_is_not_taken_for_the_past",
    ),
    Planted(
        number="B95",
        what="while a database hangs, all of the log is read into memory",
        file="services/observer/state_keeper.py",
        right="if size >= AHEAD_BYTES:",
        wrong="if size < 0:",
        test=f"{STATE_LOG}::test_while_a_database_does_not_take_a_change_no_more_of_the_log_is_read_than_a_part",
    ),
    Planted(
        number="B96",
        what="of what comes while a change is written all but the last is lost",
        file="services/observer/state_keeper.py",
        right="some = waiting.copy()",
        wrong="some = waiting[-1:]",
        test=f"{STATE_LOG}::test_while_a_database_does_not_take_a_change_no_more_of_the_log_is_read_than_a_part",
    ),
)
