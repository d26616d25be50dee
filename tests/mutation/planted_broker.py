"""Bugs of the broker that lose or show what no reader may miss or see: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

TRANSACTIONS: Final = "tests/services/broker/test_transactions.py"
RIGHTS: Final = "tests/services/broker/test_rights.py"
LISTENERS: Final = "tests/services/broker/test_listeners.py"
TURNS: Final = "tests/services/broker/test_turns.py"
ACCESS: Final = "tests/services/broker/test_access_reads.py"
MOVES: Final = "tests/services/broker/test_moves.py"
LOG: Final = "tests/partition_log/test_transactions.py"

BROKER_BUGS: Final = (
    Planted(
        number="B46",
        what="a kill after DeleteRecords, before the log start is noted, costs the records that were not deleted",
        file="libs/quorate/partition_log/recovery.py",
        right="self._ahead = listed if listed and listed[0][1] > log_start else ()",
        wrong="self._ahead: tuple[tuple[Epoch, Offset], ...] = ()",
        test="tests/partition_log/test_recovery.py::test_a_kill_after_the_log_start_is_raised_loses_nothing",
    ),
    Planted(
        number="B47",
        what="a flipped bit in a batch's epoch above the recovery point cuts off all that follows",
        file="libs/quorate/partition_log/recovery.py",
        right=" or isinstance(damage, _WrongEpoch):",
        wrong=":",
        test="tests/partition_log/test_recovery.py::test_an_epoch_that_leader_epoch_checkpoint_has_otherwise_is_damage",
    ),
    Planted(
        number="B40",
        what="acks=all is appended though the ISR is below min.insync.replicas, and its client waits in vain",
        file="libs/quorate/replication/admission.py",
        right="if acks == ACKS_ALL and role.is_under_min_isr:",
        wrong="if False:",
        test="tests/sim_replication/test_parted.py::"
        "test_a_leader_that_is_parted_acknowledges_nothing_with_min_isr_2_and_what_is_lost_with_1",
    ),
    Planted(
        number="B38",
        what="who has logged in with a delegation token is told the others, with their HMACs",
        file="services/broker/access_reads.py",
        right="            if request.is_token:",
        wrong="            if False:",
        test=f"{ACCESS}::test_of_tokens_ones_own_are_told_and_none_to_who_has_logged_in_with_one",
    ),
    Planted(
        number="B39",
        what="a broker tells everybody the users that have SCRAM credentials",
        file="services/broker/access_reads.py",
        right="            caller.check(AclOperation.DESCRIBE, ResourceType.CLUSTER)\n"
        "            return describe_user_scram",
        wrong="            return describe_user_scram",
        test=f"{ACCESS}::test_is_told_to_nobody_without_the_right_on_the_cluster",
    ),
    Planted(
        number="B35",
        what="what is truncated while a replica moves stays in the copy, which takes its place",
        file="services/broker/replicas.py",
        right="            hosted.future.follow(effect)",
        wrong="            pass",
        test=f"{MOVES}::test_what_is_truncated_meanwhile_is_truncated_in_the_copy",
    ),
    Planted(
        number="B36",
        what="a leader whose replica has moved knows nothing of its epoch, which has no record yet",
        file="libs/quorate/partition_log/log.py",
        right="        self.epochs = other.epochs\n        self._verifications",
        wrong="        self._verifications",
        test=f"{MOVES}::test_who_leads_goes_on_in_its_epoch",
    ),
    Planted(
        number="B37",
        what="a copy that was to take a replica's place when the broker was killed is removed, and nothing is left",
        file="services/broker/store.py",
        right="(future := self._futures.pop(key, None)) is not None:",
        wrong="(future := self._futures.pop(key, None)) is not None and False:",
        test=f"{MOVES}::test_a_copy_that_was_about_to_take_the_place_takes_it_at_a_start",
    ),
    Planted(
        number="C72",
        what="a marker is answered before the replicas have it, and the coordinator forgets the transaction",
        file="services/broker/transaction_markers.py",
        right="await self._replicas.reached(required, timeout_ms=WAIT_MS) if required else {}",
        wrong="dict.fromkeys(required, ErrorCode.NONE)",
        test=f"{TRANSACTIONS}::test_a_marker_is_answered_once_the_replicas_have_it",
    ),
    Planted(
        number="C73",
        what="a fetch with read_committed is read up to the high watermark",
        file="services/broker/fetch.py",
        right="Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED",
        wrong="Isolation.READ_UNCOMMITTED",
        test=f"{TRANSACTIONS}::test_a_reader_of_what_is_committed_gets_nothing_of_an_open_transaction",
    ),
    Planted(
        number="C74",
        what="a coordinator is asked for a caller that is gone",
        file="services/broker/transaction_coordinators.py",
        right="if not question.asking and self._pending",
        wrong="if question.asking and self._pending",
        test="tests/services/broker/test_transaction_coordinators.py::test_nobody_is_asked_for_a_caller_that_is_gone",
    ),
    Planted(
        number="C75",
        what="a fetch session forgets a partition when another one is added",
        file="services/broker/fetch_sessions.py",
        right="            if known is None:\n                session.partitions[each.name] = _Told(each)",
        wrong="            if known is None:\n                session.partitions.popitem()\n"
        "                session.partitions[each.name] = _Told(each)",
        test="tests/services/broker/test_fetch_sessions.py::"
        "test_a_session_has_what_was_said_before_without_what_is_forgotten",
    ),
    Planted(
        number="C76",
        what="a coordinator that another one has replaced ends transactions",
        file="libs/quorate/partition_log/producers.py",
        right="if end.marker.coordinator_epoch < known.coordinator_epoch:",
        wrong="if False:",
        test=f"{LOG}::test_which_markers_end_a_transaction",
    ),
    Planted(
        number="C77",
        what="a batch that was on its way when its transaction ended opens one that nobody ends",
        file="libs/quorate/partition_log/log.py",
        right="        self._verifications.end(header)\n",
        wrong="",
        test=f"{LOG}::test_a_batch_that_was_on_its_way_when_its_transaction_ended_opens_none",
    ),
    Planted(
        number="C78",
        what="a request of a producer overtakes the one before, whose coordinator is asked",
        file="services/broker/verification.py",
        right="        async with turn:\n            yield",
        wrong="        _ = turn\n        yield",
        test=f"{TRANSACTIONS}::test_the_requests_of_a_producer_are_appended_in_their_order",
    ),
    Planted(
        number="C79",
        what="after a truncation what was decided holds readers up until the next commit",
        file="libs/quorate/partition_log/log.py",
        right="        self.commit(min(self._committed, leo))",
        wrong="        _ = (self._committed, leo)",
        test=f"{LOG}::test_a_truncation_leaves_what_was_decided_and_committed_decided",
    ),
    Planted(
        number="C84",
        what="a topic is written to by who may not",
        file="services/broker/produce.py",
        right="self._cluster.check(caller, AclOperation.WRITE,",
        wrong="self._cluster.check(caller, AclOperation.DESCRIBE,",
        test=f"{RIGHTS}::test_each_api_takes_its_right_on_the_topic",
    ),
    Planted(
        number="C85",
        what="whoever says that it is a replica reads what it likes, and beyond what is committed",
        file="services/broker/fetch.py",
        right="elif not caller.may_on_cluster(AclOperation.CLUSTER_ACTION):",
        wrong="elif False:",
        test=f"{RIGHTS}::test_a_replica_needs_the_right_of_brokers_and_none_on_topics",
    ),
    Planted(
        number="C86",
        what="Metadata tells of a topic that the caller may not describe",
        file="services/broker/cluster.py",
        right="if (topic is not None or not by_id) and not caller.may(",
        wrong="if topic is None and not by_id and not caller.may(",
        test=f"{RIGHTS}::test_metadata_hides_what_the_caller_may_not_describe",
    ),
    Planted(
        number="C87",
        what="anybody ends anybody's transactions",
        file="services/broker/transaction_markers.py",
        right="self._written(request, _refusal(caller))",
        wrong="self._written(request, None)",
        test=f"{RIGHTS}::test_markers_are_of_those_who_may_act_for_the_cluster",
    ),
    Planted(
        number="C88",
        what="a partition that a producer may not write to becomes part of its transaction",
        file="services/broker/produce.py",
        right="await self._verifier.verified(allowed, version, transaction)",
        wrong="await self._verifier.verified(request, version, transaction)",
        test=f"{RIGHTS}::test_a_transaction_is_of_those_who_may_write_by_its_id",
    ),
    Planted(
        number="C89",
        what="a user who is in the log does not log in, as the broker has not read it yet",
        file="services/broker/logins.py",
        right="        await self._begun.wait()\n",
        wrong="",
        test=f"{LISTENERS}::test_a_login_waits_until_the_broker_has_caught_up",
    ),
    Planted(
        number="C90",
        what="a broker speaks to others with the certificates of its start for ever",
        file="services/broker/peers.py",
        right="tls = None if self.tls is None else self.tls()",
        wrong="tls = self._config.tls",
        test=f"{LISTENERS}::test_a_broker_logs_in_at_another_over_tls_and_takes_new_files",
    ),
    Planted(
        number="C91",
        what="a large Produce holds the loop while its partitions are looked up",
        file="services/broker/produce.py",
        right="done.many(PER_BATCH)\n            yield from done.one()\n        return found",
        wrong="()\n        return found",
        test=f"{TURNS}::test_no_turn_works_on_all_items_of_a_request",
    ),
    Planted(
        number="C92",
        what="a large fetch session begins in one turn of the loop",
        file="services/broker/fetch_sessions.py",
        right="            partitions[each.name] = _Told(each)\n            yield from done.many(PER_PARTITION)",
        wrong="            partitions[each.name] = _Told(each)",
        test=f"{TURNS}::test_no_turn_works_on_all_items_of_a_request",
    ),
    Planted(
        number="C93",
        what="a broker describes all topics of a request in one turn of the loop",
        file="services/broker/reads.py",
        right="(await in_turns(steps_of(command, state, moment))).response",
        wrong="command(state, moment).response",
        test=f"{TURNS}::test_no_turn_works_on_all_items_of_a_request",
    ),
    Planted(
        number="C94",
        what="each segment keeps its files open, and very many end the broker",
        file="libs/quorate/partition_log/open_files.py",
        right="if len(self._open) > self._at_most:",
        wrong="if False:",
        test="tests/partition_log/test_open_files.py::test_a_log_of_many_segments_is_written_read_and_opened_again",
    ),
    Planted(
        number="C95",
        what="a log that is opened opens all of its segments",
        file="libs/quorate/partition_log/recovery.py",
        right="            found.segments[-1].share()\n",
        wrong="",
        test="tests/partition_log/test_open_files.py::test_a_log_of_many_segments_is_written_read_and_opened_again",
    ),
    Planted(
        number="C96",
        what="a caller by gRPC is somebody else than on Kafka's wire, and what it is denied there is not denied here",
        file="services/broker/config.py",
        right=", principal_rules=self.grpc_principal_rules",
        wrong="",
        test=f"{LISTENERS}::test_a_caller_by_grpc_is_who_it_is_on_kafkas_wire",
    ),
    Planted(
        number="C97",
        what="as many large requests are decoded at once as may wait: at a broker 64, of 15 MiB each",
        file="libs/quorate/network/server.py",
        right="async with self._listening.decoding.turn(self.host):",
        wrong="async with asyncio.timeout(None):",
        test="tests/network/test_many_callers.py::"
        "test_few_large_requests_are_decoded_at_once_where_many_may_be_under_way",
    ),
    Planted(
        number="C98",
        what="the fields of audit lines that are not written are made, which takes longer than the decisions",
        file="libs/quorate/runtime/audit.py",
        right="    if log.tells_debug or not ruling.allowed:",
        wrong="    if ruling:",
        test="tests/services/controller/test_audit.py::test_nothing_is_made_of_a_permission_that_nobody_reads",
    ),
    Planted(
        number="C99",
        what="consumers' fetch sessions take all the room there is, whoever begins them",
        file="services/broker/fetch_sessions.py",
        right="return not of_follower and self._of_consumers + count > self._of_consumers_max",
        wrong="return False",
        test="tests/services/broker/test_fetch_sessions.py::test_consumers_leave_room_for_followers",
    ),
)
