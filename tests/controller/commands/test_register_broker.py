"""BrokerRegistration: what follows from it later; the rest is in its table."""

from __future__ import annotations

from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from tests.controller.clusters import Cluster


def test_an_unclean_stop_takes_a_fenced_broker_out_of_the_elr() -> None:
    cluster = Cluster(25, elr=True).brokers(1)
    cluster.topic("t", [1])
    cluster.change(1, ControlState.FENCED)
    before = cluster.partition("t")
    cluster.register(1, incarnation=1)
    cluster.change(1, ControlState.UNFENCED)
    after = cluster.partition("t")

    assert (before.isr, before.elr, before.leader) == ((), (1,), NO_LEADER)
    # It leads nevertheless, as the last leader known, and says that it may have lost something.
    assert (after.isr, after.leader, after.leader_recovery_state) == ((1,), 1, 1)
