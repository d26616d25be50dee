#!/usr/bin/env bash
# librdkafka 2.16.0 (confluent-kafka 2.16.1): a producer with enable.idempotence=true writes a record twice, and tells its
# program nothing of it, when a new leader of the partition is not ready at once.
#
# The leader that has appended record 1 dies before it answers. The next one is asked twice, as up to five requests are
# in flight: of record 1 it says NOT_LEADER_OR_FOLLOWER, since it has not heard yet that it leads; of record 2, a moment
# later, OUT_OF_ORDER_SEQUENCE_NUMBER, since it leads by then and record 1 was not taken from this request. The producer
# concludes that record 1 is nowhere, begins a new producer epoch, in which sequence numbers start from 0, and sends
# both again. A broker looks for duplicates among the batches of one producer epoch: record 1 is in the log a second
# time. Both have one delivery report each, without an error. With max.in.flight.requests.per.connection=1 record 1 is
# sent again as it was, by which a broker knows it. Open upstream as confluentinc/librdkafka#4953.
#
# So a test that kills brokers, and counts what a librdkafka producer wrote, finds records doubled on brokers that have
# made no mistake.
#
# Seen (librdkafka's own mock broker, which is told these answers, and appends whatever is sent; each batch as producer
# epoch, first sequence number, record):
#   5 in flight: delivered 3 without an error; in the log: 0:0 first, 0:1 record1, 1:0 record1, 1:1 record2
#   1 in flight: delivered 3 without an error; in the log: 0:0 first, 0:1 record1, 0:1 record1, 0:2 record2
#
# Needs Python. Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet confluent-kafka==2.16.1

cat > "$directory/produce.py" <<'PYTHON'
"""Writes three records around a change of leaders; argument: requests in flight at most."""

import ctypes
import glob
import os
import socket
import struct
import sys
import time
from pathlib import Path

import confluent_kafka

bundled = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
(library,) = glob.glob(str(bundled / "librdkafka-*.so*")) or glob.glob(str(bundled / "librdkafka*.so*"))[:1]
kafka = ctypes.CDLL(library)
for name in ("conf_new", "new", "handle_mock_cluster", "topic_new"):
    getattr(kafka, f"rd_kafka_{name}").restype = ctypes.c_void_p
kafka.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p

PARTITION, COPY = 0, 2
PRODUCE = 0
NOT_LEADER, OUT_OF_ORDER = 6, 45
SETTINGS = {
    "test.mock.num.brokers": "1",
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": sys.argv[1],
    "batch.num.messages": "1",
    "linger.ms": "0",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "100",
}


class Message(ctypes.Structure):
    _fields_ = [("error", ctypes.c_int)]


reports: list[int] = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Message), ctypes.c_void_p)
def delivered(_producer, message, _opaque):
    reports.append(message[0].error)


why = ctypes.create_string_buffer(512)
settings = ctypes.c_void_p(kafka.rd_kafka_conf_new())
for key, value in SETTINGS.items():
    assert kafka.rd_kafka_conf_set(settings, key.encode(), value.encode(), why, len(why)) == 0, why.value
kafka.rd_kafka_conf_set_dr_msg_cb(settings, delivered)
producer = ctypes.c_void_p(kafka.rd_kafka_new(0, settings, why, len(why)))
cluster = ctypes.c_void_p(kafka.rd_kafka_handle_mock_cluster(producer))
kafka.rd_kafka_mock_topic_create(cluster, b"topic", 1, 1)
topic = ctypes.c_void_p(kafka.rd_kafka_topic_new(producer, b"topic", None))


def write(value: bytes) -> None:
    assert kafka.rd_kafka_produce(topic, PARTITION, COPY, value, len(value), None, 0, None) == 0


def poll(seconds: float, reports_awaited: int = 1_000) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(reports) < reports_awaited:
        kafka.rd_kafka_poll(producer, 20)


write(b"first")
poll(20, 1)
kafka.rd_kafka_mock_broker_set_rtt(cluster, 1, 1_500)
write(b"record1")
poll(0.5)  # it is appended by now, and not answered
kafka.rd_kafka_mock_broker_set_down(cluster, 1)
poll(0.5)
kafka.rd_kafka_mock_broker_set_rtt(cluster, 1, 300)
if sys.argv[1] != "1":
    kafka.rd_kafka_mock_push_request_errors(
        cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(2), ctypes.c_int(NOT_LEADER), ctypes.c_int(OUT_OF_ORDER)
    )
else:  # nothing is behind the first request that could be out of order
    kafka.rd_kafka_mock_push_request_errors(
        cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(1), ctypes.c_int(NOT_LEADER)
    )
write(b"record2")
kafka.rd_kafka_mock_broker_set_up(cluster, 1)
poll(20, 3)
kafka.rd_kafka_mock_broker_set_rtt(cluster, 1, 0)


def batch_at(connection: socket.socket, offset: int) -> bytes:
    """The first batch from an offset on; nothing at the end (Fetch, version 4)."""
    wanted = struct.pack(">iqi", PARTITION, offset, 1 << 20)
    body = struct.pack(">iiiib", -1, 100, 1, 1 << 20, 0) + struct.pack(">ih5si", 1, 5, b"topic", 1) + wanted
    request = struct.pack(">hhih", 1, 4, offset, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    answer = connection.recv(size, socket.MSG_WAITALL)
    at = 4 + 4 + 4 + 2 + 5 + 4  # correlation id, throttle time, topics, the name, partitions
    *_, aborted = struct.unpack_from(">ihqqi", answer, at)
    at += 26 + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(length, 0)]


host, _, port = kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode().rpartition(":")
found = []
with socket.create_connection((host, int(port))) as connection:
    while batch := batch_at(connection, len(found)):
        epoch, sequence = struct.unpack_from(">hi", batch, 51)
        value = next(each for each in (b"first", b"record1", b"record2") if each in batch)
        found.append(f"{epoch}:{sequence} {value.decode()}")
print(f"delivered {reports.count(0)} without an error; in the log: {', '.join(found)}", flush=True)
os._exit(0)  # the mock cluster is of no use any more
PYTHON

five=$("$directory/venv/bin/python" "$directory/produce.py" 5 2> "$directory/five.log")
one=$("$directory/venv/bin/python" "$directory/produce.py" 1 2> "$directory/one.log")
printf '5 in flight: %s\n1 in flight: %s\n' "$five" "$one"
[ "$five" = "delivered 3 without an error; in the log: 0:0 first, 0:1 record1, 1:0 record1, 1:1 record2" ] || exit 1
[ "$one" = "delivered 3 without an error; in the log: 0:0 first, 0:1 record1, 0:1 record1, 0:2 record2" ] || exit 1
echo "holds"
