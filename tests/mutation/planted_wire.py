"""Bugs planted in Kafka's wire protocol: codec, connections, logins, observer. Each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

PROTOCOL: Final = "libs/quorate/protocol"
CONNECTION: Final = "tests/protocol/test_connection.py"
SASL: Final = "tests/protocol/test_sasl.py"
OBSERVER: Final = "tests/network/test_observer.py"

WIRE_BUGS: Final = (
    Planted(
        number="W1",
        what="ApiVersions is answered under the header of its version",
        file=f"{PROTOCOL}/apis.py",
        right="return 1 if self.key != API_VERSIONS and layout_of",
        wrong="return 1 if layout_of",
        test=f"{CONNECTION}::test_a_client_that_names_itself_badly_is_refused_and_stays_connected",
    ),
    Planted(
        number="W2",
        what="answers leave as they come",
        file=f"{PROTOCOL}/server.py",
        right="        while self._slots and self._slots[0].is_filled:\n"
        "            slot = self._slots.popleft()\n"
        "            self._in_flight_bytes -= slot.size + slot.answer_bytes\n"
        "            self._out += slot.pieces",
        wrong="        self._slots.remove(slot)\n        self._out += slot.pieces",
        test=f"{CONNECTION}::test_answers_go_out_in_the_order_of_the_requests",
    ),
    Planted(
        number="W3",
        what="any number of requests is in flight",
        file=f"{PROTOCOL}/server.py",
        right="return len(self._slots) < self._settings.in_flight_max",
        wrong="return True",
        test=f"{CONNECTION}::test_a_client_that_sends_more_than_is_allowed_in_flight_is_not_read_from",
    ),
    Planted(
        number="W4",
        what="a negative size and a zero one are waited for",
        file=f"{PROTOCOL}/frames.py",
        right="if not 0 < size <= self.size_max:",
        wrong="if size > self.size_max:",
        test=f"{CONNECTION}::test_bad_bytes_close_the_connection_and_name_field_value_and_rule",
    ),
    Planted(
        number="W5",
        what="a response is taken for another request's",
        file=f"{PROTOCOL}/client.py",
        right="if header.correlation_id != sent.correlation_id:",
        wrong="if False:",
        test=f"{CONNECTION}::test_a_response_that_nobody_asked_for_or_out_of_order_closes_the_connection",
    ),
    Planted(
        number="W6",
        what="a length before KIP-482 is not compared with the bytes that there are",
        file="libs/quorate/wire/decoder_source.py",
        right="return [] if self.flexible else",
        wrong="return [] if True else",
        test="tests/wire/test_codec.py::test_before_flexible_versions_a_last_field_that_is_cut_short_is_seen",
    ),
    Planted(
        number="W7",
        what="channel binding can be stripped",
        file=f"{PROTOCOL}/sasl/scram.py",
        right="if final.channel != first.gs2_header.encode():",
        wrong="if False:",
        test=f"{SASL}::test_scram_refuses_another_nonce_another_channel_and_a_second_exchange",
    ),
    Planted(
        number="W8",
        what="a session is renewed by another user",
        file=f"{PROTOCOL}/sasl/server.py",
        right="if self._renewed is not None and self._renewed.login.principal != login.principal:",
        wrong="if False:",
        test=f"{SASL}::test_a_renewal_keeps_user_and_mechanism",
    ),
    Planted(
        number="W9",
        what="a session never ends",
        file=f"{PROTOCOL}/sasl/session.py",
        right="self.expires_at_ms is not None and now_ms > self.expires_at_ms",
        wrong="False",
        test=f"{SASL}::test_a_session_that_has_ended_is_closed_at_the_next_request",
    ),
    Planted(
        number="W10",
        what="a server without the credential passes for one",
        file=f"{PROTOCOL}/sasl/scram.py",
        right="if not hmac.compare_digest(final.signature, expected):",
        wrong="if False:",
        test=f"{SASL}::test_a_client_refuses_a_server_without_the_credential",
    ),
    Planted(
        number="W11",
        what="an answer without a form ends the whole server",
        file="libs/quorate/network/driver.py",
        right="except Exception as problem:  # a fault of ours, of which other connections know nothing\n"
        "            self._end",
        wrong="except OSError as problem:\n            self._end",
        test="tests/network/test_network.py::"
        "test_an_answer_that_the_version_cannot_carry_ends_the_connection_and_no_other",
    ),
    Planted(
        number="W12",
        what="the observer takes a batch from anywhere",
        file="libs/quorate/network/observer.py",
        right="if header.base_offset != self._fetched:",
        wrong="if False:",
        test=f"{OBSERVER}::test_after_an_answer_that_cannot_be_it_asks_again",
    ),
    Planted(
        number="W13",
        what="the observer tells what is not committed",
        file="libs/quorate/network/observer.py",
        right="while self._waiting and self._waiting[0].header.next_offset <= self.high_watermark:",
        wrong="while self._waiting:",
        test=f"{OBSERVER}::test_what_was_not_committed_is_dropped_where_a_new_leader_has_other_records",
    ),
)
