"""WHAT IF brokers or log directories go: the controller's own commands decide it, on a state of nobody else.

away        brokers or log directories are away: what becomes of each partition
restarts    which brokers can be restarted, one after the other, and what stands against the others
"""

from quorate.what_if.away import Counts, Outcome, brokers_of_rack, take_away
from quorate.what_if.restarts import Harm, Harmed, Restart, plan_restarts

__all__ = ["Counts", "Harm", "Harmed", "Outcome", "Restart", "brokers_of_rack", "plan_restarts", "take_away"]
