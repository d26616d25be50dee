"""The page on security says what one caller can cost, with the limits that the code has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quorate.controller.engine.pending import QueueLimit
from quorate.listeners.config import CONNECTIONS_MAX, CONNECTIONS_PER_IP_MAX
from quorate.network.buffers import HELD_BYTES_MAX
from quorate.partition_log.open_files import SEGMENTS_MAX
from quorate.protocol.settings import ServerSettings
from quorate.runtime.calls.admission import DEFAULT_LIMITS
from quorate.runtime.calls.multiplexed_calls import UNDER_WAY_MAX as CALL_STREAM_MAX
from quorate.runtime.calls.wrapped_server import ServerLimits
from quorate.runtime.requests.caps import ITEMS_MAX, LIST_MAX
from quorate.runtime.requests.decoded_cost import COST_BYTES_MAX, COST_BYTES_MAX_OF, cost_limit, decoded_cost
from quorate.runtime.requests.refusals import ITEM_BYTES_MAX, MESSAGES_BYTES_MAX
from quorate.runtime.requests.room import LARGE_BYTES as EARLY_BYTES
from quorate.runtime.requests.room import ROOM_BYTES, WAIT_S
from quorate.wire.items import ITEMS_PER_STEP
from services.broker.__main__ import GRPC_BYTES_MAX
from services.broker.fetch import LARGE, LARGE_WAIT_MS_MAX, WAITING_MAX
from services.broker.fetch_sessions import OF_CONSUMER_MAX, OF_CONSUMERS_MAX, PARTITIONS_MAX, SLOTS
from services.broker.listener_config import HELD_BYTES_MAX as BROKERS_BYTES_MAX
from services.broker.producer_ids import AT_ONCE_MAX
from services.controller.admin import UNDER_WAY_MAX as ADMIN_STREAM_MAX
from services.gateway.config import REQUEST_BYTES_MAX
from services.quorum.__main__ import RECEIVE_BYTES_MAX as RAFT_BYTES_MAX
from tests.runtime.test_decoded_cost import OTLP_EXPORT, RPCS, largest_honest

PAGE: Final = Path(__file__).resolve().parents[3] / "services" / "SECURITY.md"
BY_METHOD: Final = PAGE.with_name("LARGEST_REQUESTS.md")
HEAD_BY_METHOD: Final = "| service | method | items | MiB on the wire | MiB beside them | at most |"
HEAD: Final = "| service | dearest method | items | MiB on the wire | MiB beside them | at most |"


def rows_by_method() -> Iterator[tuple[str, int, str]]:
    """Each method as `service | method`, what its largest honest request takes in bytes, and the rest of its row."""
    for path in RPCS:
        service, _, name = path.rpartition("/")
        if service.startswith("kraft.") or path == OTLP_EXPORT:
            kind, data, times, items = largest_honest(path)
            limit = cost_limit(path, kind.DESCRIPTOR)
            cost = times * decoded_cost(data, limit)
            size, memory = f"{times * len(data) / 2**20:.1f}", f"{cost / 2**20:.1f}"
            rest = f"{items} | {size} | {memory} | {limit.bytes_max >> 20} |"
            yield f"| {service.rpartition('.')[2]} | {name} |", cost, rest


def rows_of(page: Path, head: str) -> list[str]:
    """The rows of the table with this head."""
    table = page.read_text().partition(f"{head}\n|---|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    return table.splitlines()


def test_the_page_on_security_has_the_dearest_honest_request_of_each_service() -> None:
    dearest: dict[str, tuple[int, str]] = {}
    for method, cost, rest in rows_by_method():
        service = method.split()[1]
        dearest[service] = max((cost, f"{method} {rest}"), dearest.get(service, (0, "")))

    assert {row for _, row in dearest.values()} == set(rows_of(PAGE, HEAD))


def test_the_page_of_the_largest_requests_has_each_method() -> None:
    assert sorted(f"{method} {rest}" for method, _, rest in rows_by_method()) == rows_of(BY_METHOD, HEAD_BY_METHOD)


def test_the_page_on_security_says_what_bounds_one_caller() -> None:
    calls, gateway, limits = DEFAULT_LIMITS, ServerSettings(), ServerLimits()
    page = PAGE.read_text()
    rows = [
        f"from one address and in all | {calls.calls_per_ip} and {calls.calls:,};",
        f"| {calls.refused_at_once} at once, then {calls.refused_per_s:g} a second, "
        f"while {calls.refused_late_max:,} wait for that",
        f"| streams among them | {calls.streams_per_ip} and {calls.streams:,} |",
        f"are open on one connection | {limits.streams_per_connection_max};",
        f"| {ADMIN_STREAM_MAX:,} of an AdminStream, {CALL_STREAM_MAX:,} of a stream of calls |",
        f"a gRPC request | {limits.receive_bytes_max >> 20} MiB; "
        f"{RAFT_BYTES_MAX >> 20} MiB at a quorum node and at a broker |",
        f"| {COST_BYTES_MAX >> 20} MiB, and {COST_BYTES_MAX_OF[OTLP_EXPORT] >> 20} MiB for an export of spans;",
        f"this holds from {EARLY_BYTES >> 10} KiB on",
        f"(of more than {EARLY_BYTES >> 10} KiB) of one purpose take together | {ROOM_BYTES >> 20} MiB;",
        f"in turns of the addresses, and gets THROTTLING_QUOTA_EXCEEDED after {WAIT_S:g} s |",
        f"| {LIST_MAX:,} in a list, {ITEMS_MAX:,} in all;",
        f"| writes of admins that wait at a controller | {QueueLimit.ADMIN.value:,};",
        f"| {CONNECTIONS_PER_IP_MAX:,} and {CONNECTIONS_MAX:,}; for one more the oldest that has not logged in",
        f"| {REQUEST_BYTES_MAX >> 20} MiB, {gateway.sasl_receive_bytes_max >> 10} KiB before a login |",
        f"| {gateway.items_max:,}, counted before they are decoded;",
        f"the request, {ITEM_BYTES_MAX} bytes for each of its items, and {MESSAGES_BYTES_MAX >> 10} KiB: "
        f"{-(-(REQUEST_BYTES_MAX + ITEM_BYTES_MAX * gateway.items_max + MESSAGES_BYTES_MAX) >> 20)} MiB at most.",
        f"as one without: {gateway.items_max:,} items,",
        f"| {ITEMS_PER_STEP:,} items: decoding, checks,",
        f"take together, each until it has been served | {ROOM_BYTES >> 20} MiB beside",
        f"(from {gateway.large_bytes >> 10} KiB)",
        f"| {HELD_BYTES_MAX >> 20} MiB; beyond it the one that holds most",
        f"{gateway.request_bytes_max >> 20} MiB a request, {BROKERS_BYTES_MAX >> 20} MiB held together;",
        f"| {SLOTS:,} with {PARTITIONS_MAX:,} partitions together, of which consumers have {OF_CONSUMERS_MAX:,},",
        f"and one {OF_CONSUMER_MAX:,};",
        f"more than {LARGE} partitions {LARGE_WAIT_MS_MAX} ms, one of more than {WAITING_MAX:,} not",
        f"| {AT_ONCE_MAX:,}; further ones get COORDINATOR_LOAD_IN_PROGRESS",
        f"| {SEGMENTS_MAX:,} beside those that are appended to",
    ]

    assert GRPC_BYTES_MAX == RAFT_BYTES_MAX
    assert [] == [row for row in rows if row not in page]
