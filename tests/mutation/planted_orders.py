"""Bugs that show only if things come in a rare order: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

ORDER_BUGS: Final = (
    Planted(
        number="B75",
        what="a broker passes on a client's later request while the controller still thinks about the one before",
        file="services/broker/forwarding.py",
        right="writes=True):",
        wrong="writes=False):",
        test="tests/services/broker/test_forwarding.py::"
        "test_of_one_connection_one_request_after_the_other_is_passed_on",
    ),
    Planted(
        number="C120",
        what="a vote that quorum-state has without its directory id is taken for another one",
        file="services/quorum/last_known.py",
        right="not is_same(stored.voted, known.voted)",
        wrong="stored.voted != known.voted",
        test="tests/services/quorum/test_last_known.py"
        "::test_a_vote_is_the_same_where_quorum_state_has_no_directory_ids",
    ),
    Planted(
        number="C121",
        what="an observer that starts again ends where the leader changed in a metadata transaction",
        file="services/observer/state_log.py",
        right="following.changes.clear()",
        wrong="following.take()",
        test="tests/services/observer/test_state_log.py"
        "::test_a_restart_passes_a_metadata_transaction_in_which_the_leader_changed",
    ),
    Planted(
        number="C122",
        what="a reassignment that waits for copies is not looked at when fewer are enough",
        file="libs/quorate/controller/periodic.py",
        right="return set(found.partition.adding_replicas) <= set(found.partition.isr)",
        wrong="return not found.partition.adding_replicas",
        test="tests/controller/test_periodic.py::test_a_reassignment_that_waits_for_copies_ends_once_fewer_are_enough",
    ),
    Planted(
        number="C123",
        what="a broker that comes back, in turns, may be elected in a directory that it has lost",
        file="libs/quorate/controller/commands/change_broker_state.py",
        right="records = (*_without(broker, failed), _change(broker, fenced=_UNFENCE)) if is_same else ()",
        wrong="records = (_change(broker, fenced=_UNFENCE),) if is_same else ()",
        test="tests/controller/test_fan_out.py"
        "::test_a_directory_that_is_lost_at_a_broker_that_comes_back_has_no_leader_in_any_turn",
    ),
    Planted(
        number="C124",
        what="what is kept for a retry lacks the refusals of the first answer",
        file="services/controller/call.py",
        right="return command if self.with_refusals is None else finishing(command, self.with_refusals)",
        wrong="return command",
        test="tests/services/controller/test_authorizing.py"
        "::test_a_retry_is_answered_as_at_first_whatever_rights_have_changed_since",
    ),
    Planted(
        number="C125",
        what="a gateway passes on a request before those before it on its connection are answered",
        file="libs/quorate/listeners/order.py",
        right="await answered.wait()",
        wrong="await asyncio.sleep(0)",
        test="tests/services/gateway/test_waiting.py::test_what_follows_a_write_on_its_connection_finds_its_effect",
    ),
    Planted(
        number="C126",
        what="a gateway has a write wait for the writes before it, and not for the reads",
        file="libs/quorate/listeners/order.py",
        right="if self._writes or is_write]",
        wrong="if is_write]",
        test="tests/services/gateway/test_waiting.py::test_what_follows_a_write_on_its_connection_finds_its_effect",
    ),
    Planted(
        number="B166",
        what="a fetch is held for ever after the timer of one that was answered before its deadline",
        file="services/quorum/driver.py",
        right="                self._set_timer()\n            else:\n",
        wrong="                pass\n            else:\n",
        test="tests/services/quorum/test_driver.py::"
        "test_a_fetch_is_answered_at_its_deadline_though_the_timer_was_set_for_one_that_is_answered_by_then",
    ),
    Planted(
        number="B167",
        what="who has moved is called where it was, though a later voter set says so",
        file="services/quorum/endpoints.py",
        right="        if voters is not self._found_in:\n",
        wrong="        if self._found_in is None:\n",
        test="tests/services/quorum/test_node_endpoints.py::"
        "test_what_was_heard_is_old_once_the_voter_set_says_otherwise",
    ),
    Planted(
        number="B168",
        what="voters whose record was truncated stay in force",
        file="libs/quorate/raft/history.py",
        right="        self.latest = self._values[-1] if self._values else self._base\n",
        wrong="",
        test="tests/raft/test_voters.py::"
        "test_a_set_is_in_force_from_its_record_on_and_falls_back_when_that_is_truncated",
    ),
)
