"""Bugs in what a gateway answers readers of the log by itself. Each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

FILE: Final = "services/gateway/reader_fetches.py"
TESTS: Final = "tests/services/gateway/test_reader_fetches.py"

READER_BUGS: Final = (
    Planted(
        number="F1",
        what="a reader of an earlier or later epoch is answered, too",
        file=FILE,
        right="(reader.leader_id, reader.leader_epoch) == (self._node_id, epoch)",
        wrong="reader.leader_id == self._node_id",
        test=f"{TESTS}::test_an_answer_of_an_earlier_epoch_is_in_no_later_one",
    ),
    Planted(
        number="F2",
        what="a gateway answers while another node leads",
        file=FILE,
        right="(reader.leader_id, reader.leader_epoch) == (self._node_id, epoch)",
        wrong="reader.leader_epoch == epoch",
        test=f"{TESTS}::test_a_held_fetch_is_the_nodes_while_another_leads_in_the_same_epoch",
    ),
    Planted(
        number="F3",
        what="a log that has parted is gone on with",
        file=FILE,
        right="self._tail.epoch_before(offset) == partition.last_fetched_epoch",
        wrong="self._tail.epoch_before(offset) is not None",
        test=f"{TESTS}::test_who_is_ahead_waits_until_its_records_are_committed_and_are_the_same",
    ),
    Planted(
        number="F4",
        what="the leader never sees a reader that is answered here",
        file=FILE,
        right="now_s >= reader.unseen_since_s + NODE_EVERY_S",
        wrong="now_s < 0",
        test=f"{TESTS}::test_the_node_sees_a_fetch_of_each_reader_before_a_second_is_over",
    ),
    Planted(
        number="F5",
        what="a voter's fetch is answered here, and acknowledges nothing",
        file=FILE,
        right="            and not self._is_voter(request.replica_state.replica_id)\n",
        wrong="",
        test=f"{TESTS}::test_after_a_control_batch_the_voters_are_asked_for_again",
    ),
    Planted(
        number="F6",
        what="a high watermark may fall",
        file=FILE,
        right="return self._tail.end < max(held.partition.fetch_offset, held.reader.high_watermark)",
        wrong="return self._tail.end < held.partition.fetch_offset",
        test=f"{TESTS}::test_no_reader_is_told_a_lower_high_watermark_than_before",
    ),
    Planted(
        number="F7",
        what="records are served that are not committed",
        file="libs/quorate/runtime/following/log_reader.py",
        right="while self._waiting and self._waiting[0][0].next_offset <= position.high_watermark:",
        wrong="while self._waiting:",
        test="tests/runtime/test_log_reader.py::test_what_is_not_committed_is_kept_back",
    ),
    Planted(
        number="F8",
        what="an answer names the leader of an earlier epoch",
        file=FILE,
        right="            and known.epoch == epoch\n",
        wrong="",
        test=f"{TESTS}::test_an_answer_of_an_earlier_epoch_is_in_no_later_one",
    ),
    Planted(
        number="C150",
        what="a caller who may not act for the cluster is answered from the end of the log",
        file="services/gateway/at_once.py",
        right="if self._guard is not None and not self._guard.lets_in(principal):",
        wrong="if self._guard is None and principal.name:",
        test="tests/services/gateway/test_at_once.py::test_a_caller_gets_no_more_than_by_the_handler",
    ),
    Planted(
        number="C170",
        what="a fetch that the leader has to see is counted as seen, and answered at the gateway",
        file="services/gateway/handler.py",
        right=" or self.at_once.reads(request):",
        wrong=":",
        test="tests/services/gateway/test_at_once.py::test_the_node_sees_every_other_fetch_if_it_has_to_see_the_next",
    ),
    Planted(
        number="C171",
        what="a stop does not wait for a request that is handed over meanwhile",
        file="libs/quorate/network/driver.py",
        right="            handed_over.add_done_callback(taken.end)\n",
        wrong="            taken.end()\n",
        test="tests/network/test_taking.py::test_a_stop_waits_for_what_is_handed_over_meanwhile",
    ),
    Planted(
        number="C172",
        what="a task is begun for a connection that has ended, when there may be no more tasks",
        file="libs/quorate/network/driver.py",
        right="        elif self._takes_answers and not self._has_ended:\n",
        wrong="        elif self._takes_answers:\n",
        test="tests/network/test_taking.py::test_nothing_is_handed_over_once_its_connection_ends",
    ),
    Planted(
        number="C151",
        what="a fetch that is held is answered in the epoch of a leader that leads no more",
        file=FILE,
        right="not self._may_serve(held.request, held.partition, held.reader) or (is_due",
        wrong="(is_due",
        test=f"{TESTS}::test_a_held_fetch_is_the_nodes_once_another_leads",
    ),
    Planted(
        number="C152",
        what="a broker whose session was not extended is told that it was",
        file="services/gateway/keep_alives.py",
        right="reply(place not in unanswered)",
        wrong="reply(True)",
        test="tests/services/gateway/test_keep_alives.py::"
        "test_a_heartbeat_that_changes_nothing_is_answered_with_others_and_any_other_by_itself",
    ),
    Planted(
        number="C153",
        what="a broker that wants to shut down is kept alive, and not heard",
        file="services/gateway/keep_alives.py",
        right="if heartbeat.want_fence or heartbeat.want_shut_down or reports:",
        wrong="if heartbeat.want_fence or reports:",
        test="tests/services/gateway/test_keep_alives.py::"
        "test_a_heartbeat_that_changes_nothing_is_answered_with_others_and_any_other_by_itself",
    ),
    Planted(
        number="C173",
        what="a heartbeat service that refuses one call of many is left for another, which stands by",
        file="services/gateway/heartbeats.py",
        right="if failure.code() in NO_ANSWER and self._at == at:",
        wrong="if failure.code() is not grpc.StatusCode.UNIMPLEMENTED and self._at == at:",
        test="tests/services/gateway/test_keep_alives.py::"
        "test_after_a_service_that_is_silent_or_gone_the_next_one_is_asked",
    ),
    Planted(
        number="C154",
        what="a reader whose offset the leader has not taken counts as seen",
        file=FILE,
        right="                reader.unseen_since_s = before_s\n",
        wrong="                pass\n",
        test=f"{TESTS}::test_the_node_is_told_how_far_readers_are_and_sees_the_fetches_of_which_it_is_not_told",
    ),
    Planted(
        number="C155",
        what="a gateway's report moves a voter's log end, and with it the high watermark",
        file="libs/quorate/raft/progress.py",
        right="if context.voters.has(key) or not key.has_id or not 0 <= offset <= committed:",
        wrong="if not key.has_id or not 0 <= offset <= context.log.leo:",
        test="tests/raft/test_reported_readers.py::test_readers_who_were_answered_elsewhere_are_listed_and_acknowledge_nothing",
    ),
    Planted(
        number="C156",
        what="a leader takes what was read in the epoch of another",
        file="services/quorum/driver.py",
        right="if not isinstance(role, Leader) or role.epoch != epoch:\n            return False\n        return self.",
        wrong="if not isinstance(role, Leader):\n            return False\n        return self.",
        test="tests/services/quorum/test_reader_reports.py::"
        "test_the_leader_lists_whom_a_gateway_has_answered_in_its_epoch",
    ),
    Planted(
        number="C157",
        what="a voter that is being added is said to be heard of, and its fetches stay at the gateway",
        file="libs/quorate/raft/progress.py",
        right="            are_all_taken = False\n",
        wrong="",
        test="tests/raft/test_reported_readers.py::test_readers_who_were_answered_elsewhere_are_listed_and_acknowledge_nothing",
    ),
    Planted(
        number="F9",
        what="the log is followed from what is not committed yet, as if it were",
        file="services/gateway/metadata_partition.py",
        right="return (offset, epoch) if offset <= answered.high_watermark else None",
        wrong="return offset, epoch",
        test=f"{TESTS}::test_the_log_is_followed_from_where_all_is_committed_by_the_nodes_word",
    ),
)
