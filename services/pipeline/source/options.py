"""Parses the options of the source `kraft`; an error names the option, its value and the rule."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict

from quorate.pipeline.files import local_path
from quorate.pipeline.grpc_security import SECURITY, StoreFiles, parse_security
from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND, PART_BYTES, LogFile, parse_endpoints
from quorate.pipeline.rows import CONTROL_TYPES, UNKNOWN, RowFilter
from quorate.pipeline.stores import S3Access
from quorate.records import RECORDS
from quorate.wire.json_names import type_name
from services.pipeline.source.bounds import BOUNDS, Bounds, parse_bounds
from services.pipeline.source.triggers import DELAY_MS, parse_delay

__all__ = ["FOREVER", "SETTLE_MS", "Options", "parse"]

PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"
OPTIONS: Final = (
    "path",
    "paths",
    "endpoints",
    *SECURITY,
    "kafka.bootstrap.controllers",
    "clusterId",
    "startOffset",
    "endOffset",
    "recordTypes",
    "includeControl",
    "include",
    "mode",
    "maxPartitionBytes",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "reportTruncation",
    "settleMs",
    "retryMs",
    "columns",
    *BOUNDS,
    "fs.s3a.endpoint",
    "fs.s3a.endpoint.region",
    "fs.s3a.connection.ssl.enabled",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
)
_OF_TABLES: Final = frozenset(("location", "provider", "owner"))
"""Options that Spark's catalog adds to those of a table (CREATE TABLE … USING kraft)."""
FOREVER: Final = (1 << 63) - 1
SETTLE_MS: Final = 600_000
"""How long, in ms, a file must be unchanged until it counts as complete: longer than a copy or a restart takes."""
RETRY_MS: Final = 60_000
"""How long, in ms, calls to a quorum are retried: longer than a few elections take."""


_UNITS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}
"""The units of a size, as powers of two. Spark reads them so, with a `b` behind them or without."""
_SIZE: Final = re.compile(r"([0-9]{1,18})(?:b|([kmgt])b?)?")
KAFKA: Final = "kafka."
"""The prefix of the properties of a Kafka client, as in Spark's own source for Kafka."""
BOOTSTRAP: Final = "bootstrap.controllers"
"""Kafka's property for the addresses of controllers. KIP-919."""


class Options(NamedTuple):
    """The parsed options. One of `paths`, `endpoints` and `kafka` is set; sizes are in bytes, times in ms."""

    wanted: RowFilter
    include: frozenset[str]
    paths: tuple[str, ...]
    endpoints: tuple[str, ...]
    store_files: StoreFiles | None
    """The files for TLS with `endpoints`; None in the clear."""
    kafka: tuple[tuple[str, str], ...]
    """The properties of a Kafka client, `bootstrap.controllers` among them; empty without that."""
    cluster_id: str | None
    part_bytes: int
    offsets_max: int | None
    offsets_min: int | None
    delay_ms: int
    fails_on_loss: bool
    tells_truncation: bool
    settle_ms: int
    retry_ms: int
    access: S3Access
    columns: tuple[str, ...]
    """The columns of the schema; empty for all."""
    bounds: Bounds

    def may_hold(self, place: LogFile) -> bool:
        """Returns whether a file may hold rows from startOffset to endOffset; the query's conditions do not count."""
        if place.kind not in self.include:
            return False
        wanted = self.limited(place.cluster_id)
        low, high = wanted.start_offset, wanted.end_offset
        if place.kind == CHECKPOINT_KIND:
            return low <= place.base_offset <= high
        return place.base_offset < high and (place.following is None or place.following > low)

    def limited(self, cluster_id: str) -> RowFilter:
        """Returns the filter for the rows of a cluster: by the options, and within its starting and ending bounds."""
        return self.bounds.limited(self.wanted, cluster_id)


def parse(options: Mapping[str, Any]) -> Options:
    """Parses options by name, in upper or lower case. Raises ValueError."""
    known = {each.lower() for each in OPTIONS}
    strange = sorted(name for name in options if name.lower() not in known and not _is_kafka(name))
    if _OF_TABLES.issubset(strange):
        raise ValueError(
            "the source kraft cannot be a table of the catalog: Spark gives the reader of a Python source none of its"
            " table's options; CREATE TEMPORARY VIEW … USING kraft OPTIONS (path '…') can be read"
        )
    if strange:
        raise ValueError(f"the source kraft has no option {', '.join(strange)}: it has {', '.join(OPTIONS)}")
    paths, endpoints = _paths(options), parse_endpoints(_option(options, "endpoints") or "")
    kafka = _kafka(options)
    if sum(map(bool, (paths, endpoints, kafka))) != 1:
        raise ValueError(
            f"the source kraft needs one of: a path (a directory, a file or a glob), endpoints, and {KAFKA}{BOOTSTRAP}"
        )
    wanted = _wanted(options)
    return Options(
        wanted=wanted,
        include=_include(options),
        paths=paths,
        endpoints=endpoints,
        store_files=_store_files(options, endpoints),
        kafka=kafka,
        cluster_id=_option(options, "clusterId"),
        part_bytes=_size(options, "maxPartitionBytes", PART_BYTES),
        **_triggers(options),
        fails_on_loss=_flag(options, "failOnDataLoss", default=True),
        # A stream that fails because of an election would fail again from its checkpoint, and for ever.
        tells_truncation=_flag(options, "reportTruncation", default=True) and not wanted.failfast,
        settle_ms=_number(options, "settleMs", SETTLE_MS),
        retry_ms=_number(options, "retryMs", RETRY_MS),
        access=_s3_access(options),
        bounds=parse_bounds(partial(_option, options)),
        columns=tuple(each.strip() for each in (_option(options, "columns") or "").split(",") if each.strip()),
    )


