"""DOCTOR: what an operator should look at in one state, by rules that are rows of tables. It does no I/O.

examination  the facts, and all findings about them
rules        a rule and a finding, and words that several have
partitions   leaders, ISRs, reassignments, topics, racks
brokers      registrations, replicas and directories of brokers, features
leftovers    voters; configs, ACLs and tokens of what is not there
"""

from quorate.doctor.examination import examine
from quorate.doctor.rules import HISTORY_CODES, Facts, Finding, Severity

__all__ = ["HISTORY_CODES", "Facts", "Finding", "Severity", "examine"]
