"""The page on security says what one caller can cost, with the limits that the code has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.controller.engine.pending import QueueLimit
from quorate.network.buffers import HELD_BYTES_MAX
from quorate.protocol.settings import ServerSettings
from quorate.runtime.admission import DEFAULT_LIMITS
from quorate.runtime.caps import ITEMS_MAX, LIST_MAX
from quorate.runtime.decoded_cost import COST_BYTES_MAX, COST_BYTES_MAX_OF, cost_limit, decoded_cost
from quorate.runtime.multiplexed_calls import UNDER_WAY_MAX as CALL_STREAM_MAX
from quorate.runtime.refusals import ITEM_BYTES_MAX, MESSAGES_BYTES_MAX
from quorate.runtime.room import LARGE_BYTES as EARLY_BYTES
from quorate.runtime.room import ROOM_BYTES, WAIT_S
from quorate.runtime.wrapped_server import ServerLimits
from quorate.wire.items import ITEMS_PER_STEP
from services.controller.admin import UNDER_WAY_MAX as ADMIN_STREAM_MAX
from services.gateway.config import CONNECTIONS_MAX, CONNECTIONS_PER_IP_MAX, REQUEST_BYTES_MAX
from services.quorum.__main__ import RECEIVE_BYTES_MAX as RAFT_BYTES_MAX
from tests.runtime.test_decoded_cost import OTLP_EXPORT, RPCS, largest_honest

PAGE: Final = Path(__file__).resolve().parents[3] / "services" / "SECURITY.md"
HEAD: Final = "| service | dearest method | items | MiB on the wire | MiB beside them | at most |"


def test_the_page_on_security_has_the_dearest_honest_request_of_each_service() -> None:
    dearest: dict[str, tuple[int, str]] = {}
    for method in RPCS:
        service, _, name = method.rpartition("/")
        if service.startswith("kraft.") or method == OTLP_EXPORT:
            kind, data, times, items = largest_honest(method)
            limit = cost_limit(method, kind.DESCRIPTOR)
            cost = times * decoded_cost(data, limit)
            size, memory = f"{times * len(data) / 2**20:.1f}", f"{cost / 2**20:.1f}"
            row = f"| {service.rpartition('.')[2]} | {name} | {items} | {size} | {memory} | {limit.bytes_max >> 20} |"
            dearest[service] = max((cost, row), dearest.get(service, (0, "")))
    table = PAGE.read_text().partition(f"{HEAD}\n|---|---|---|---|---|---|\n")[2].partition("\n\n")[0]

    assert {row for _, row in dearest.values()} == set(table.splitlines())


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
        f"a gRPC request | {limits.receive_bytes_max >> 20} MiB; {RAFT_BYTES_MAX >> 20} MiB at a quorum node |",
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
    ]

    assert [] == [row for row in rows if row not in page]
