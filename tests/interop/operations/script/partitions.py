"""Partitions shrink and grow, move, and elect; and what their leaders may not ask for."""

from __future__ import annotations

from typing import Final

from kraft import Uuid
from kraft.errors import ErrorCode as E
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from tests.interop.operations.names import directory, id_named
from tests.interop.operations.script.ask import (
    PREFERRED,
    UNCLEAN,
    alter_isr,
    assign_dirs,
    beat,
    but_ours,
    create,
    delete,
    elect,
    laid_out,
    list_moves,
    reassign,
)
from tests.interop.operations.step import Step

ISR: Final[tuple[Step, ...]] = (
    create("a topic to shrink", laid_out("isr", (101, 102, 103))),
    alter_isr("shrink", "isr", [101, 102]),
    alter_isr("shrink to the same", "isr", [101, 102]),
    alter_isr("grow again", "isr", [101, 102, 103]),
    alter_isr("the ISR in another order", "isr", [103, 101, 102]),
    alter_isr("with the ids alone, version 2", "isr", [101, 103], version=2),
    alter_isr("grow with the ids alone, version 2", "isr", [101, 102, 103], version=2),
    alter_isr("an empty ISR", "isr", [], E.INVALID_REQUEST),
    alter_isr("without the leader", "isr", [102, 103], E.INVALID_REQUEST),
    alter_isr("a stranger", "isr", [101, 104], E.INVALID_REQUEST),
    alter_isr("a member twice", "isr", [101, 102, 102], E.INVALID_REQUEST),
    alter_isr("a member in an epoch that is over", "isr", [101, (102, 0)], E.INELIGIBLE_REPLICA),
    alter_isr("a member in an epoch to come", "isr", [101, (102, 1_000_000)], E.INELIGIBLE_REPLICA),
    alter_isr("a member in any epoch", "isr", [101, (102, -1)]),
    alter_isr("back to all three", "isr", [101, 102, 103]),
    alter_isr("by a follower", "isr", [101, 102, 103], E.INVALID_REQUEST, leader=102),
    alter_isr("by a stranger", "isr", [101, 102, 103], E.INVALID_REQUEST, leader=104),
    alter_isr("an older leader epoch", "isr", [101], E.FENCED_LEADER_EPOCH, leader_epoch=-1),
    alter_isr("a newer leader epoch", "isr", [101], E.NOT_CONTROLLER, leader_epoch=1),
    alter_isr("an older partition epoch", "isr", [101], E.INVALID_UPDATE_VERSION, partition_epoch=-1),
    alter_isr("a newer partition epoch", "isr", [101], E.NOT_CONTROLLER, partition_epoch=1),
    alter_isr("an epoch of the broker's that is over", "isr", [101], E.STALE_BROKER_EPOCH, broker_epoch=0),
    alter_isr("an epoch of the broker's to come", "isr", [101], E.STALE_BROKER_EPOCH, broker_epoch=1_000_000),
    alter_isr("by a broker unknown", "isr", [101], E.STALE_BROKER_EPOCH, leader=999),
    alter_isr("an ISR of a topic unknown", "nowhere", [101], E.UNKNOWN_TOPIC_ID),
    alter_isr("of a partition unknown", "isr", [101], E.UNKNOWN_TOPIC_OR_PARTITION, number=7),
    alter_isr("recovering, of more than one", "isr", [101, 102], E.INVALID_REQUEST, recovery=RECOVERING),
    alter_isr("recovering again", "isr", [101], E.INVALID_REQUEST, recovery=RECOVERING),
    alter_isr("down to the leader", "isr", [101], recovery=RECOVERED),
    alter_isr("and up", "isr", [101, 102, 103]),
)