class _Triggers(TypedDict):
    offsets_max: int | None
    offsets_min: int | None
    delay_ms: int


def _triggers(options: Mapping[str, Any]) -> _Triggers:
    most, least, delay = (
        _option(options, name) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    )
    if delay is not None and least is None:
        raise ValueError(f"maxTriggerDelay is {delay!r} without minOffsetsPerTrigger; nothing would be delayed")
    found = _Triggers(
        offsets_max=None if most is None else _number(options, "maxOffsetsPerTrigger", FOREVER, least=1),
        offsets_min=None if least is None else _number(options, "minOffsetsPerTrigger", 1, least=1),
        delay_ms=DELAY_MS if delay is None else parse_delay(delay),
    )
    least_count, most_count = found["offsets_min"], found["offsets_max"]
    if least_count is not None and most_count is not None and least_count > most_count:
        raise ValueError(f"minOffsetsPerTrigger {least_count} is above maxOffsetsPerTrigger {most_count}")
    return found


def _wanted(options: Mapping[str, Any]) -> RowFilter:
    mode = (_option(options, "mode") or PERMISSIVE).upper()
    if mode not in (PERMISSIVE, FAILFAST):
        raise ValueError(f"mode is {mode!r}; {PERMISSIVE} and {FAILFAST} exist")
    start = _number(options, "startOffset", 0)
    end = _number(options, "endOffset", FOREVER)
    if end < start:
        raise ValueError(f"endOffset {end} is below startOffset {start}; the end is exclusive")
    return RowFilter(
        start_offset=start,
        end_offset=end,
        types=_record_types(options),
        control=_flag(options, "includeControl", default=True),
        failfast=mode == FAILFAST,
    )


def _record_types(options: Mapping[str, Any]) -> frozenset[str] | None:
    given = _option(options, "recordTypes")
    if given is None:
        return None
    named = frozenset(name.strip().upper() for name in given.split(",") if name.strip())
    known = {*map(type_name, RECORDS.values()), *CONTROL_TYPES.values(), UNKNOWN}
    if named - known or not named:
        strange = ", ".join(sorted(named - known)) or repr(given)
        raise ValueError(f"recordTypes has {strange}; known are {', '.join(sorted(known))}")
    return named


def _include(options: Mapping[str, Any]) -> frozenset[str]:
    given = _option(options, "include")
    kinds = frozenset((given or f"{LOG_KIND},{CHECKPOINT_KIND}").replace(" ", "").split(","))
    if kinds - {LOG_KIND, CHECKPOINT_KIND}:
        raise ValueError(f"include is {given!r}; it lists {LOG_KIND}, {CHECKPOINT_KIND} or both")
    return kinds


def _paths(options: Mapping[str, Any]) -> tuple[str, ...]:
    path, paths = _option(options, "path"), _option(options, "paths")
    found = json.loads(paths) if paths else [path] if path else []
    return tuple(local_path(str(each)) for each in found)


def _s3_access(options: Mapping[str, Any]) -> S3Access:
    return S3Access(
        endpoint=_option(options, "fs.s3a.endpoint"),
        region=_option(options, "fs.s3a.endpoint.region"),
        is_encrypted=_flag(options, "fs.s3a.connection.ssl.enabled", default=True),
        access_key=_option(options, "fs.s3a.access.key"),
        secret_key=_option(options, "fs.s3a.secret.key"),
        session_token=_option(options, "fs.s3a.session.token"),
    )


def _store_files(options: Mapping[str, Any], endpoints: tuple[str, ...]) -> StoreFiles | None:
    found = {name: value for name in SECURITY if (value := _option(options, name)) is not None}
    if found and not endpoints:
        raise ValueError(f"{', '.join(found)} without endpoints; for a running Kafka cluster they begin with {KAFKA}")
    return parse_security(found)


def _kafka(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Returns the properties of a Kafka client. Raises ValueError with names only: values may be secrets."""
    found = {name.lower().removeprefix(KAFKA): str(value) for name, value in options.items() if _is_kafka(name)}
    if found and not found.get(BOOTSTRAP):
        raise ValueError(f"{', '.join(sorted(KAFKA + name for name in found))} without {KAFKA}{BOOTSTRAP}")
    return tuple(sorted(found.items()))


def _is_kafka(name: str) -> bool:
    return name.lower().startswith(KAFKA)


def _flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    given = _option(options, name)
    if given is None:
        return default
    if given.lower() not in ("true", "false"):
        raise ValueError(f"{name} is {given!r}; true and false exist")
    return given.lower() == "true"


def _number(options: Mapping[str, Any], name: str, default: int, *, least: int = 0) -> int:
    given = _option(options, name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or int(given) < least:
        raise ValueError(f"{name} is {given!r}; it is a whole number of {least} or more")
    return int(given)


def _size(options: Mapping[str, Any], name: str, default: int) -> int:
    """Returns a size in bytes, written as Spark's own settings have sizes: `33554432`, `32m`, `1GB`."""
    given = _option(options, name)
    if given is None:
        return default
    found = _SIZE.fullmatch(given.strip().lower())
    if found is None or int(found[1]) == 0:
        raise ValueError(f"{name} is {given!r}; it is a number of bytes above 0, or one with {', '.join(_UNITS)}: 32m")
    return int(found[1]) << _UNITS.get(found[2], 0)


def _option(options: Mapping[str, Any], name: str) -> str | None:
    """Returns an option by its name, ignoring case as Spark does; None if it is not set."""
    lower = {key.lower(): value for key, value in options.items()}
    value = lower.get(name.lower())
    return None if value is None else str(value)
