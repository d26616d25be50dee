"""Bugs in what many writes at once share: messages, groups, timers, random bytes. Each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

LINK: Final = "services/controller/quorum_link.py"
QUEUE_TESTS: Final = "tests/services/controller/test_decision_queue.py"
LINK_TESTS: Final = "tests/services/controller/test_quorum_link.py"

WRITE_BUGS: Final = (
    Planted(
        number="F10",
        what="a message leaves before those that still come",
        file=LINK,
        right="        while is_due() and came != self._came and now_s() < ends:\n",
        wrong="        if is_due():\n",
        test=f"{LINK_TESTS}::test_an_append_waits_on_while_others_come",
    ),
    Planted(
        number="F11",
        what="a message waits for others for as long as some come",
        file=LINK,
        right="        while is_due() and came != self._came and now_s() < ends:\n",
        wrong="        while is_due() and came != self._came:\n",
        test=f"{LINK_TESTS}::test_an_append_leaves_after_a_while_though_others_come",
    ),
    Planted(
        number="F12",
        what="a process that is forked makes the ids of its parent",
        file="libs/quorate/random_uuid.py",
        right="os.register_at_fork(after_in_child=DRAWN.clear)\n",
        wrong="",
        test="tests/services/controller/test_new_ids.py::test_a_process_that_is_forked_makes_other_ids_than_its_parent",
    ),
    Planted(
        number="F13",
        what="who is cancelled while its time ends is told of the time only",
        file="libs/quorate/runtime/event_loop/limit.py",
        right="            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:\n",
        wrong="            if task.uncancel() >= 0 and kind is asyncio.CancelledError:\n",
        test="tests/runtime/test_limit.py::test_a_cancellation_by_somebody_else_stays_one",
    ),
    Planted(
        number="F14",
        what="a value of metadata may have bytes that gRPC would not carry",
        file="libs/quorate/runtime/calls/multiplexed_calls.py",
        right='    if not (value.isascii() and (text := value.decode("ascii")).isprintable()):\n',
        wrong='    if not (value.isascii() and (text := value.decode("ascii")) is not None):\n',
        test="tests/runtime/test_multiplexed.py::test_a_malformed_call_is_refused_and_the_next_is_answered",
    ),
    Planted(
        number="F15",
        what="an array that is read has the items of another one that is as long",
        file="libs/quorate/wire/shared.py",
        right="        code = box.SerializeToString()\n",
        wrong="        code = bytes(len(items))\n",
        test="tests/wire/test_shared.py::test_what_was_read_a_short_while_ago_is_not_read_again",
    ),
    Planted(
        number="F52",
        what="an array that is found costs a step nothing, and a message of them is read without letting others in",
        file="libs/quorate/wire/shared.py",
        right="            self.cost = 1 + len(code) // BYTES_PER_ITEM\n",
        wrong="            self.cost = 0\n",
        test="tests/wire/test_shared.py::test_nor_is_it_in_a_large_message_where_it_counts_as_one_item",
    ),
    Planted(
        number="F39",
        what="who asks first after a commit has a commit of its own, though others shared the last one",
        file=LINK,
        right="        return self._count > 1 and not (waiting >= self._count == self._before)\n",
        wrong="        return False\n",
        test=f"{LINK_TESTS}::test_an_append_waits_for_as_many_as_shared_each_of_the_last_two_messages",
    ),
    Planted(
        number="F40",
        what="a new leader waits for those that were answered by the last commit of another epoch",
        file=LINK,
        right="        self._under_way = None\n        self._last = Shared()\n",
        wrong="        self._under_way = None\n",
        test=f"{LINK_TESTS}::test_nobody_is_expected_after_what_was_dropped",
    ),
    Planted(
        number="F41",
        what="callers that are all here are waited for as well",
        file=LINK,
        right=" and not (waiting >= self._count == self._before)\n",
        wrong="\n",
        test=f"{LINK_TESTS}::test_an_append_waits_for_as_many_as_shared_each_of_the_last_two_messages",
    ),
    Planted(
        number="F42",
        what="an append waits for others longer than the commit that it would share with them",
        file=LINK,
        right="        most_s = min(self._group_wait_max_s, self._last.took_s)\n",
        wrong="        most_s = self._group_wait_max_s\n",
        test=f"{LINK_TESTS}::test_nobody_is_waited_for_longer_than_the_last_commit_took",
    ),
    Planted(
        number="F50",
        what="a topic is placed ahead on brokers that are others by now",
        file="services/controller/placed_ahead.py",
        right="        if brokers is not self._brokers:\n",
        wrong="        if not self._brokers:\n",
        test="tests/services/placer/test_placed_ahead.py::test_what_was_placed_ahead_is_of_no_use_once_the_brokers_are_others",
    ),
    Planted(
        number="F51",
        what="a placement that was made ahead is given to two topics",
        file="services/controller/placed_ahead.py",
        right="kind.ready.popleft()",
        wrong="kind.ready[0]",
        test="tests/services/placer/test_placed_ahead.py::test_topics_that_are_alike_are_placed_ahead_many_in_a_message",
    ),
    Planted(
        number="F43",
        what="topics are placed on the brokers that were usable first",
        file="libs/quorate/controller/partitions/new_partitions.py",
        right="        if present != self._of:\n",
        wrong="        if not self._of:\n",
        test="tests/controller/commands/test_create_topics.py::"
        "test_the_usable_brokers_are_found_again_when_one_has_changed_and_not_before",
    ),
    Planted(
        number="F44",
        what="sessions are looked at only when a broker has changed",
        file="services/heartbeat/driver.py",
        right="        return self.replica.state.brokers.registrations(), self.sessions.watched, self.sessions.known\n",
        wrong="        return (self.replica.state.brokers.registrations(),)\n",
        test="tests/services/heartbeat/test_tracker.py::"
        "test_a_session_that_has_ended_begins_anew_while_its_broker_is_unfenced",
    ),
    Planted(
        number="F37",
        what="a caller that goes away takes the placements of those after it",
        file="services/controller/placement_requests.py",
        right="            if caller.done():  # it has gone\n                continue\n",
        wrong="            if caller.done():\n                break\n",
        test="tests/services/placer/test_placer.py::test_who_goes_away_takes_nothing_from_those_that_share_its_message",
    ),
    Planted(
        number="C189",
        what="a caller that goes as its turn comes keeps the turn",
        file="services/controller/decision_queue.py",
        right="            if not turn.cancelled():  # it was given its turn just now\n                self.leave()\n",
        wrong="",
        test=f"{QUEUE_TESTS}::test_who_goes_away_as_its_turn_comes_blocks_nobody",
    ),
    Planted(
        number="F56",
        what="an answer and the write that it answers hold each other",
        file="services/controller/pending.py",
        right="        answered, self.answered = self.answered, None\n",
        wrong="        answered = self.answered\n",
        test="tests/services/controller/test_driver.py::test_an_answer_goes_with_its_caller",
    ),
    Planted(
        number="F38",
        what="the records of an open transaction grant rights",
        file="libs/quorate/controller/engine/committed.py",
        right="engine.state.transactions.open is None and ",
        wrong="",
        test="tests/services/controller/test_committed_rights.py::test_a_transaction_counts_at_its_end",
    ),
)
