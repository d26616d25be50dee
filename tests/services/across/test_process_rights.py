"""Each process may call the RPCs that its code calls, no more and no less."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_type_hints

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from quorate.nouns import Principal
from quorate.protocol.apis import all_apis
from quorate.runtime.access.process_rights import CALLS, ProcessRights
from quorate.runtime.settings.config import ConfigError, load
from services.controller.handlers import APIS
from services.gateway.apis import ROUTES, Backend
from services.placer.config import PlacerConfig
from services.quorum.peer_wire import rpc_of
from services.quorum.translate import asking, membership
from tests.services.rpcs import services

ROOT: Final = Path(__file__).parents[3]
LOG_READER: Final = ("libs/quorate/runtime/following/log_reader.py", "libs/quorate/runtime/following/leader_reports.py")
BY_OPERATORS: Final = ("services/quorum/resize.py", "services/observer/check.py")
"""Programs that run with an operator's certificate."""
FILES: Final = {
    "quorum": ("services/quorum",),
    "controller": ("services/controller",),
    "gateway": ("services/gateway",),
    "heartbeat": ("services/heartbeat", *LOG_READER),
    "placer": ("services/placer",),
    "observer": ("services/observer", *LOG_READER),
    "broker": ("services/broker", *LOG_READER),
    "pipeline": ("libs/quorate/pipeline/grpc_nodes.py",),
}
RPCS: Final = {
    (service.full_name, method.name)
    for service in (*services(), trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"])
    for method in service.methods
}
NAMES: Final = {name for _, name in RPCS}
IN_NAME_OF_OTHERS: Final = {"Authorize"}
"""A gateway asks it with what says whose request it has."""


def named_in(process: str) -> Iterator[str]:
    """The RPCs that a process's files name as a stub's attributes, wherever they are called."""
    for place in FILES[process]:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if str(file.relative_to(ROOT)) in BY_OPERATORS:
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and node.attr in NAMES and not _is_self(node.value):
                    yield node.attr


def _is_self(node: ast.expr) -> bool:
    """A servicer's own method."""
    return isinstance(node, ast.Name) and node.id == "self"


def to_peers() -> set[str]:
    """The RPCs by which a quorum node sends its core's requests, by the class of each; a Fetch goes on the stream."""
    made = [getattr(module, name) for module in (asking, membership) for name in dir(module) if name.startswith("to_")]
    returned = [get_type_hints(each).get("return") for each in made]
    requests = {rpc_of(each()) for each in returned if each is not None and each.__name__.endswith("Request")}
    return requests - {"Fetch"}


FROM_ANY: Final = {"FindQuorum", "RelayFetchStream", "RelayFetchSnapshot"}
"""What a LogReader calls that asks one node, leading or not, and as nobody."""
BY_TABLES: Final = {
    "quorum": to_peers(),
    "controller": {api.name for api in APIS.values() if api.quorum_deadline_ms is not None},
    "gateway": {all_apis()[key].name for key, at in ROUTES.items() if at is not Backend.CONTROLLER}
    | FROM_ANY
    | {"KeepAlive"},
}
"""What a process calls by a name in a table of its code."""
BY_OTHERS: Final = {
    # Not in this tree: an OpenTelemetry collector, people who read, and brokers of others that speak gRPC.
    "collector": set[str](),
    "reader": {"DescribeTopicPartitions", "DescribeCluster", "GetTrace", "ListTraces", "Query"}
    | {"ListChanges", "DiffImages", "WatchImage", "GetImage", "Examine", "ExamineQuorum"},
    "broker": {"BrokerHeartbeatStream"},
}
SENDS_SPANS: Final = CALLS.keys() - {"pipeline", "reader"}


@pytest.mark.parametrize("process", sorted(CALLS))
def test_a_process_may_call_what_its_code_calls(process: str) -> None:
    named = set(named_in(process)) if process in FILES else set()
    called = named | BY_TABLES.get(process, set()) | BY_OTHERS.get(process, set())
    called |= {"Export"} if process in SENDS_SPANS else set()
    granted = [(service, name) for service, names in CALLS[process].items() for name in names]

    assert called - IN_NAME_OF_OTHERS == {name for _, name in granted}
    assert len(granted) == len({name for _, name in granted})
    assert RPCS >= set(granted)


def test_of_several_processes_with_one_certificate_each_may_call_its_own() -> None:
    rights = ProcessRights(r"RULE:^quorum-[0-9]+$/quorum+controller/,RULE:^(placer|everything)$/$1/")
    node, placer = Principal("User", "quorum-0"), Principal("User", "placer")

    assert {"quorum", "controller"} == rights.of(node)
    assert {"placer"} == rights.of(placer)
    assert set() == rights.of(Principal("User", "everything")) | rights.of(Principal("User", "quorum-0x"))
    assert (True, False) == (rights.may_pass_on(node), rights.may_pass_on(placer))
    allowed = {(service, name) for service, name in RPCS if rights.may_call(node, f"{service}/{name}")}
    assert allowed == {
        (service, name)
        for process in ("quorum", "controller")
        for service, names in CALLS[process].items()
        for name in names
    }


@pytest.mark.parametrize(
    "rules", ["DEFAULT", "quorum", "RULE:^a$/admin/", "RULE:^a$/quorum,controller/", "RULE:^a$/quorum+/"]
)
def test_rules_that_name_no_process_are_refused_at_the_start(rules: str) -> None:
    given = ["listeners=PLACER://:1", f"principal.process.mapping.rules={rules}"]
    with pytest.raises(ConfigError) as refused:
        load(PlacerConfig, [word for each in given for word in ("--set", each)], {})

    assert any("RULE:pattern/processes/[LU]" in problem for problem in refused.value.problems)


def test_the_page_on_security_has_the_table() -> None:
    """As it is printed: each process, and the RPCs that it calls, by service."""
    page = (ROOT / "services" / "SECURITY.md").read_text()
    rows = {
        f"| `{process}` | "
        + "; ".join(f"{service.rpartition('.')[2]}: {', '.join(names)}" for service, names in calls.items())
        + " |"
        for process, calls in CALLS.items()
    }
    table = page.partition("| process | may call in its own name |\n|---|---|\n")[2].partition("\n\n")[0]

    assert rows == set(table.splitlines())
