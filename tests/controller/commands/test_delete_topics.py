"""DeleteTopics: what goes with a topic. What is decided: `tables/delete_topics.py`."""

from __future__ import annotations

from quorate.metadata.configs import TOPIC
from tests.controller.tables.delete_topics import Asked, asked, command, two_topics


def test_the_configs_of_a_topic_go_with_it() -> None:
    cluster = two_topics()
    assert {"retention.ms": "1000"} == dict(cluster.state.configs.of(TOPIC, "a"))

    cluster.write(command(cluster, asked(Asked("a"))))

    assert ["b"] == [topic.name for topic in cluster.state.topics]
    assert {} == cluster.state.configs.of(TOPIC, "a")