MOVES: Final[tuple[Step, ...]] = (
    create("a topic to move", laid_out("moved", (101, 102), (102, 103), (103, 101))),
    list_moves("nothing moves", None),
    list_moves("nothing of it moves", {"moved": [0, 1, 2]}),
    list_moves("of a topic unknown, listed", {"nowhere": [0]}),
    reassign("to two others", "moved", [103, 104]),
    list_moves("one moves", None),
    list_moves("one of three moves", {"moved": [0, 1, 2]}),
    list_moves("what moves, of others", {"isr": [0]}),
    alter_isr("one newcomer is in sync", "moved", [101, 102, 103]),
    alter_isr("the other newcomer, too", "moved", [101, 102, 103, 104], E.NEW_LEADER_ELECTED),
    list_moves("it has arrived", None),
    reassign("called off, though nothing moves", "moved", None, E.NO_REASSIGNMENT_IN_PROGRESS),
    reassign("to one more", "moved", [103, 104, 102]),
    reassign("and called off", "moved", None),
    reassign("to where it is", "moved", [103, 104]),
    reassign("in another order", "moved", [104, 103]),
    reassign("to fewer", "moved", [104]),
    reassign("to more", "moved", [102, 103, 104]),
    alter_isr("all are in sync", "moved", [102, 103, 104]),
    reassign(
        "another factor, though that is not wanted", "moved", [102], E.INVALID_REPLICATION_FACTOR, may_change=False
    ),
    reassign("the same factor, as is wanted", "moved", [101, 103, 104], may_change=False),
    reassign("and called off, too", "moved", None, may_change=False),
    reassign("nowhere", "moved", [], E.INVALID_REPLICA_ASSIGNMENT),
    reassign("to one twice", "moved", [101, 101], E.INVALID_REPLICA_ASSIGNMENT),
    reassign("to a negative broker", "moved", [-1], E.INVALID_REPLICA_ASSIGNMENT),
    reassign("to a broker unknown", "moved", [101, 999], E.INVALID_REPLICA_ASSIGNMENT),
    reassign("a partition unknown", "moved", [101], E.UNKNOWN_TOPIC_OR_PARTITION, number=9),
    reassign("a topic unknown", "nowhere", [101], E.UNKNOWN_TOPIC_OR_PARTITION),
    reassign("a topic unknown, called off", "nowhere", None, E.UNKNOWN_TOPIC_OR_PARTITION),
    reassign("the leader leaves", "moved", [103], number=1),
    reassign("the second of three", "moved", [104, 101], number=2),
    alter_isr("the leader's way out", "moved", [103, 101, 104], E.NEW_LEADER_ELECTED, number=2),
    reassign("a move that will be deleted", "moved", [101, 104], number=1),
    delete("the moving topic", "moved"),
    list_moves("nothing moves any more", None),
)

ANOTHER_GOAL: Final[tuple[Step, ...]] = (
    create("a topic that changes its mind", laid_out("turns", (101, 102))),
    reassign("to two others, once more", "turns", [103, 104]),
    but_ours(reassign("to another still", "turns", [103, 102])),
    but_ours(alter_isr("the newcomer that is still wanted", "turns", [101, 102, 103]), E.NEW_LEADER_ELECTED),
    delete("the topic that changed its mind", "turns"),
)

