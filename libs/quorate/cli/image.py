"""`quorate image show`: prints a cluster's state as text tables, or as one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from quorate.cli.documents import is_document, print_document
from quorate.cli.image_json import as_json as image_document
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.nouns import uuid_text

__all__ = ["columns", "document", "lines", "show", "shown_time"]

Json = Mapping[str, Any]  # Any: JSON values
Row = Sequence[object]

UNCOMMITTED: Final = "not known: files do not say what is committed; all that is in the log is shown"
NOTHING: Final = "-"
OBSERVED: Final = "not known: an observer has nothing but what is committed, and may be behind"
INDENT: Final = "  "


def show(found: Offline, *, output: str) -> None:
    """Prints a state and its origin: as text tables, in colours on a terminal, or as one document."""
    if is_document(output):
        print_document(document(found), output)
        return
    console = Console(soft_wrap=True, highlight=False)
    in_colours = console.is_terminal
    for line in lines(found):
        if in_colours and line and not line.startswith(INDENT):
            console.print(Text(line, "bold"))
        else:
            sys.stdout.write(line + "\n")


def document(found: Offline) -> dict[str, Any]:
    """Returns the state and its origin as a JSON document: ids as text, times in ms since 1970."""
    return {
        "asOfOffset": found.as_of_offset,
        "epoch": found.epoch,
        "lastTimestamp": found.last_timestamp,
        "highWatermark": found.high_watermark,
        "checkpoint": str(found.checkpoint) if found.checkpoint else None,
        "notes": found.notes,
        "kraftVersion": found.kraft_version,
        "voters": _voters(found),
        **image_document(found.state),
        "transaction": found.transaction._asdict() if found.transaction else None,
    }


def lines(found: Offline) -> Iterator[str]:
    """Yields the state as text: a heading and a table for each kind of metadata that is not empty."""
    image = document(found)
    yield from _where(found)
    yield from _table("Features", ("name", "level"), _features(image))
    yield from _table("Voters", ("id", "directory", "endpoints"), [_voter(each) for each in image["voters"] or ()])
    yield from _table(
        "Controllers", ("id", "incarnation", "endpoints"), map(_controller, _values(image, "controllers"))
    )
    yield from _table(
        "Brokers",
        ("id", "broker epoch", "state", "rack", "endpoints", "directories", "incarnation"),
        map(_broker, _values(image, "brokers")),
    )
    yield from _table("Topics", ("topic", "id", "partitions"), _topics(image))
    yield from _table(
        "Partitions",
        (
            "topic",
            "partition",
            "leader",
            "leader epoch",
            "partition epoch",
            "replicas",
            "isr",
            "elr",
            "last known elr",
            "changes",
        ),
        _partitions(image),
    )
    yield from _table("Configs", ("type", "resource", "name", "value"), _configs(image))
    yield from _table("Client quotas", ("entity", "quota", "value"), _quotas(image))
    yield from _table("Producer ids", ("next",), _producer_ids(image))
    yield from _table("ACLs", ("id", "entry"), _acls(image))
    yield from _table("SCRAM users", ("mechanism", "user", "iterations"), _scram(image))
    yield from _table("Delegation tokens", ("id", "token"), _tokens(image))
    yield from _table("Unknown records", ("api key", "version", "body"), _unknown(image))


def _where(found: Offline) -> Iterator[str]:
    when = NOTHING if found.last_timestamp is None else shown_time(found.last_timestamp)
    yield f"State as of offset {found.as_of_offset}"
    unknown = UNCOMMITTED if found.has_quorum else OBSERVED
    heading: list[Row] = [
        ("from", found.path),
        ("epoch", found.epoch),
        ("last record", when),
        ("high watermark", unknown if found.high_watermark is None else found.high_watermark),
    ]
    heading += [("checkpoint", found.checkpoint.name)] if found.checkpoint else []
    if found.transaction is not None:
        name = found.transaction.name or "one without a name"
        heading.append(("transaction", f"{name}, open since {found.transaction.start}"))
    yield from columns([*heading, *(("note", note) for note in found.notes)])


def shown_time(ms: int) -> str:
    """Formats ms since 1970 as ISO 8601 in UTC; a number that is in no year from 1 to 9999 stays a number.

    >>> shown_time(1 << 62)
    '4611686018427387904 ms since 1970'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms since 1970"


