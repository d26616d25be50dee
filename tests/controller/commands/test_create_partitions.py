"""CreatePartitions: what the placer is asked, and when anew. What is decided: `tables/create_partitions.py`."""

from __future__ import annotations

from kraft.api.create_partitions import CreatePartitionsRequest
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.partitions.new_partitions import StalePlacement
from quorate.placement import PlacementSpec
from tests.controller.tables.create_partitions import asked, more, three_brokers


def test_the_placer_is_asked_for_those_that_are_to_come() -> None:
    spec = PlacementSpec(start_partition=1, partition_count=2, replication_factor=2)

    assert (("t", spec),) == wanted_more(three_brokers().state, asked(more("t", 3), more("nobody", 2)))


def test_a_broker_that_went_meanwhile_has_the_placer_asked_again() -> None:
    command = create_partitions(CreatePartitionsRequest(topics=(more("t", 2),)), placements={"t": ((2, 9),)})

    assert isinstance(three_brokers().refusal(command), StalePlacement)
