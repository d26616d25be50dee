"""Bugs planted in what the command plans and finds: each names the test that kills it."""

from __future__ import annotations

from typing import Final

from tests.mutation.planted import Planted

PLANS: Final = "tests/cli/test_reassign_plan.py"
RESTARTS: Final = "tests/cli/test_restart_safe.py"

PLAN_BUGS: Final = (
    Planted(
        number="C80",
        what="what a drained broker had goes to others first, and is moved once more to one that is added",
        file="libs/quorate/what_if/reassignment.py",
        right="(of_rack[self._racks[each]], not self._lacks(each), self._replicas[each], each)",
        wrong="(of_rack[self._racks[each]], self._replicas[each], each)",
        test=f"{PLANS}::test_who_is_added_gets_what_has_to_move_anyway",
    ),
    Planted(
        number="C81",
        what="only the first node that stands against a level is named",
        file="libs/quorate/what_if/feature_levels.py",
        right="for each in found]",
        wrong="for each in list(found)[:1]]",
        test="tests/cli/test_features_plan.py::test_each_node_whose_range_is_too_small_is_named_once",
    ),
    Planted(
        number="B122",
        what="an upgrade to a release turns off what was turned on by itself",
        file="libs/quorate/what_if/feature_levels.py",
        right="    if metadata_version < present.get(METADATA_VERSION, 0):\n",
        wrong="    if metadata_version != present.get(METADATA_VERSION, 0):\n",
        test="tests/cli/test_features_plan.py::test_an_upgrade_to_a_release_lowers_nothing_that_was_raised_by_itself",
    ),
    Planted(
        number="B123",
        what="an observer's state, which has no voters, says that nothing stands against a kraft.version",
        file="libs/quorate/cli/features_plan.py",
        right="if KRAFT_VERSION in wanted and not found.has_quorum:",
        wrong="if KRAFT_VERSION in wanted and not found:",
        test="tests/cli/test_features_plan.py"
        "::test_of_a_source_without_the_quorum_kraft_version_is_refused_and_the_rest_says_so",
    ),
    Planted(
        number="C82",
        what="a voter that is down counts among those that commit without it",
        file="libs/quorate/what_if/voters.py",
        right="others = sorted(keep_up - {voter_id})",
        wrong="others = sorted(keep_up)",
        test="tests/cli/test_restart_controllers.py::test_a_restart_is_safe_exactly_if_the_others_commit",
    ),
    Planted(
        number="B110",
        what="a broker whose restart harms nothing once another is back is said to be safe now",
        file="libs/quorate/what_if/restarts.py",
        right="harmed=tuple(now.harmed.get(safe, ()))",
        wrong="harmed=()",
        test=f"{RESTARTS}::test_what_is_safe_only_once_another_is_back_is_not_said_to_be_safe_now",
    ),
    Planted(
        number="B116",
        what="a broker that joins ISRs goes before those that harm nothing as long as it has not",
        file="libs/quorate/what_if/restarts.py",
        right="key=found.joining.__contains__, ",
        wrong="key=left.index, ",
        test=f"{RESTARTS}::test_who_harms_nothing_as_it_is_goes_before_who_brings_an_isr_up_to_the_limit",
    ),
    Planted(
        number="B111",
        what="a voter that is safe once another keeps up names nobody before it, and has no place in the order",
        file="libs/quorate/what_if/voters.py",
        right="            back.append(voter_id)",
        wrong="            back.clear()",
        test="tests/cli/test_restart_controllers.py::test_it_asks_the_leader_and_says_who_does_not_keep_up",
    ),
    Planted(
        number="B112",
        what="an unclean election is one only if the leader before was not RECOVERING",
        file="libs/quorate/metadata/partitions.py",
        right="    return {*after.replicas} == {*before.replicas}",
        wrong="    return False",
        test=f"{RESTARTS}::test_a_second_unclean_election_loses_records_too",
    ),
    Planted(
        number="B113",
        what="partitions of which one will be led by a broker with a min.insync.replicas of its own are of one kind",
        file="libs/quorate/what_if/kinds.py",
        right="            self._min_isrs.own(broker_id),\n",
        wrong="",
        test=f"{RESTARTS}::test_a_leader_goes_by_a_min_isr_of_its_own",
    ),
    Planted(
        number="B114",
        what="a lower factor waits for a replica that is away, though another broker could get a copy",
        file="libs/quorate/what_if/reassignment.py",
        right="there = [each for each in kept if each in in_sync or each in self._active]",
        wrong="there = [*kept]",
        test=f"{PLANS}::test_a_reassignment_does_not_wait_for_a_broker_that_is_away",
    ),
    Planted(
        number="B115",
        what="a reassignment to fewer replicas is not stuck, whoever of those that stay is away",
        file="libs/quorate/doctor/partitions.py",
        right="if len(of.removing_replicas) > len(needed):",
        wrong="if False:",
        test="tests/cli/test_doctor.py::test_these_have_it_too",
    ),
    Planted(
        number="C83",
        what="what is applied while an image is told is in it, in part",
        file="libs/quorate/runtime/replica.py",
        right="yield (state.at(offset) if state is self._replayed else state), offset",
        wrong="yield state, offset",
        test="tests/services/observer/test_images.py::test_what_is_applied_meanwhile_is_not_in_it",
    ),
    Planted(
        number="C100",
        what="partitions with the same replicas away are of one kind, whatever their ISR",
        file="libs/quorate/what_if/kinds.py",
        right="None if isr == replicas else tuple(map(replicas.index, isr)),",
        wrong="None,",
        test="tests/cli/test_what_if.py::test_all_of_a_kind_are_told_what_the_controller_does_to_each",
    ),
    Planted(
        number="C101",
        what="a partition with a replica on a broker that nobody knows is on too few racks",
        file="libs/quorate/doctor/census.py",
        right=" and None not in on:",
        wrong=":",
        test="tests/cli/test_doctor.py::test_the_census_counts_what_each_partition_is_asked",
    ),
    Planted(
        number="C102",
        what="a checkpoint with the character NUL in it is no COPY that PostgreSQL takes",
        file="libs/quorate/sql/kept_writes.py",
        right="[text(each) if type(each) is str else each for each in row]",
        wrong="row",
        test="tests/services/observer/test_state_keeper.py::test_checkpoints_are_the_same_rows_on_postgresql_and_sqlite",
    ),
    Planted(
        number="C103",
        what="the key of a row that a record changed is told in the order of the table's columns",
        file="libs/quorate/sql/difference.py",
        right="return [(name, names.index(name)) for name in identity], others",
        wrong="return [(name, names.index(name)) for name in sorted(identity, key=names.index)], others",
        test="tests/sql/test_touched.py::test_it_finds_what_comparing_the_states_finds",
    ),
    Planted(
        number="C104",
        what="nothing is written to the state's database until its observer has caught up",
        file="services/observer/state_keeper.py",
        right="if not left or is_due:",
        wrong="if not left or len(self._following.changes) >= CHANGES_MAX:",
        test="tests/services/observer/test_state_log.py::test_what_is_there_is_written_while_more_comes",
    ),
    Planted(
        number="F16",
        what="a broker whose directories are all cordoned counts among those that can take a replica",
        file="libs/quorate/doctor/advice.py",
        right="self._spare = [broker.id for broker in state.brokers if not _is_full(broker)]",
        wrong="self._spare = [broker.id for broker in state.brokers]",
        test="tests/cli/test_doctor.py::test_advice_is_what_can_be_done_now",
    ),
    Planted(
        number="F17",
        what="a registration is stale after as many days as a reassignment may take hours",
        file="libs/quorate/doctor/brokers.py",
        right="holds=lambda node: node.days_fenced > node.facts.limits.stale_days",
        wrong="holds=lambda node: node.days_fenced > node.facts.limits.reassignment_hours",
        test="tests/cli/test_doctor.py::test_of_a_known_past_it_says_since_when_and_what_only_the_past_has",
    ),
    Planted(
        number="F18",
        what="preferred leaders are elected only if no broker is lost",
        file="libs/quorate/what_if/away.py",
        right="    if with_preferred_leaders:",
        wrong="    if with_preferred_leaders and not brokers:",
        test="tests/cli/test_what_if.py::test_preferred_leaders_lead_afterwards_where_they_may_if_that_is_asked",
    ),
)
"""In the order of their numbers."""
