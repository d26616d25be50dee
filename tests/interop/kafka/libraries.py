"""What users of clients of another make do, by their blocking calls: confluent-kafka (librdkafka) and kafka-python.

Neither can ask controllers: both begin with Metadata, which no controller serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import confluent_kafka
import kafka
import pytest
from confluent_kafka import admin as confluent
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions

PARTITIONS: Final = 4
VALUES: Final = [f"record {number}".encode() for number in range(100)]
PATIENCE_S: Final = 120.0
"""Against hanging alone."""
RETENTION: Final = ("retention.ms", "60000")


class ByConfluent:
    """What a user of confluent-kafka does, with its blocking calls."""

    name = "by-confluent"

    def __init__(self, servers: str) -> None:
        self._servers = {"bootstrap.servers": servers}
        self._admin = confluent.AdminClient(self._servers)
        self._topic = confluent.ConfigResource(confluent.ResourceType.TOPIC, self.name)

    def create(self) -> None:
        """A topic; and one that is there already is refused in Kafka's word."""
        topic = confluent.NewTopic(self.name, num_partitions=PARTITIONS, replication_factor=2)
        self._admin.create_topics([topic])[self.name].result(PATIENCE_S)
        with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
            self._admin.create_topics([topic])[self.name].result(PATIENCE_S)

    def produce(self) -> int:
        """How many records are acknowledged by all replicas."""
        acknowledged = []
        producer = confluent_kafka.Producer({**self._servers, "acks": "all", "enable.idempotence": True})
        for record in VALUES:
            producer.produce(self.name, record, on_delivery=lambda error, _: acknowledged.append(error is None))
        assert 0 == producer.flush(PATIENCE_S)
        return sum(acknowledged)

    def consume(self) -> list[bytes]:
        """All records, read in a group, whose offsets are committed."""
        settings = {**self._servers, "group.id": self.name, "auto.offset.reset": "earliest"}
        with closing(confluent_kafka.Consumer(settings)) as consumer:
            consumer.subscribe([self.name])
            values = [each.value() for each in consumer.consume(len(VALUES), PATIENCE_S)]
            consumer.commit(asynchronous=False)
        return values

    def committed(self) -> int:
        asked = [confluent_kafka.ConsumerGroupTopicPartitions(self.name)]
        found = self._admin.list_consumer_group_offsets(asked)[self.name].result(PATIENCE_S)
        return sum(each.offset for each in found.topic_partitions)

    def configure(self) -> None:
        alter = confluent.AlterConfigOpType.SET
        entry = confluent.ConfigEntry(*RETENTION, incremental_operation=alter)
        resource = confluent.ConfigResource(confluent.ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def retention(self) -> str:
        described = self._admin.describe_configs([self._topic])[self._topic].result(PATIENCE_S)
        return str(described[RETENTION[0]].value)

    def grow(self) -> None:
        """One more partition."""
        more = confluent_kafka.admin.NewPartitions(self.name, PARTITIONS + 1)
        self._admin.create_partitions([more])[self.name].result(PATIENCE_S)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(PATIENCE_S)


class ByKafkaPython:
    """What a user of kafka-python does."""

    name = "by-kafka-python"

    def __init__(self, servers: str) -> None:
        self._servers = servers.split(",")

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self._servers)) as admin:
            yield admin

    def create(self) -> None:
        wanted = {self.name: {"num_partitions": PARTITIONS, "replication_factor": 2}}
        with self._admin() as admin:
            admin.create_topics(wanted)
            with pytest.raises(kafka.errors.TopicAlreadyExistsError):
                admin.create_topics(wanted)

    def produce(self) -> int:
        with closing(kafka.KafkaProducer(bootstrap_servers=self._servers, acks="all")) as producer:
            sent = [producer.send(self.name, record) for record in VALUES]
            return sum(each.get(PATIENCE_S) is not None for each in sent)

    def consume(self) -> list[bytes]:
        settings = {"group_id": self.name, "auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE_S * 1000}
        with closing(kafka.KafkaConsumer(self.name, bootstrap_servers=self._servers, **settings)) as consumer:
            values = [each.value for _, each in zip(VALUES, consumer, strict=False)]
            consumer.commit()
        return values

    def committed(self) -> int:
        with self._admin() as admin:
            return sum(each.offset for each in admin.list_group_offsets(self.name)[self.name].values())

    def configure(self) -> None:
        with self._admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.name, dict([RETENTION]))])

    def retention(self) -> str:
        with self._admin() as admin:
            described: Any = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, self.name)])
        # A broker that is behind with the log may not know the topic: its answer has no settings then.
        return str(described["topic"][self.name].get(RETENTION[0], {}).get("value"))

    def grow(self) -> None:
        with self._admin() as admin:
            admin.create_partitions({self.name: NewPartitions(PARTITIONS + 1)})

    def delete(self) -> None:
        with self._admin() as admin:
            admin.delete_topics([self.name])
