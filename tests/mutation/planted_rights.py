"""Bugs by which a login, a right, a secret or a process's memory is not as it is to be: each with what kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

RIGHT_BUGS: Final = (
    Planted(
        number="C143",
        what="what admins ask of a release's own brokers is refused by its controllers, without an ACL for the brokers",
        file="services/controller/hops.py",
        right="or (hop.is_envelope and self.processes.may_send_envelopes(who))",
        wrong="",
        test="tests/services/controller/test_passed_on.py::"
        "test_with_rules_for_processes_a_broker_needs_no_entry_for_its_envelopes",
    ),
    Planted(
        number="C144",
        what="a broker by the process rules names whomever it likes in the metadata of a call of its own",
        file="services/controller/hops.py",
        right="(hop.is_envelope and self.processes.may_send_envelopes(who))",
        wrong="self.processes.may_send_envelopes(who)",
        test="tests/services/controller/test_passed_on.py::"
        "test_with_rules_for_processes_a_broker_needs_no_entry_for_its_envelopes",
    ),
    Planted(
        number="C64",
        what="logins that a gateway has answered wait by address alone, and not by name",
        file="libs/quorate/network/driver.py",
        right="self._listening.logins.turn(self.host, event.exchange.name_in(event.message)):",
        wrong="self._listening.logins.turn(self.host):",
        test="tests/network/test_many_callers.py::test_many_logins_of_one_name_do_not_stand_before_that_of_another",
    ),
    Planted(
        number="C65",
        what="the keys of a delegation token are derived anew for each message of a login",
        file="libs/quorate/listeners/scram_logins.py",
        right="@lru_cache(maxsize=TOKENS_REMEMBERED)\n",
        wrong="",
        test="tests/services/controller/test_logins.py::"
        "test_no_password_is_hashed_for_a_login_and_the_keys_of_a_token_once",
    ),
    Planted(
        number="C66",
        what="any API comes through in an Envelope",
        file="services/gateway/envelope.py",
        right="        if api.key not in FORWARDABLE:",
        wrong="        if False:",
        test="tests/services/gateway/test_handler.py::test_an_envelope_that_cannot_be_opened",
    ),
    Planted(
        number="C67",
        what="who may act for the cluster passes on any RPC in another's name",
        file="services/controller/hops.py",
        right="return api in FORWARDABLE or self.is_for_all(hop)",
        wrong="return True",
        test="tests/services/controller/test_passed_on.py::"
        "test_who_may_act_for_the_cluster_passes_on_what_is_forwardable_alone",
    ),
    Planted(
        number="C68",
        what="everybody may read bootstrap.checkpoint, and the SCRAM keys in it",
        file="libs/quorate/cli/formatting.py",
        right="    path.chmod(FILE_MODE)\n",
        wrong="",
        test="tests/cli/test_format.py::test_a_log_directory_is_for_its_owner_alone",
    ),
    Planted(
        number="C69",
        what="salts and keys of a SCRAM user are in what `pipeline run` says of a checkpoint that differs",
        file="services/pipeline/difference_text.py",
        right='frozenset({"scram", "config",',
        wrong='frozenset({"config",',
        test="tests/pipeline/test_difference_text.py::test_what_may_be_a_secret_is_not_printed",
    ),
    Planted(
        number="C70",
        what="children of a busy process die of gRPC's handlers before they begin their program",
        file="libs/quorate/runtime/__init__.py",
        right='os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"\n',
        wrong="",
        test="tests/runtime/test_children.py::test_no_handler_of_grpcs_runs_in_a_fork_whatever_the_environment_says",
    ),
    Planted(
        number="C71",
        what="a refused stream of heartbeats keeps its requests of 4 MiB until a full collection",
        file="services/heartbeat/reading_ahead.py",
        right="        del reading\n",
        wrong="        pass\n",
        test="tests/services/heartbeat/test_reading_ahead.py::"
        "test_a_refused_stream_leaves_neither_its_error_nor_what_its_frames_have",
    ),
    Planted(
        number="C160",
        what="a controller that has replayed the beginning of the log decides who may call",
        file="services/controller/authorizing.py",
        right="not self._engine.is_loaded and ruling",
        wrong="self._engine.next_offset == 0 and ruling",
        test="tests/services/controller/test_without_leader.py::"
        "test_who_is_still_being_sent_what_is_committed_tells_none_of_it_and_denies_nobody",
    ),
    Planted(
        number="C161",
        what="a node that is behind its leader tells its controller that it has all that is committed",
        file="services/quorum/controller_events.py",
        right="if self._committed >= 0 or not self._driver.is_caught_up:",
        wrong="if self._committed >= 0:",
        test="tests/services/quorum/test_listener.py::"
        "test_is_told_that_it_has_all_only_where_the_leader_says_no_more_is_committed",
    ),
    Planted(
        number="C162",
        what="10,000 answers of 256 KiB are remembered for retries",
        file="libs/quorate/controller/engine/deduplication.py",
        right="while len(self._done) > DONE_MAX or self._done_bytes > DONE_BYTES_MAX:",
        wrong="while len(self._done) > DONE_MAX:",
        test="tests/controller/test_repeats.py::test_answers_take_no_more_than_so_many_bytes_and_the_last_one_is_kept",
    ),
    Planted(
        number="C163",
        what="a token is looked for by its HMAC among all that there are",
        file="libs/quorate/metadata/tokens.py",
        right="        if self._key == key and len(self._by_hmac) == len(self._tokens):\n            return\n",
        wrong="",
        test="tests/controller/commands/test_delegation_tokens.py::"
        "test_a_token_is_found_by_its_hmac_without_a_look_at_the_others",
    ),
    Planted(
        number="C164",
        what="a controller leads on without a metadata.version where the bootstrap records are too many for one write",
        file="services/controller/activating.py",
        right="            check_size(decision)\n",
        wrong="",
        test="tests/services/controller/test_faults.py::test_who_cannot_activate_ends",
    ),
    Planted(
        number="C165",
        what="many readers of long lists have the loop at once, and a write waits for a step of each",
        file="services/controller/reads.py",
        right="        return await read_committed(driver, command)\n    except ApiError",
        wrong="        driver.long_reads.leave()\n        answer = await read_committed(driver, command)\n"
        "        await driver.long_reads.enter(QueueLimit.ADMIN)\n        return answer\n    except ApiError",
        test="tests/services/controller/test_decision_queue.py::"
        "test_reads_in_steps_hold_up_no_write_and_are_of_what_was_committed_when_they_began",
    ),
    Planted(
        number="C175",
        what="who has loaded a checkpoint, and none of what was committed after it, decides who may call",
        file="libs/quorate/runtime/following/log_reader.py",
        right="max(self.high_watermark, wanted.end_offset, partition.high_watermark)",
        wrong="max(self.high_watermark, wanted.end_offset)",
        test="tests/runtime/test_log_reader.py::test_what_is_not_in_the_log_any_more_comes_as_a_snapshot",
    ),
)
