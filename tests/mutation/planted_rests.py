"""Bugs planted in what replicas fetch and store, and in what lets partitions rest in a fetch session."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

TESTS: Final = "tests/services/broker/test_resting.py"
TOLD: Final = "test_what_happens_to_one_that_rests_is_told_and_its_follower_was_caught_up_until_then"
ROOM: Final = "test_a_fetch_that_waits_makes_room_for_one_of_what_is_led_now"

PRODUCERS: Final = "tests/partition_log/test_producers.py"
CLEANED: Final = "test_what_a_log_cleaner_has_left_empty_says_what_its_producer_has_sent"

FETCHED: Final = "tests/services/broker/test_fetched_batches.py"

REST_BUGS: Final = (
    Planted(
        number="B126",
        what="a record does not wake a partition that rests",
        file="services/broker/replicas.py",
        right="        self.resting.wake(key)\n        self._answer",
        wrong="        self._answer",
        test=f"{TESTS}::{TOLD}",
    ),
    Planted(
        number="B127",
        what="a replica that is in no ISR rests, and is never proposed",
        file="libs/quorate/replication/leading.py",
        right="return is_at_end and replica in committed_of(self.state).isr",
        wrong="return is_at_end",
        test=f"{TESTS}::test_a_replica_outside_the_isr_does_not_rest",
    ),
    Planted(
        number="B128",
        what="the fetches of a follower whose partition rests do not count, and it leaves the ISR with the next record",
        file="services/broker/resting.py",
        right="        progress.repeat_fetch(self.fetched_at_ms)\n",
        wrong="",
        test=f"{TESTS}::{TOLD}",
    ),
    Planted(
        number="B129",
        what="partitions that rest are fetched for whoever has the session",
        file="services/broker/fetch_sessions.py",
        right="        if session.rest.follower == follower:",
        wrong="        if follower != session.rest:",
        test=f"{TESTS}::test_a_follower_that_may_no_more_and_a_partition_that_goes_are_refused",
    ),
    Planted(
        number="B130",
        what="a follower does not say everything to a leader that knows nothing of it",
        file="services/broker/fetcher.py",
        right="        if self._session.is_new:\n            self._rouse()\n",
        wrong="",
        test=f"{TESTS}::test_a_follower_has_what_its_leader_has_whatever_rests",
    ),
    Planted(
        number="B131",
        what="a log start that retention moves is told to nobody",
        file="services/broker/replicas.py",
        right="        self.touch(hosted.key)\n        self.fetchers.look_again(hosted)",
        wrong="        self.fetchers.look_again(hosted)",
        test=f"{TESTS}::test_a_log_start_that_moves_is_told",
    ),
    Planted(
        number="B132",
        what="what ends in an epoch before the leader's is looked at with each fetch, until somebody writes",
        file="libs/quorate/replication/admission.py",
        right="        return _place(role, position) is None\n",
        wrong="        return position.last_fetched_epoch == role.local.log.epochs.last_epoch\n",
        test=f"{TESTS}::test_what_ends_in_an_earlier_epoch_rests_too",
    ),
    Planted(
        number="B150",
        what="a start applies states of the metadata log that its disks are ahead of",
        file="services/broker/driver.py",
        right=", begins=self._is_registered",
        wrong="",
        test="tests/services/broker/test_partitions.py::test_a_start_applies_no_state_of_before_its_registration",
    ),
    Planted(
        number="B153",
        what="a follower that has lost its end counts as caught up, by what its process of before has said",
        file="libs/quorate/replication/progress.py",
        right="        if self.leo == self.leader_leo and (self.last_fetch_at_ms or 0) < at_ms:",
        wrong="        if (self.last_fetch_at_ms or 0) <= at_ms or self.leo is not None:",
        test=f"{TESTS}::test_a_follower_that_has_lost_its_end_is_not_caught_up_by_what_it_said_before",
    ),
    Planted(
        number="B154",
        what="a partition that goes while its leader is sought is asked for, again and again",
        file="services/broker/fetcher.py",
        right="part for part in parts if part.hosted.partition.role is part.role",
        wrong="part for part in parts",
        test=f"{TESTS}::test_a_partition_that_goes_while_its_leader_is_sought_is_not_asked_for",
    ),
    Planted(
        number="B155",
        what="a start leaves epochs of lost records in leader-epoch-checkpoint, and the next takes others for damage",
        file="libs/quorate/partition_log/recovery.py",
        right="        if any(start >= leo for _, start in listed):",
        wrong="        if not listed:",
        test="tests/partition_log/test_recovery.py::"
        "test_epochs_that_are_listed_and_lost_are_not_those_of_the_records_that_follow",
    ),
    Planted(
        number="B151",
        what="a search by time goes on in the closed files of a partition that is gone, as if the disk had failed",
        file="services/broker/offsets.py",
        right="                here = self._cluster.hosted(NO_TOPIC_ID, *hosted.name)\n",
        wrong="                here = hosted\n",
        test="tests/services/broker/test_offsets.py::test_a_search_ends_when_its_partition_goes",
    ),
    Planted(
        number="B152",
        what="a log that loses no record is read anew in the event loop",
        file="libs/quorate/partition_log/log.py",
        right="        if to == self.leo:  # a follower",
        wrong="        if to > self.leo:  # a follower",
        test="tests/partition_log/test_recovery.py::test_an_epoch_without_a_record_goes_and_nothing_is_read",
    ),
    Planted(
        number="B133",
        what="the recovery point rises above leader epochs that are not on the disk",
        file="libs/quorate/partition_log/flushing.py",
        right="        _flush(self.directory / LEADER_EPOCHS)\n",
        wrong="",
        test="tests/partition_log/test_recovery.py::"
        "test_what_is_flushed_beside_appends_is_not_cut_off_by_a_flipped_bit",
    ),
    Planted(
        number="B134",
        what="a marker that Kafka's log cleaner has left empty is taken for damage",
        file="libs/quorate/partition_log/markers.py",
        right="    if header.count == CLEANED:\n        return None\n",
        wrong="",
        test=f"{PRODUCERS}::{CLEANED}",
    ),
    Planted(
        number="B135",
        what="a follower refuses each answer with a batch that Kafka's log cleaner has left empty",
        file="services/broker/fetcher.py",
        right="fetched_batches(records, count_min=CLEANED)",
        wrong="fetched_batches(records)",
        test=f"{FETCHED}::test_what_a_log_cleaner_has_left_empty_is_followed",
    ),
    Planted(
        number="B136",
        what="a search by time ends at a batch that has no record",
        file="libs/quorate/partition_log/segment.py",
        right=" and header.count > CLEANED",
        wrong="",
        test=f"{PRODUCERS}::{CLEANED}",
    ),
    Planted(
        number="B137",
        what="ListOffsets answers with a batch that has no record, the last one that was looked at",
        file="services/broker/offsets.py",
        right=" or header.count == CLEANED",
        wrong="",
        test="tests/services/broker/test_offsets.py::test_a_time_finds_no_batch_that_a_log_cleaner_has_left_empty",
    ),
    Planted(
        number="B141",
        what="a partition that a Produce names twice is acknowledged with the batch that is committed first",
        file="services/broker/produce.py",
        right="= max(each.end, required.get(each.key, 0))",
        wrong="= each.end",
        test="tests/services/broker/test_transactions.py::"
        "test_a_partition_that_is_named_twice_is_acknowledged_with_the_later_batch",
    ),
    Planted(
        number="B142",
        what="a transaction that has ended counts as open for the index of aborted ones until that is committed",
        file="libs/quorate/partition_log/producers.py",
        right="        return next(iter(self._open), decided.last_offset + 1)",
        wrong="        return next(iter(self._undecided), decided.last_offset + 1)",
        test=f"{PRODUCERS}::test_transactions_end_in_another_order_than_they_begin",
    ),
    Planted(
        number="B143",
        what="a transaction counts as decided before its marker is committed",
        file="libs/quorate/partition_log/producers.py",
        right="self._decided[0].last_offset < high_watermark",
        wrong="self._decided[0].last_offset <= high_watermark",
        test=f"{PRODUCERS}::test_transactions_end_in_another_order_than_they_begin",
    ),
    Planted(
        number="B144",
        what="a consumer is told of all aborted transactions up to the last stable offset with each fetch",
        file="services/broker/fetch.py",
        right="    for each in hosted.log.aborted(start, end):",
        wrong="    for each in hosted.log.aborted(start, max(bound, end)):",
        test="tests/services/broker/test_transactions.py::"
        "test_a_reader_is_told_of_the_aborted_transactions_among_what_it_gets",
    ),
    Planted(
        number="B145",
        what="an aborted transaction whose marker is read first is told of to nobody",
        file="libs/quorate/partition_log/aborted.py",
        right="    first = bisect_left(markers",
        wrong="    first = 1 + bisect_left(markers",
        test=f"{PRODUCERS}::test_transactions_end_in_another_order_than_they_begin",
    ),
    Planted(
        number="B148",
        what="a search by time reads all records of a batch in one turn of the loop",
        file="libs/quorate/partition_log/stored_records.py",
        right="        if not number % ITEMS_PER_STEP:\n            yield\n",
        wrong="",
        test="tests/services/broker/test_offsets.py::test_a_search_within_a_batch_goes_on_in_steps",
    ),
    Planted(
        number="B149",
        what="a search by time decompresses a batch in one turn of the loop",
        file="libs/quorate/partition_log/stored_records.py",
        right="        if pieces:\n            yield\n",
        wrong="",
        test="tests/services/broker/test_offsets.py::test_a_search_within_a_batch_goes_on_in_steps",
    ),
    Planted(
        number="B138",
        what="a follower whose leader's batch has come with a bit flipped fetches no more in this leader epoch",
        file="libs/quorate/replication/following.py",
        right="        self.local.lower_to(leo)\n        self._back_off(why, now_ms)\n",
        wrong="        self.local.lower_to(leo)\n        self._fail(why)\n",
        test=f"{FETCHED}::test_a_batch_that_is_not_what_it_was_is_fetched_again",
    ),
    Planted(
        number="B139",
        what="a follower counts as committed what its log has refused",
        file="libs/quorate/replication/following.py",
        right="        self.local.lower_to(leo)\n        self._back",
        wrong="        self._back",
        test="tests/replication/test_following.py::test_what_the_log_refuses_is_fetched_again_after_a_while",
    ),
    Planted(
        number="B140",
        what="a leader's bad batch has a line in the follower's log with each fetch",
        file="services/broker/fetcher.py",
        right="        elif self._told.passes(hosted.key, role.failure, asyncio.get_running_loop().time()):\n",
        wrong="        else:\n",
        test=f"{FETCHED}::test_a_batch_that_is_not_what_it_was_is_fetched_again",
    ),
    Planted(
        number="B156",
        what="a follower's fetch waits on while another partition of it has a new leader here",
        file="services/broker/awaited.py",
        right="                self._end(wait)\n",
        wrong="                pass\n",
        test=f"{TESTS}::{ROOM}",
    ),
    Planted(
        number="B157",
        what="a follower that has fetched what is led now is awaited for ever",
        file="services/broker/fetch.py",
        right="        self._replicas.awaited.heard(by.sender, hosted.key)\n",
        wrong="",
        test=f"{TESTS}::{ROOM}",
    ),
    Planted(
        number="B158",
        what="a follower that has heard of an epoch before its leader waits as after any other refusal",
        file="libs/quorate/replication/following.py",
        right="        if error in EARLY:\n",
        wrong="        if error in ():\n",
        test="tests/replication/test_following.py::"
        "test_a_leader_that_has_not_heard_of_its_epoch_is_asked_again_soon_and_then_less_often",
    ),
    Planted(
        number="B159",
        what="a fetch waits beyond the time at which a partition that was refused is to be asked for again",
        file="services/broker/fetcher.py",
        right="min(WAIT_MS, resumes_ms)",
        wrong="WAIT_MS",
        test=f"{TESTS}::test_a_fetch_waits_no_longer_than_until_one_that_was_refused_is_asked_for_again",
    ),
)
