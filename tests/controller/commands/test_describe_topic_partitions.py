"""DescribeTopicPartitions, page after page. What one page tells: `tables/describe_topic_partitions.py`."""

from __future__ import annotations

import pytest

from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from tests.controller.tables.describe_topic_partitions import Cursor, three_topics

ALL = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_the_pages_together_are_everything(limit: int) -> None:
    cluster, cursor, seen = three_topics(), None, []
    while True:
        request = DescribeTopicPartitionsRequest((), limit, cursor)
        response = cluster.decide(describe_topic_partitions(request)).response
        seen += [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
        if response.next_cursor is None:
            break
        cursor = Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)

    assert ALL == seen
