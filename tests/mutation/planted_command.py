"""Bugs planted in what the command asks of a running cluster: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

WRITES: Final = "tests/cli/test_writes.py"
CALL: Final = "libs/quorate/cli/controller_call.py"
WRITING: Final = "libs/quorate/cli/writing.py"

OBSERVED: Final = (
    "tests/services/observer/test_changes.py"
    "::test_by_an_observers_process_the_commands_print_what_they_print_of_the_log"
)
DOCUMENTS: Final = "libs/quorate/cli/documents.py"

COMMAND_BUGS: Final = (
    Planted(
        number="F20",
        what="a write that is sent again may be done twice",
        file=WRITING,
        right="message.request_id = request_id",
        wrong="message.request_id = b''",
        test=f"{WRITES}::test_a_write_is_asked_again_until_there_is_a_leader_as_the_same_request",
    ),
    Planted(
        number="F21",
        what="what is to be tried is done",
        file=WRITING,
        right='{"validate_only": True} if how.dry_run else {}',
        wrong="{}",
        test=f"{WRITES}::test_what_a_trial_says_is_asked_as_one_and_told_as_one",
    ),
    Planted(
        number="F22",
        what="a write waits for no leader",
        file=CALL,
        right="if not is_reached or time.monotonic()",
        wrong="if is_reached or time.monotonic()",
        test=f"{WRITES}::test_a_write_is_asked_again_until_there_is_a_leader_as_the_same_request",
    ),
    Planted(
        number="F23",
        what="a result that is an error is told and not counted",
        file=WRITING,
        right="return result.code == 0 or error_name(result.code) in write.fine",
        wrong="return result.code >= 0",
        test=f"{WRITES}::test_each_entry_that_a_filter_has_removed_is_told_and_a_filter_that_fits_nothing",
    ),
    Planted(
        number="F24",
        what="a password is sent as it is",
        file="libs/quorate/cli/write_users.py",
        right='"salted_password": b64encode(salted)',
        wrong='"salted_password": b64encode(password.encode())',
        test=f"{WRITES}::test_a_secret_comes_from_a_file_and_is_shown_nowhere",
    ),
    Planted(
        number="F25",
        what="ACLs are removed by a filter that fits all",
        file="libs/quorate/cli/write_acls.py",
        right="if not (named or principals or operations or hosts):",
        wrong="if named is None:",
        test=f"{WRITES}::test_what_cannot_be_meant_ends_with_2_and_says_the_rule",
    ),
    Planted(
        number="F26",
        what="an item of a list that is wrong in JSON is not told from the others",
        file="libs/quorate/cli/messages.py",
        right='each, f"{where}[{place}]"',
        wrong="each, where",
        test="tests/cli/test_call.py::test_what_cannot_be_meant_ends_with_2_and_names_the_place",
    ),
    Planted(
        number="F19",
        what="a verb with a letter less is taken for the name of a topic",
        file="libs/quorate/cli/app_nouns.py",
        right="if args and _is_like_a_verb(args[0]):",
        wrong="if args and args[0] in self.commands:",
        test="tests/cli/test_listings.py::test_a_word_that_looks_like_a_verb_is_refused_with_the_verbs",
    ),
    Planted(
        number="F27",
        what="the password of a login is sent to observers, which take none",
        file="libs/quorate/cli/grpc_call.py",
        right="security.authorization is not None and self.option != LOGINS",
        wrong="security.authorization is not None and not self.option",
        test="tests/cli/test_call_security.py::test_a_login_that_cannot_be_is_refused_before_any_call",
    ),
    Planted(
        number="C110",
        what="a topic that is called 1e3 is a number for readers of YAML 1.2",
        file=DOCUMENTS,
        right="None if PLAIN.fullmatch(data) else",
        wrong="None if data else",
        test="tests/cli/test_outputs.py::test_a_text_is_one_for_every_reader",
    ),
    Planted(
        number="C111",
        what="who asks for YAML gets an error only as text",
        file=DOCUMENTS,
        right="return asked if asked in DOCUMENTS else None",
        wrong="return asked if asked == Output.JSON else None",
        test="tests/cli/test_outputs.py::test_an_error_is_a_document_of_the_same_kind",
    ),
    Planted(
        number="C112",
        what="a leader that was in no ISR is told as any other",
        file="libs/quorate/sql/sentences.py",
        right="return leader not in eligible and",
        wrong="return leader in eligible and",
        test="tests/sql/test_sentences.py::test_a_change_is_told_by_what_was_and_what_is",
    ),
    Planted(
        number="C115",
        what="a shell completes no verb of a noun whose verb may be left out",
        file="libs/quorate/cli/app_nouns.py",
        right="if ctx.resilient_parsing and not args:",
        wrong="if ctx.resilient_parsing and not ctx:",
        test="tests/cli/test_door.py::test_a_shell_completes_verbs_options_and_values",
    ),
    Planted(
        number="C113",
        what="the state at an offset lacks what the record at that offset has ended",
        file="libs/quorate/sql/as_of.py",
        right="valid_to_offset >= {offset}",
        wrong="valid_to_offset > {offset}",
        test="tests/sql/test_state_past.py::test_a_query_as_of_any_offset_has_the_rows_of_the_state_there",
    ),
    Planted(
        number="C114",
        what="a query that takes a list apart is refused as a write, where no view did so before",
        file="libs/quorate/sql/guarded.py",
        right="""connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()""",
        wrong="""connection.execute("SELECT 1").close()""",
        test=OBSERVED,
    ),
)
"""In the order of their numbers."""
