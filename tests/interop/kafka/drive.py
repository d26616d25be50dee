"""Drives a Kafka cluster through Kafka's own Admin client, and notes when it did what."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final, Self

from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Drive.java")
STOP_TIMEOUT_S: Final = 300
SETTLE_TIMEOUT_S: Final = 300
APART_S: Final = 0.7
"""Two looks this far apart that agree: a broker asks for what is new at least every 500 ms."""

Json = dict[str, Any]


class Drive:
    """An Admin client. `timeline` has what was done, by the wall clock in ms, and what came of it."""

    def __init__(self, servers: str) -> None:
        self.timeline: list[Json] = []
        command = java("Drive", servers, source=PROGRAM)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End the client at once: an answer that it still waits for becomes an AssertionError."""
        self._process.kill()

    def note(self, what: str, **fields: object) -> None:
        """Something that was not asked of the cluster: a node was started, or killed."""
        self.timeline.append({"ms": time.time_ns() // 1_000_000, "do": what, **fields})

    def change(self, what: str, **fields: object) -> None:
        """Ask for a change. Raises AssertionError with the cluster's answer when it refuses."""
        answer = self._asked(what, fields)
        assert answer == {"ok": True}, (what, fields, answer)

    def refused(self, error: str, what: str, **fields: object) -> None:
        """Ask for what the cluster has to refuse, with an exception of this name."""
        answer = self._asked(what, fields)
        assert answer.get("error") == error, (what, fields, answer)

    def change_within(self, seconds: float, what: str, **fields: object) -> None:
        """Ask until it is granted: what waits for another node to catch up is refused at first."""
        deadline = time.monotonic() + seconds
        while (answer := self._asked(what, fields)) != {"ok": True}:
            assert time.monotonic() < deadline, (what, fields, answer)
            time.sleep(APART_S)

    def describe(self) -> Json:
        return self._answer({"do": "describe"})

    def described(self, moment: str) -> Json:
        """The cluster once it stands still: with the high watermark that it amounts to."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        before = self.describe()
        while True:
            time.sleep(APART_S)
            after = self.describe()
            if "error" not in after and _standing(before) == _standing(after):
                self.note("described", moment=moment, highWatermark=before["quorum"]["highWatermark"])
                return {"moment": moment, **before}
            assert time.monotonic() < deadline, (moment, after)
            before = after

    def _asked(self, what: str, fields: Json) -> Json:
        self.note(what, **fields)
        answer = self._answer({"do": what, **fields})
        self.timeline[-1]["answer"] = answer
        return answer

    def _answer(self, asked: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the Admin client ended at {asked}"
        answer: Json = json.loads(line)
        return answer


def _standing(described: Json) -> Json:
    """What does not move by itself: features and quorum come with offsets that a no-op record moves."""
    return {name: value for name, value in described.items() if name not in ("quorum", "featuresEpoch")}
