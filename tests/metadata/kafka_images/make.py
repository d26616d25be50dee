"""Asks a Kafka release what a log amounts to, and keeps the answers: `images.txt`.

    CLASSPATH="jars/*" python -m tests.metadata.kafka_images.make

needs a JDK and the jars of org.apache.kafka:kafka-metadata:4.4.0 with what it depends on (Maven's
`dependency:copy-dependencies`). Each line: the records of a log, a tab, the records of Kafka's checkpoint of it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from quorate.metadata.versions import LATEST, RELEASES, record_version
from quorate.records import FeatureLevelRecord, encode_record
from tests.metadata.histories import write

HERE = Path(__file__).parent
RECORDS = 45


def logs() -> list[str]:
    """A log for each level that Kafka 4.x has, and two more at the newest."""
    found = []
    for seed, level in enumerate((*RELEASES, LATEST, LATEST)):
        log = [FeatureLevelRecord("metadata.version", level), *write(Random(seed), RECORDS)]
        found.append(" ".join(encode_record(record, record_version(record, LATEST)).hex() for record in log))
    return found


def main() -> None:
    """Compile, ask, write."""
    with TemporaryDirectory() as classes:
        subprocess.run(["javac", "-d", classes, HERE / "KafkaImage.java"], check=True)
        classpath = f"{classes}:{os.environ['CLASSPATH']}"
        asked = subprocess.run(
            ["java", "-cp", classpath, "KafkaImage"],
            input="\n".join(logs()),
            capture_output=True,
            text=True,
            check=True,
        )
    answers = asked.stdout.splitlines()
    (HERE / "images.txt").write_text("".join(f"{log}\t{image}\n" for log, image in zip(logs(), answers, strict=True)))


if __name__ == "__main__":
    main()