ELECTIONS: Final[tuple[Step, ...]] = (
    create("a topic to elect", laid_out("elected", (101, 102), (102, 101))),
    elect("where the preferred one leads", PREFERRED, {"elected": [0]}, E.ELECTION_NOT_NEEDED),
    elect("uncleanly where somebody leads", UNCLEAN, {"elected": [0]}, E.ELECTION_NOT_NEEDED),
    elect("in all there are", PREFERRED, None),
    elect("uncleanly in all there are", UNCLEAN, None),
    elect("in none", PREFERRED, {}),
    elect("in a partition unknown", PREFERRED, {"elected": [5]}, E.UNKNOWN_TOPIC_OR_PARTITION),
    elect("in a topic unknown", PREFERRED, {"nowhere": [0]}, E.UNKNOWN_TOPIC_OR_PARTITION),
    elect("in a topic without a name", PREFERRED, {"": [0]}, E.UNKNOWN_TOPIC_OR_PARTITION),
    elect(
        "good and bad",
        PREFERRED,
        {"elected": [0, 5], "nowhere": [1]},
        E.ELECTION_NOT_NEEDED,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    elect("an election that there is not", 2, {"elected": [0]}, E.INVALID_REQUEST),
)

ELSEWHERE: Final[Uuid] = id_named("a directory of nobody")

DIRECTORIES: Final[tuple[Step, ...]] = (
    create("a topic to lie somewhere", laid_out("lies", (101, 102), (102, 101), (101, 103))),
    assign_dirs("one replica", 101, {directory(101): {"lies": [0]}}),
    assign_dirs("the same again", 101, {directory(101): {"lies": [0]}}),
    assign_dirs("several replicas at once", 101, {directory(101, 1): {"lies": [0, 1]}, directory(101): {"lies": [2]}}),
    assign_dirs("of the follower", 102, {directory(102): {"lies": [0, 1]}}),
    assign_dirs("nothing", 101, {}),
    assign_dirs("one that has no replica of it", 104, {directory(104): {"lies": [0]}}, E.NOT_LEADER_OR_FOLLOWER),
    assign_dirs("a partition unknown, assigned", 101, {directory(101): {"lies": [9]}}, E.UNKNOWN_TOPIC_OR_PARTITION),
    assign_dirs("a topic unknown, assigned", 101, {directory(101): {"nowhere": [0]}}, E.UNKNOWN_TOPIC_ID),
    assign_dirs("good and bad ones, assigned", 101, {directory(101): {"lies": [1, 9]}}, E.UNKNOWN_TOPIC_OR_PARTITION),
    assign_dirs("an epoch that is over", 101, {directory(101): {"lies": [0]}}, E.STALE_BROKER_EPOCH, broker_epoch=0),
    assign_dirs("a broker unknown, assigned", 999, {directory(101): {"lies": [0]}}, E.STALE_BROKER_EPOCH),
    assign_dirs("a directory not its own", 101, {directory(102): {"lies": [0]}}),
    assign_dirs("a directory of nobody", 101, {ELSEWHERE: {"lies": [1]}}),
    assign_dirs("a directory that is none, unassigned", 101, {UNASSIGNED_DIRECTORY: {"lies": [0]}}),
    assign_dirs("a directory that is none, lost", 101, {LOST_DIRECTORY: {"lies": [0]}}),
    assign_dirs("a directory that is none, migrating", 101, {MIGRATING_DIRECTORY: {"lies": [0]}}),
    assign_dirs("back again", 101, {directory(101): {"lies": [0]}, directory(101, 1): {"lies": [1]}}),
    beat("a directory fails", 101, offline_log_dirs=(directory(101, 1),)),
    beat("it still has failed", 101, offline_log_dirs=(directory(101, 1),)),
    beat("a directory fails that is unknown", 101, offline_log_dirs=(ELSEWHERE,)),
    assign_dirs("onto the failed one", 101, {directory(101, 1): {"lies": [2]}}),
    assign_dirs("away from the failed one", 101, {directory(101): {"lies": [1, 2]}}),
    beat("a directory is to get no more", 102, cordoned_log_dirs=(directory(102),)),
    beat("it still is", 102, cordoned_log_dirs=(directory(102),)),
    beat("nothing is said of it", 102),
    beat("both are", 102, cordoned_log_dirs=(directory(102), directory(102, 1))),
    create(
        "onto a broker that is to get no more",
        laid_out("cordoned", (102, 101)),
        errors=[E.INVALID_REPLICA_ASSIGNMENT],
    ),
    reassign("to a broker that is to get no more", "lies", [101, 103, 102], E.INVALID_REPLICA_ASSIGNMENT, number=2),
    reassign("one that has it already", "lies", [102, 101], E.INVALID_REPLICA_ASSIGNMENT),
    beat("none is", 102, cordoned_log_dirs=()),
    alter_isr("and in sync again", "lies", [102, 101], number=1),
)

SCRIPT: Final[tuple[Step, ...]] = (*ISR, *MOVES, *ANOTHER_GOAL, *ELECTIONS, *DIRECTORIES)
