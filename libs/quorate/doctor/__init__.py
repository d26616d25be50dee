"""DOCTOR: what an operator should look at in one state, by rules that are rows of tables. It does no I/O.

examination  the facts, and all findings about them
causes       the findings about partitions, grouped by the brokers that are missing
rules        a rule and a finding, the limits, and words that several have
partitions   leaders, ISRs, reassignments, topics, racks
brokers      registrations, replicas and directories of brokers, features
census       one walk over all partitions: what the rules count of them
leftovers    voters; configs, ACLs and tokens of what is not there
advice       which brokers to start, and whether a replica can be added or moved at all
past         what the history adds, where it is known: since when, and what was before
"""

from quorate.doctor.causes import Cause, causes
from quorate.doctor.examination import examine
from quorate.doctor.past import BrokerPast, Condition, Moment, PartitionPast, Past, Unclean
from quorate.doctor.rules import HISTORY_CODES, Facts, Finding, Limits, Severity

__all__ = [
    "HISTORY_CODES",
    "BrokerPast",
    "Cause",
    "Condition",
    "Facts",
    "Finding",
    "Limits",
    "Moment",
    "PartitionPast",
    "Past",
    "Severity",
    "Unclean",
    "causes",
    "examine",
]
