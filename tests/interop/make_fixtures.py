"""Runs clusters of a Kafka release through their lives and keeps their metadata logs: `make fixtures`.

For each cluster below `fixtures/`, `unsound/` and `diverged/`: a directory for each node, what Kafka's dump tool says
of each file beside it, what an Admin client saw (`described.json`), and what was done when (`timeline.json`).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.kafka.release import version
from tests.interop.kafka import decisions, golden
from tests.interop.kafka.drive import Json
from tests.interop.kafka.judge import DIRECTORY, dump_log, dumped_batches, files_of
from tests.interop.kafka.release import absent
from tests.interop.quorum_stories import deposed_leader, lost_scram, voters_changed
from tests.interop.stories import combined_static, three_dynamic

FIXTURES: Final = Path(__file__).parent / "fixtures"
UNSOUND_FIXTURES: Final = Path(__file__).parent / "unsound"
DIVERGED_FIXTURES: Final = Path(__file__).parent / "diverged"
LEFT_OUT: Final = (".lock", ".deleted")
"""The lock, and what Kafka was about to remove."""
INDEXES: Final = (".index", ".timeindex")
INDEX_BYTES_MAX: Final = 100_000
"""What a killed process left is 10 MiB of zeros."""

STORIES: Final[dict[str, Callable[[Path], tuple[Json, list[Json], list[Json]]]]] = {
    "combined-static": combined_static,
    "three-dynamic": three_dynamic,
    "voters-changed": voters_changed,
    "lost-scram": lost_scram,
    "deposed-leader": deposed_leader,
}
UNSOUND: Final = frozenset({"lost-scram"})
"""Kept apart: a checkpoint of these does not say what the log says."""
DIVERGED: Final = frozenset({"deposed-leader"})
"""Kept apart: one log of these has records that are not in the others."""

PROVENANCE: Final = """\
# {name}

Made by Apache Kafka {version} (the jars that `deploy/kafka/pom.xml` names), on {date}, with

    make fixtures        (or: python -m tests.interop.make_fixtures {name})

Data, not code: directories of Kafka's metadata log as its nodes left them. `*.dump.txt` is what Kafka's
DumpLogSegments prints of the file beside it. `described.json`: moments as an Admin client of the same release saw
them, each with the high watermark that it amounts to; the last one just before the stop. `timeline.json`: what
was done, by the wall clock in ms. Passwords of users are derived from their names and secret to nobody.

{nodes}
"""


def main(wanted: Iterable[str]) -> None:
    """Run the wanted stories and replace their fixtures; without any, all, and golden bytes and decisions, too."""
    why = absent()
    if why:
        sys.exit(why)
    if not wanted:
        golden.main()
        decisions.main()
    for name in tuple(wanted) or tuple(STORIES):
        with TemporaryDirectory() as scratch:
            nodes, moments, timeline = STORIES[name](Path(scratch))
            _keep(name, nodes, moments, timeline)


def _keep(name: str, nodes: Json, moments: list[Json], timeline: list[Json]) -> None:
    kept_at = UNSOUND_FIXTURES if name in UNSOUND else DIVERGED_FIXTURES if name in DIVERGED else FIXTURES
    target = kept_at / name
    if target.exists():
        shutil.rmtree(target)
    for node, (directory, _) in nodes.items():
        _keep_node(directory, target / node)
    (target / "described.json").write_text(_json(moments))
    (target / "timeline.json").write_text("".join(json.dumps(each) + "\n" for each in timeline))
    words = "\n".join(f"* `{node}/`: {what}" for node, (_, what) in nodes.items())
    day = datetime.now(UTC).date().isoformat()
    (target / "PROVENANCE.md").write_text(PROVENANCE.format(name=name, version=version(), date=day, nodes=words))
    print(f"{name}: {sum(path.stat().st_size for path in target.rglob('*') if path.is_file()):,} bytes")


def _keep_node(directory: Path, target: Path) -> None:
    (target / DIRECTORY).mkdir(parents=True)
    beside = [path for name in ("meta.properties", "bootstrap.checkpoint") for path in directory.glob(name)]
    for path in (*beside, *(directory / DIRECTORY).iterdir()):
        is_small = path.suffix not in INDEXES or path.stat().st_size <= INDEX_BYTES_MAX
        if is_small and not path.name.endswith(LEFT_OUT):
            shutil.copyfile(path, target / path.relative_to(directory))
    for path in files_of(target):
        text = dump_log(path)
        assert dumped_batches(text), path
        path.with_name(path.name + ".dump.txt").write_text(text)


def _json(moments: list[Json]) -> str:
    return json.dumps(moments, indent=1) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