def _voters(found: Offline) -> list[dict[str, Any]] | None:
    if found.voters is None:
        return None
    return [
        {
            "id": voter.voter_id,
            "directoryId": uuid_text(voter.voter_directory_id),
            "endpoints": [{"name": each.name, "host": each.host, "port": each.port} for each in voter.endpoints],
        }
        for voter in found.voters.voters
    ]


def _values(image: Json, kind: str) -> Iterable[Json]:
    rows: Iterable[Json] = image["cluster"][kind].values()
    return rows


def _features(image: Json) -> Iterator[Row]:
    for name, level in image["features"]["finalizedVersions"].items():
        release = f" ({image['features']['metadata.version']})" if name == "metadata.version" else ""
        yield name, f"{level}{release}"
    if image["kraftVersion"]:
        yield "kraft.version", image["kraftVersion"]


def _voter(voter: Json) -> Row:
    return voter["id"], voter["directoryId"], _endpoints(voter["endpoints"])


def _controller(controller: Json) -> Row:
    return controller["controllerId"], controller["incarnationId"], _endpoints(controller["endPoints"])


def _broker(broker: Json) -> Row:
    return (
        broker["id"],
        broker["epoch"],
        "fenced" if broker["fenced"] else "controlled shutdown" if broker["inControlledShutdown"] else "active",
        broker["rack"] or NOTHING,
        _endpoints(broker["endPoints"]),
        " ".join(broker["logDirs"]),
        broker["incarnationId"],
    )


def _endpoints(endpoints: Iterable[Json]) -> str:
    return " ".join(f"{each['name']}://{each['host']}:{each['port']}" for each in endpoints)


def _topics(image: Json) -> Iterator[Row]:
    for name, topic in image["topics"].items():
        yield name, topic["topicId"], len(topic["partitions"])


def _partitions(image: Json) -> Iterator[Row]:
    for name, topic in image["topics"].items():
        for partition_id, partition in topic["partitions"].items():
            changes = [f"+{replica}" for replica in partition["addingReplicas"]]
            changes += [f"-{replica}" for replica in partition["removingReplicas"]]
            changes += ["recovering"] if partition["leaderRecoveryState"] == "RECOVERING" else []
            yield (
                name,
                partition_id,
                "none" if partition["leader"] < 0 else partition["leader"],
                partition["leaderEpoch"],
                partition["partitionEpoch"],
                _ids(partition["replicas"]),
                _ids(partition["isr"]),
                _ids(partition["elr"]),
                _ids(partition["lastKnownElr"]),
                " ".join(changes) or NOTHING,
            )


def _configs(image: Json) -> Iterator[Row]:
    for kind, resources in image["configs"].items():
        for resource, values in resources.items():
            for name, value in values.items():
                yield kind, resource or "(default)", name, value


def _quotas(image: Json) -> Iterator[Row]:
    for quota in image["clientQuotas"]:
        for name, value in quota["quotas"].items():
            entity = {kind: "(default)" if of is None else of for kind, of in quota["entity"].items()}
            yield _pairs(entity), name, value


def _producer_ids(image: Json) -> Iterator[Row]:
    upcoming = image["producerIds"]["nextProducerId"]
    if upcoming is not None and upcoming > 0:
        yield (upcoming,)


def _acls(image: Json) -> Iterator[Row]:
    for key, entry in image["acls"].items():
        yield key, _pairs({name: value for name, value in entry.items() if name != "id"})


def _scram(image: Json) -> Iterator[Row]:
    for mechanism, users in image["scram"].items():
        for user, credential in users.items():
            yield mechanism, user, credential["iterations"]


def _tokens(image: Json) -> Iterator[Row]:
    for key, token in image["delegationTokens"].items():
        yield key, _pairs(token)


def _unknown(image: Json) -> Iterator[Row]:
    for record in image["unknownRecords"]:
        yield record["apiKey"], record["version"], record["body"]


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids)) or NOTHING


def _pairs(values: Json) -> str:
    return " ".join(f"{name}={NOTHING if value is None else value}" for name, value in values.items())


def _table(title: str, head: Row, rows: Iterable[Row]) -> Iterator[str]:
    """Yields a title and aligned columns; nothing if there are no rows."""
    body = list(rows)
    if body:
        yield ""
        yield f"{title} ({len(body)})"
        yield from columns([head, *body])


def columns(rows: Sequence[Row]) -> Iterator[str]:
    """Yields rows as lines with aligned columns; what would control the terminal is escaped."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield (INDENT + INDENT.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
