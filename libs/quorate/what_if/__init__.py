"""WHAT IF brokers come or go: the controller's own commands decide it, on a state of nobody else.

away            brokers or log directories are away: what becomes of each partition
feature_levels  what stands against feature levels, and what clears it
kinds           partitions that have one fate, of which the rules are asked once
min_isrs        min.insync.replicas as a partition's leader has it
reassignment    which replicas move if brokers come or go, or the replication factor changes
restarts        which brokers can be restarted, one after the other, and what stands against the others
voters          the same of the quorum's voters, by what the leader says of them
"""

from quorate.what_if.away import Becomes, Changed, Counts, Fate, Outcome, brokers_of_rack, lose, take_away
from quorate.what_if.reassignment import Load, Move, Plan, Wish, plan_reassignment
from quorate.what_if.restarts import Harm, Harmed, Restart, plan_restarts
from quorate.what_if.voters import Quorum, VoterRestart, VoterState, leader_clock_ms, plan_voter_restarts, quorum_of

__all__ = [
    "Becomes",
    "Changed",
    "Counts",
    "Fate",
    "Harm",
    "Harmed",
    "Load",
    "Move",
    "Outcome",
    "Plan",
    "Quorum",
    "Restart",
    "VoterRestart",
    "VoterState",
    "Wish",
    "brokers_of_rack",
    "leader_clock_ms",
    "lose",
    "plan_reassignment",
    "plan_restarts",
    "plan_voter_restarts",
    "quorum_of",
    "take_away",
]
