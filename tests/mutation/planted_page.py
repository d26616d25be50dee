"""Bugs in the observer's page, and in what is asked for it. Each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

PAGE: Final = "services/observer/page"
TESTS: Final = "tests/services/observer/test_page.py"
EXAMINATIONS: Final = "tests/services/observer/test_examinations.py"

PAGE_BUGS: Final = (
    Planted(
        number="F30",
        what="a caller with a SPIFFE id is known by the subject alone",
        file=f"{PAGE}/calls.py",
        right="if len(tls.uris) == 1 and",
        wrong="if len(tls.uris) > 1 and",
        test=f"{TESTS}::test_by_tls_a_caller_is_who_its_certificate_says",
    ),
    Planted(
        number="F31",
        what="the page of another site calls with the certificate of whoever reads that",
        file=f"{PAGE}/exchange.py",
        right="if site not in OWN_SITES or (",
        wrong="if site in OWN_SITES and (",
        test=f"{TESTS}::test_bodies_that_are_no_json_and_calls_of_other_sites_are_refused",
    ),
    Planted(
        number="F32",
        what="a name of another site that points here is answered in the clear",
        file=f"{PAGE}/exchange.py",
        right="if is_tls or name in self._hosts:",
        wrong="if is_tls or name:",
        test=f"{TESTS}::test_what_is_no_request_of_the_page_is_refused_with_the_reason",
    ),
    Planted(
        number="F33",
        what="connections that only stay open keep others out",
        file=f"{PAGE}/listener.py",
        right="connection.left = partial(self._remove, connection)",
        wrong="self._counts.know(connection, self._room)",
        test=f"{TESTS}::test_connections_that_only_stay_open_keep_nobody_out",
    ),
    Planted(
        number="F34",
        what="a refusal after the first part of an answer is not told",
        file=f"{PAGE}/exchange.py",
        right="""await self._part(b'{"error": %b}\\n' % text)""",
        wrong="return",
        test=f"{TESTS}::test_a_refusal_after_the_first_part_is_the_last_line",
    ),
    Planted(
        number="F35",
        what="each caller has an examination of its own made",
        file="services/observer/examinations.py",
        right="if last is not None and (",
        wrong="if last is not None and not (",
        test=f"{EXAMINATIONS}::test_who_asks_meanwhile_shares_one_examination_and_a_young_one_serves_on",
    ),
    Planted(
        number="F36",
        what="findings that are not searched for are in the answer",
        file="services/observer/examinations.py",
        right="if wanted in _text(each)] if wanted",
        wrong="] if wanted",
        test=f"{EXAMINATIONS}::test_findings_are_those_of_the_doctor_and_restarts_those_of_restart_safe",
    ),
)
