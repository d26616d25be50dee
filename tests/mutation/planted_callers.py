"""Bugs by which one caller stops the others: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

TEXT: Final = "tests/growth/test_text.py::test_text_of_a_caller_costs_no_more_than_its_length"

DECODING: Final = "tests/runtime/test_before_decoding.py"

CALLERS: Final = "tests/network/test_many_callers.py"

CHANGES: Final = "tests/services/observer/test_changes.py"

PAST: Final = "tests/sql/test_kept_reads.py"
TURNS: Final = "tests/services/gateway/test_turns.py"

LONG: Final = "tests/services/controller/test_long_answers.py"

STREAMS: Final = "tests/runtime/test_room.py::test_messages_of_streams_take_room_until_they_are_served"

CALLER_BUGS: Final = (
    Planted(
        number="C1",
        what="a word is looked through again from each of its letters",
        file="libs/quorate/runtime/hidden.py",
        right=r"(?<![\w.-])[\w.-]++(?:",
        wrong=r"[\w.-]+(?:",
        test=TEXT,
    ),
    Planted(
        number="C2",
        what="the end of a word is looked for at each address in it",
        file="libs/quorate/runtime/hidden.py",
        right="if user.end() > word_end:",
        wrong="if True:",
        test=TEXT,
    ),
    Planted(
        number="C3",
        what="a value is logged as long as a caller makes it",
        file="libs/quorate/runtime/hidden.py",
        right='return f"{hidden[:limit]} … {len(text)} characters"',
        wrong="return hidden",
        test="tests/runtime/test_logs.py::test_a_long_value_is_cut_and_no_part_of_a_secret_is_left",
    ),
    Planted(
        number="C4",
        what="a connection is served until it is empty",
        file="libs/quorate/network/server.py",
        right="asyncio.get_running_loop().call_soon(self._take_turn)",
        wrong="self._take_turn()",
        test=f"{CALLERS}::test_each_connection_has_one_request_answered_in_a_turn_of_the_loop",
    ),
    Planted(
        number="C5",
        what="a large request is decoded at once",
        file="libs/quorate/network/fair_turns.py",
        right="        await asyncio.sleep(0)",
        wrong="        continue",
        test=f"{CALLERS}::test_a_large_request_is_decoded_in_steps_and_one_with_too_many_items_is_not",
    ),
    Planted(
        number="C30",
        what="the answer to a large request is encoded at once",
        file="libs/quorate/protocol/messages.py",
        right="    if not has_many_items(message):",
        wrong="    if True:",
        test=f"{TURNS}::test_a_large_answer_is_given_in_turns",
    ),
    Planted(
        number="C31",
        what="the refusal of each item is made at once",
        file="libs/quorate/wire/items.py",
        right="        made.append(convert(item))\n        yield from done.one()",
        wrong="        made.append(convert(item))\n        yield from ()",
        test=f"{TURNS}::test_a_large_request_is_refused_in_turns",
    ),
    Planted(
        number="C32",
        what="a large request is converted at once for the service behind",
        file="libs/quorate/runtime/turns.py",
        right="    if has_many_items(message):",
        wrong="    if False:",
        test=f"{TURNS}::test_a_large_request_is_refused_in_turns",
    ),
    Planted(
        number="C33",
        what="a service's large answer is converted at once",
        file="libs/quorate/runtime/turns.py",
        right="    if message.ByteSize() >= STEP_BYTES:",
        wrong="    if False:",
        test=f"{TURNS}::test_a_large_answer_is_given_in_turns",
    ),
    Planted(
        number="C34",
        what="a request in an envelope may have any number of items",
        file="services/gateway/envelope.py",
        right="        if len(data) > LIMITS.large_bytes:",
        wrong="        if False:",
        test=f"{TURNS}::test_an_envelope_has_no_more_items_than_a_request_without_one",
    ),
    Planted(
        number="C35",
        what="what is generated to work in steps works at once",
        file="libs/quorate/wire/items.py",
        right='    return [f"{indent}{line}" for line in lines]',
        wrong="    return []",
        test="tests/wire/test_items.py::test_no_step_has_more_items_than_it_may",
    ),
    Planted(
        number="C36",
        what="a controller counts the items of a large request at once",
        file="services/controller/servicer.py",
        right="            await in_turns(check_items_in_steps(request))",
        wrong="            tuple(check_items_in_steps(request))",
        test=f"{LONG}::test_a_request_with_many_items_is_checked_and_converted_in_turns",
    ),
    Planted(
        number="C37",
        what="a controller reads what is asked of all resources at once",
        file="libs/quorate/controller/configs/config_changes.py",
        right="listed = yield from each_in_steps(lambda each: each, asked, Items())",
        wrong="listed = tuple(asked)",
        test=f"{LONG}::test_a_request_with_many_items_is_checked_and_converted_in_turns",
    ),
    Planted(
        number="C38",
        what="the long list of one item is encoded at once",
        file="libs/quorate/runtime/turns.py",
        right="        return await in_turns(to_protobuf_in_steps(message))",
        wrong="        return to_protobuf(message)",
        test=f"{LONG}::test_others_have_the_loop_also_within_the_list_of_one_item",
    ),
    Planted(
        number="C39",
        what="the messages of streams take no room in memory",
        file="libs/quorate/runtime/stream_room.py",
        right="if self._room is not None and size > LARGE_BYTES:",
        wrong="if False:",
        test=STREAMS,
    ),
    Planted(
        number="C40",
        what="a message gives its room back as soon as the next one is read",
        file="libs/quorate/runtime/stream_requests.py",
        right="                hold.keep()",
        wrong="                continue",
        test=STREAMS,
    ),
    Planted(
        number="C6",
        what="halves of requests are kept without a limit",
        file="libs/quorate/network/buffers.py",
        right="while self._total > self._limit:",
        wrong="while False:",
        test=f"{CALLERS}::test_halves_of_requests_are_not_kept_beyond_the_limit_of_all_connections",
    ),
    Planted(
        number="C7",
        what="unknown tagged fields are not counted",
        file="libs/quorate/wire/decoder_source.py",
        right='*self._expected("n", "        ")]',
        wrong="]",
        test="tests/wire/test_codec.py::test_unknown_tagged_fields_count_as_items",
    ),
    Planted(
        number="C8",
        what="an envelope is opened for anybody",
        file="services/gateway/handler.py",
        right="            await self._check_right(request, sender)\n",
        wrong="",
        test="tests/services/gateway/test_guard.py::test_an_envelope_is_not_opened_for_who_may_not_pass_requests_on",
    ),
    Planted(
        number="C9",
        what="passwords wait in one row for all",
        file="services/controller/call_logins.py",
        right="await self._turns.begin(*whose)",
        wrong='await self._turns.begin("")',
        test="tests/services/controller/test_call_logins.py::"
        "test_wrong_passwords_do_not_stand_before_the_first_login_of_somebody_else",
    ),
    Planted(
        number="C10",
        what="a request is decoded before anybody is asked for the right",
        file="libs/quorate/runtime/door.py",
        right="return rpc_method_handler(made, None, encode)",
        wrong="return rpc_method_handler(made, lambda data: handler.request_deserializer(data) and data, encode)",
        test=f"{DECODING}::test_the_request_of_a_caller_without_a_right_is_not_decoded",
    ),
    Planted(
        number="C11",
        what="a request may take any memory once it is decoded",
        file="libs/quorate/runtime/decoded_cost.py",
        right="if most > limit.bytes_max:",
        wrong="if False:",
        test=f"{DECODING}::test_a_request_that_would_take_too_much_memory_is_not_decoded",
    ),
    Planted(
        number="C12",
        what="a controller decodes a large request before it asks for the right",
        file="services/controller/authorizing.py",
        right="if not self._ruling(caller, api.right, AclResource(ResourceType.CLUSTER, CLUSTER_NAME)).allowed:",
        wrong="if False:",
        test="tests/services/controller/test_work_in_one_request.py::"
        "test_a_caller_without_the_right_on_the_cluster_hears_nothing_else_of_a_large_request",
    ),
    Planted(
        number="C13",
        what="the refusal of a whole request has its message in each of 100,000 items",
        file="libs/quorate/runtime/refusals.py",
        right="if self._left >= 0 else",
        wrong="if True else",
        test="tests/services/gateway/test_sizes_of_refusals.py::test_a_refusal_is_hardly_larger_than_its_request",
    ),
    Planted(
        number="C14",
        what="connections without a login keep others out",
        file="libs/quorate/network/connections.py",
        right="if (full := room.full) and room.oldest_stranger is None:",
        wrong="if full := room.full:",
        test=f"{CALLERS}::test_who_only_stays_connected_keeps_nobody_out",
    ),
    Planted(
        number="C15",
        what="a connection without a login goes though another one is older",
        file="libs/quorate/network/connections.py",
        right="return next(iter(self._strangers), None)",
        wrong="return next(reversed(self._strangers), None)",
        test=f"{CALLERS}::test_who_only_stays_connected_keeps_nobody_out",
    ),
    Planted(
        number="C16",
        what="large requests of many callers are decoded at once",
        file="libs/quorate/runtime/receiving.py",
        right="return _SMALL if room is None else room.held(host, limit.most(len(data)))",
        wrong="return _SMALL",
        test="tests/runtime/test_room.py::"
        "test_many_large_requests_at_once_are_served_a_few_at_a_time_and_small_ones_at_once",
    ),
    Planted(
        number="C17",
        what="a request that was to have room and has gone keeps it",
        file="libs/quorate/runtime/room.py",
        right="self._give_back(0 if waiting.turn.cancelled() else size)",
        wrong="self._give_back(0)",
        test="tests/runtime/test_room.py::test_turns_go_by_address_and_all_room_is_given_back",
    ),
    Planted(
        number="C18",
        what="wrong passwords of many names stand before another name's",
        file="libs/quorate/network/fair_turns.py",
        right="self._is_for_newest = not self._is_for_newest",
        wrong="self._is_for_newest = False",
        test="tests/services/controller/test_call_logins.py::"
        "test_wrong_names_of_one_address_do_not_stand_before_a_right_one",
    ),
    Planted(
        number="C19",
        what="the history of a password has the password",
        file="libs/quorate/sql/touched.py",
        right="None if record is None else redacted(record)",
        wrong="record",
        test="tests/cli/test_no_secret.py::test_no_secret_of_a_log_is_shown",
    ),
    Planted(
        number="C20",
        what="the system keeps a hundred connections until the loop accepts them",
        file="libs/quorate/network/server.py",
        right=", backlog=LISTEN_BACKLOG)",
        wrong=")",
        test=f"{CALLERS}::test_connections_of_a_burst_are_kept_until_the_loop_accepts_them",
    ),
    Planted(
        number="C21",
        what="who reads nothing of a watch keeps it for ever",
        file="libs/quorate/runtime/call_bounds.py",
        right="        async with asyncio.timeout(within_s):\n",
        wrong="        async with asyncio.timeout(None):\n",
        test=f"{CHANGES}::test_a_watch_that_is_not_read_costs_one_part_and_is_let_go_with_the_reason",
    ),
    Planted(
        number="C22",
        what="a watch goes on for who has lost the right",
        file="services/observer/changes.py",
        right="                    recheck()\n",
        wrong="",
        test=f"{CHANGES}::test_a_watch_ends_for_who_has_lost_the_right",
    ),
    Planted(
        number="C23",
        what="a page that begins within one record's changes tells the next ones twice",
        file="libs/quorate/sql/kept_reads.py",
        right="            skip += self.begun.skip\n",
        wrong="            pass\n",
        test=f"{PAST}::test_a_page_may_end_between_changes_of_one_record_and_rows_beyond_the_most_are_refused",
    ),
    Planted(
        number="C24",
        what="a difference has the rows that were others meanwhile, and are what they were",
        file="libs/quorate/sql/kept_reads.py",
        right="if _has_secret(name, row)}",
        wrong="}",
        test=f"{PAST}::test_what_is_again_as_it_was_is_no_difference",
    ),
    Planted(
        number="C26",
        what="a token that is renewed is nobody's",
        file="libs/quorate/sql/subjects.py",
        right="side.get(column, found.same.get(column))",
        wrong="side.get(column)",
        test=f"{PAST}::test_a_token_is_of_its_owner_when_it_is_made_renewed_and_removed",
    ),
    Planted(
        number="C25",
        what="what was freed between what is in use stays with the process",
        file="libs/quorate/runtime/memory.py",
        right="        self._trim(0)\n",
        wrong="",
        test="tests/runtime/test_memory.py::test_what_was_freed_between_what_is_in_use_goes_back_to_the_system_once",
    ),
    Planted(
        number="C39",
        what="a heartbeat waits for a service that stands still, though another one counts",
        file="services/gateway/heartbeats.py",
        right="timeout=PATIENCE_S, return_when",
        wrong="timeout=None, return_when",
        test="tests/services/gateway/test_heartbeats.py::"
        "test_one_that_stands_still_is_not_waited_for_and_another_is_asked_until_it_counts",
    ),
    Planted(
        number="C40",
        what="a min.insync.replicas that is no number ends each question about it on PostgreSQL",
        file="libs/quorate/sql/views.py",
        right=r"""CAST(coalesce(substring({0} from '^\s*([+-]?[0-9]{{1,18}})'), '0') AS bigint)""",
        wrong="CAST({0} AS bigint)",
        test="tests/services/observer/test_state_keeper.py::test_views_and_past_are_the_same_on_postgresql_and_sqlite",
    ),
    Planted(
        number="C50",
        what="a stream that stands still keeps its messages' room",
        file="libs/quorate/runtime/stream_room.py",
        right="self._oldest.reschedule(next(iter(self._taken.values()), None))",
        wrong="self._oldest.reschedule(None)",
        test="tests/runtime/test_room.py::test_a_message_holds_its_room_no_longer_than_a_call_may_take",
    ),
    Planted(
        number="C51",
        what="each of thousands of calls beyond a limit is refused as soon as it is seen",
        file="libs/quorate/runtime/door.py",
        right="                await late(request)\n",
        wrong="",
        test="tests/runtime/test_server.py::test_refusals_beyond_the_first_wait_and_others_are_served_meanwhile",
    ),
)
