"""Few records have a session of their own, whose tables are those of any other (`test_incident`): when are they few?"""

from __future__ import annotations

from pathlib import Path

import pytest

from services.pipeline.size import FEW_BYTES, PACKED, are_few
from tests.pipeline.logs import node


def sized(path: Path, size: int) -> Path:
    """A file of so many bytes, none of which takes place on a disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    ("logs", "spans", "bronze", "few"),
    [
        (FEW_BYTES, None, 0, True),
        (FEW_BYTES + 1, None, 0, False),
        (FEW_BYTES - 10, 10, 0, True),
        (FEW_BYTES - 10, 11, 0, False),
        (None, None, FEW_BYTES // PACKED, True),
        (None, None, FEW_BYTES // PACKED + 1, False),
        (FEW_BYTES // 2, None, FEW_BYTES // PACKED // 2 + 1, False),
    ],
)
def test_logs_spans_and_what_bronze_has_count_together(
    tmp_path: Path, logs: int | None, spans: int | None, bronze: int, few: bool
) -> None:
    sized(tmp_path / "lake" / "bronze" / "records" / "cluster_id=one" / "part-0.parquet", bronze)
    sized(tmp_path / "lake" / "gold" / "audit_timeline" / "part-0.parquet", 2 * FEW_BYTES)
    source = None if logs is None else str(sized(node(tmp_path / "logs", "one") / f"{0:020}.log", logs))
    told = None if spans is None else str(sized(tmp_path / "traces.db", spans))

    assert few is are_few(str(tmp_path / "lake"), source, told)


@pytest.mark.parametrize(
    ("tables", "source", "spans"),
    [("s3a://lake", None, None), ("lake", "nowhere", None), ("lake", None, "postgresql://observer@db/observer")],
)
def test_what_is_not_on_this_machine_may_be_much(tables: str, source: str | None, spans: str | None) -> None:
    assert not are_few(tables, source, spans)
