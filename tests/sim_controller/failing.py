"""Writes that fail inside the controller: S-50 while deciding, S-51 while encoding, S-52 while applying."""

from __future__ import annotations

from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.configs import BROKER
from quorate.metadata.state import ClusterState
from quorate.records import ConfigRecord, FeatureLevelRecord, FenceBrokerRecord

DECIDING = "S-50 a decision fails"
ENCODING = "S-51 a record cannot be encoded"
APPLYING = "S-52 a record cannot be applied"
ROWS = (DECIDING, ENCODING, APPLYING)

LAST = {
    ENCODING: (FeatureLevelRecord("planted", 1 << 40),),  # a level is an int16
    APPLYING: (FenceBrokerRecord(-1, -1),),  # no broker has this id
}


def failing(row: str) -> Command[None]:
    """A write whose first record is good."""

    def decide(_: ClusterState, moment: Moment) -> Decision[None]:
        if row == DECIDING:
            raise ZeroDivisionError(row)
        good = ConfigRecord(BROKER, "", "log.retention.ms", str(moment.next_offset))
        return Decision(None, (good, *LAST[row]))

    return decide
