"""ElectLeaders: in which words it is refused. What is decided: `tables/elect_leaders.py`."""

from __future__ import annotations

import pytest

from quorate.errors import ErrorCode
from tests.controller.tables.elect_leaders import PREFERRED, UNCLEAN, asked, command, mixed, moved, of
from tests.controller.tables.table import codes


def test_an_election_that_there_is_not_is_a_wrong_field() -> None:
    cluster = moved()

    assert "election_type" == cluster.refusal(command(cluster, asked(7))).metadata["field"]


@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
def test_where_nobody_was_elected_the_reason_is_told_and_elsewhere_nothing(election: int) -> None:
    cluster = mixed()
    request = asked(election, of("zoo", 0), of("birds", 1, 0, 7), of("nobody", 0), of("apes", 2, 1, 0))
    results = cluster.decide(command(cluster, request)).response.replica_election_results

    assert [code is ErrorCode.NONE for code, _ in codes(results)] == [words is None for _, words in codes(results)]
