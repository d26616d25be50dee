"""Bugs planted in the glue of the services: each names the test that kills it, and is planted as text in a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutation.tree import ROOT, Tree

CONTROLLER: Final = "services/controller"
TIMEOUT_S: Final = 300.0
HANGS_S: Final = 40.0
"""A test that hangs because of the bug is given up after so long, which is ten times what one takes without a bug: by a
thread that ends the process, as an exception in a loop that spins may be taken by any of its tasks."""
FAILED: Final = 1
"""pytest's exit code when a test has failed; others say that none was run."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """In `file`, `right`, which stands there once, becomes `wrong`; `test` then fails."""

    number: str
    what: str
    file: str
    right: str
    wrong: str
    test: str

    def text(self, root: Path = ROOT) -> str:
        """The file with the bug in it. Raises ValueError if the right text does not stand there exactly once."""
        right = (root / self.file).read_text()
        if (count := right.count(self.right)) != 1:
            raise ValueError(f"{self.number}: {self.right!r} stands {count} times in {self.file}, not once")
        return right.replace(self.right, self.wrong)


class Verdict(NamedTuple):
    """Does the test fail with the bug? That it passes without is shown by the run of all tests."""

    bug: Planted
    kills: bool

    def __str__(self) -> str:
        verdict = "killed" if self.kills else "LIVES"
        return f"| {self.bug.number} | {self.bug.what} | {self.bug.test} | {verdict} |"


def verdicts(tree: Tree, bugs: Iterable[Planted]) -> Iterator[Verdict]:
    """Of each bug, planted in `tree`."""
    given_up = (f"--timeout={HANGS_S:g}", "--timeout-method=thread")
    for bug in bugs:
        with tree.edited(bug.file, bug.text(tree.directory)):
            yield Verdict(bug, tree.pytest([bug.test, *given_up], timeout_s=TIMEOUT_S) == FAILED)


BUGS: Final = (
    Planted(
        number="G1",
        what="reads answered without confirming leadership",
        file=f"{CONTROLLER}/handlers/kinds.py",
        right="        await apis.quorum.confirm(apis.driver.leader_epoch)\n",
        wrong="",
        test="tests/services/controller/test_reading.py::test_who_is_not_confirmed_tells_nothing",
    ),
    Planted(
        number="G1e",
        what="the same, in real processes with a stopped leader",
        file=f"{CONTROLLER}/handlers/kinds.py",
        right="        await apis.quorum.confirm(apis.driver.leader_epoch)\n",
        wrong="",
        test="tests/e2e/test_reads.py::test_a_leader_replaced_unheard_answers_no_read",
    ),
    Planted(
        number="G2",
        what="a call that was passed on is passed on again",
        file=f"{CONTROLLER}/forwarding.py",
        right="                if is_forwarded(context):\n                    raise",
        wrong="                if False:\n                    raise",
        test="tests/services/controller/test_forwarding.py::test_what_was_passed_on_is_not_passed_on_again",
    ),
    Planted(
        number="G2m",
        what="a call that is handed over does not say that it was passed on",
        file=f"{CONTROLLER}/forwarding.py",
        right='metadata=((FORWARDED, "1"), *self._caller(context),',
        wrong="metadata=(*self._caller(context),",
        test="tests/services/controller/test_forwarding.py::test_what_is_handed_over_says_so",
    ),
    Planted(
        number="G3",
        what="answers to voided appends are heard",
        file=f"{CONTROLLER}/quorum_link.py",
        right="        self._void_up_to = self._sent\n",
        wrong="",
        test="tests/services/controller/test_streams.py::test_an_answer_to_what_was_voided_is_not_heard",
    ),
    Planted(
        number="G4",
        what="a renounce keeps the waiting appends",
        file=f"{CONTROLLER}/driver.py",
        right="            self._link.drop()\n            self.engine.renounce()\n",
        wrong="            self.engine.renounce()\n",
        test="tests/services/controller/test_streams.py::test_what_waits_when_leadership_ends_never_leaves",
    ),
    Planted(
        number="G5",
        what="requests leave before what is appended is written",
        file="services/quorum/driver.py",
        right="        appended = [self._appendable(batch) for batch in ready.append]\n",
        wrong="        for send in ready.requests:\n            self._peers.send(send)\n"
        "        appended = [self._appendable(batch) for batch in ready.append]\n",
        test="tests/services/quorum/test_turn_order.py::test_an_epoch_is_not_begun_whose_first_record_could_not_be_written",
    ),
    Planted(
        number="G5v",
        what="votes are asked for before quorum-state is written",
        file="services/quorum/driver.py",
        right="        if ready.election is not None:\n",
        wrong="        for send in ready.requests:\n            self._peers.send(send)\n"
        "        if ready.election is not None:\n",
        test="tests/services/quorum/test_turn_order.py::test_no_vote_is_asked_for_in_an_epoch_that_could_not_be_written",
    ),
    Planted(
        number="G6",
        what="chores run on a standby",
        file=f"{CONTROLLER}/periodic_tasks.py",
        right="if not self._driver.is_active or not chore.is_due",
        wrong="if not chore.is_due",
        test="tests/services/controller/test_chores.py::test_who_stands_by_does_none_of_them",
    ),
    Planted(
        number="G7",
        what="the caller's deadline is ignored when handing over",
        file=f"{CONTROLLER}/forwarding.py",
        right="deadline_ms=max(1, int((ends - self._loop.time()) * 1000)),",
        wrong="deadline_ms=DEADLINE_MS,",
        test="tests/services/controller/test_forwarding.py::test_what_is_handed_over_ends_with_its_callers_patience",
    ),
    Planted(
        number="G8",
        what="the tracker goes on watching fenced brokers",
        file="services/heartbeat/driver.py",
        right="                self.sessions.unwatch(broker.id)\n",
        wrong="                pass\n",
        test="tests/services/heartbeat/test_tracker.py::test_who_is_fenced_is_watched_no_more",
    ),
    Planted(
        number="G9",
        what="the controlled-shutdown offset is one too large",
        file="services/heartbeat/driver.py",
        right="offset=self.replica.applied - 1)",
        wrong="offset=self.replica.applied)",
        test="tests/services/heartbeat/test_tracker.py::"
        "test_who_shuts_down_waits_for_the_last_record_of_its_shutdown_and_no_more",
    ),
    Planted(
        number="G9s",
        what="the controlled-shutdown offset is one too small",
        file="services/heartbeat/driver.py",
        right="offset=self.replica.applied - 1)",
        wrong="offset=self.replica.applied - 2)",
        test="tests/services/heartbeat/test_tracker.py::"
        "test_who_shuts_down_waits_for_the_last_record_of_its_shutdown_and_no_more",
    ),
    Planted(
        number="G10",
        what="states of pages are never let go of",
        file=f"{CONTROLLER}/pages.py",
        right="        self._engine.state.registry.release(offset)\n",
        wrong="",
        test="tests/services/across/test_held_states.py::test_a_state_is_let_go_of_once_nobody_has_read_on",
    ),
    Planted(
        number="G10m",
        what="there may be any number of them",
        file=f"{CONTROLLER}/pages.py",
        right="            if len(self._kept) >= KEPT_MAX:\n",
        wrong="            if False:\n",
        test="tests/services/across/test_held_states.py::test_the_state_that_was_read_longest_ago_makes_room",
    ),
    Planted(
        number="G11",
        what="the checkpoint maker never releases its held snapshot",
        file=f"{CONTROLLER}/snapshots.py",
        right="            engine.state.registry.release(offset)\n",
        wrong="            pass\n",
        test="tests/services/across/test_held_states.py::test_a_checkpoint_lets_go_of_its_state_when_it_is_made",
    ),
    Planted(
        number="G12",
        what="a snapshot by time is never due",
        file=f"{CONTROLLER}/snapshots.py",
        right="bool(size and self._interval_ms and age_ms >= self._interval_ms)",
        wrong="False",
        test="tests/services/across/test_held_states.py::test_a_checkpoint_is_made_when_its_time_has_come",
    ),
    Planted(
        number="G13",
        what="a decision in steps is applied to another state than it was made on",
        file="libs/quorate/controller/engine/engine.py",
        right="                while self._stamp() == begun:\n",
        wrong="                while True:\n",
        test="tests/controller/test_steps.py::"
        "test_a_write_that_slips_in_is_not_overwritten_by_what_was_decided_before_it",
    ),
    Planted(
        number="G13q",
        what="writes do not wait for the decision before them",
        file=f"{CONTROLLER}/decision_queue.py",
        right="        is_free = not self._is_taken\n",
        wrong="        is_free = True\n",
        test="tests/services/controller/test_decision_queue.py::test_a_decision_is_made_once_however_many_writes_come_meanwhile",
    ),
    Planted(
        number="G13e",
        what="who waited for a decision is decided for in an epoch that it did not ask",
        file=f"{CONTROLLER}/decision_queue.py",
        right="        if self._engine.epoch != epoch:\n",
        wrong="        if False:\n",
        test="tests/services/controller/test_decision_queue.py::test_who_loses_leadership_refuses_it_and_who_waits",
    ),
    Planted(
        number="C41",
        what="a forked process has the environment of its server besides its own",
        file="tests/forking/server.py",
        right="    os.environ.clear()\n",
        wrong="",
        test="tests/forking/test_forked.py::test_a_forked_process_starts_and_ends_as_a_plain_one",
    ),
    Planted(
        number="C42",
        what="a forked process that a signal has ended has ended well",
        file="tests/forking/server.py",
        right="os.waitstatus_to_exitcode(status)",
        wrong="status >> 8",
        test="tests/forking/test_forked.py::test_a_signal_ends_a_forked_process_as_a_plain_one",
    ),
)
"""The twelve that a review planted and that no test saw, in its order, and what could go wrong since; a letter behind
the number is a variant."""
