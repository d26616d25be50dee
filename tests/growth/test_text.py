"""Text of callers costs no more than its length: every pattern, parser, check and message, with what is worst for it.

The table names what works on text that a caller chooses, in gateway, controller, quorum node, observer and its page,
placer, heartbeat service and broker, and what the command takes as options and in its plans; not in the pipeline, which
works on files. SQL of a caller is read by a process of its own, which has its time. Patterns of the operator's
(principal and node id rules, JAAS entries, settings) are the operator's to choose, and so not in it. In what is not
here a text is only compared, hashed, looked up, copied, or split at one letter.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import pytest
from google.protobuf import json_format

from kraft.api.api_versions import ApiVersionsRequest
from kraft.api.sasl_handshake import SaslHandshakeRequest
from kraft.service.observer_pb2 import QueryRequest
from quorate.authorizer.hosts import fault_of_host, host_address
from quorate.cli.as_of import read_as_of
from quorate.cli.failures import Misused
from quorate.cli.scram import parse_scram
from quorate.cli.write_users import NUMBER
from quorate.controller.access.delegation_tokens import parse_principal
from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.topic_names import fault_of_name
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Principal, parse_uuid
from quorate.protocol.api_versions import has_valid_software
from quorate.protocol.apis import api_of
from quorate.protocol.sasl.mechanism import SaslError
from quorate.protocol.sasl.scram_messages import ClientFinal, ClientFirst, ServerFinal, ServerFirst
from quorate.runtime.access.passing_on import CLIENT_PRINCIPAL, client_id_text, principal, principal_text
from quorate.runtime.logging.hidden import shown
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.requests.statuses import shortened, trailing_metadata
from quorate.runtime.telemetry.tracing import parse_traceparent
from quorate.wire.schema import STRING_MAX
from services.broker.coordinators import SHARE_KEY
from services.observer.page.calls import DEPTH_MAX
from services.observer.page.http import HEAD_BYTES_MAX, Http, HttpError
from tests.growth.cost import grows_faster_than_its_input
from tests.protocol.pair import Pair
from tests.protocol.test_connection import raw

SIZES: Final = (500, 4_000, 32_000)
"""A string of Kafka's has 32,767 bytes at most."""

Work = Callable[[str], object]

# fmt: off
REPEATED: Final = (
    "token-", "a-", "a", "-", ".", "=", "token=", "token='", 'token="', "token= ", "token", " ", "\n", "a://u:",
    "a://u:@", "://", "://:", "a://u:p@a", "@", "bearer ", "basic", "Bearer a:", "0", "00:", "0:0,", ",", "P1D", "[",
    "(", "\\", "*", "?", "1.", "1e", "+", "[a", "a=b,", ",a=b", "=2C", "m=a,", "AAAA", "AAA=", ",p=AAAA", "\x00",
    "\x85", "é", "'", '"', "x='", "%", ":", "/",
)
# fmt: on
"""What the texts are made of, each by repetition."""


def forgiven(work: Work, *errors: type[Exception]) -> Work:
    def tried(text: str) -> None:
        with suppress(*errors):
            work(text)

    return tried


def handshake(text: str) -> object:
    text = text.encode()[:STRING_MAX].decode(errors="ignore")
    pair = Pair(mechanisms={})
    pair.server.receive_data(raw(api_of(SaslHandshakeRequest), SaslHandshakeRequest(mechanism=text), 1), 0)
    return pair.server.next_event(0)


def quoted(text: str) -> str:
    """As it may stand in a head: else the first byte of it is the end."""
    return quote(text, safe="/:=%&?;,.-_~")


def page_asked(head: str, size: int = HEAD_BYTES_MAX) -> None:
    connection, data = Http(), head.encode()[: HEAD_BYTES_MAX - 100] + b"\r\nhost: a\r\n\r\n"
    for begin in range(0, len(data), size):
        connection.receive(data[begin : begin + size])
        connection.request()


def in_json(body: str) -> None:
    with suppress(json_format.ParseError, RecursionError):
        json_format.Parse(body, QueryRequest(), max_recursion_depth=DEPTH_MAX)


def criterion(text: str) -> None:
    re.purge()  # or the second time costs nothing
    client_metrics.check({"match": f"client_id={text}"})


def values_of_configs(text: str) -> None:
    for validator in VALIDATORS:
        validator(text)


VALIDATORS: Final = tuple(
    {
        values.rule: values.takes
        for configs in (topic.CONFIGS, broker.DYNAMIC, group.CONFIGS, client_metrics.CONFIGS)
        for values in (each.values for each in configs.values())
    }.values()
)

WORK: Final[Mapping[str, Work]] = {
    "runtime/logging/hidden.py: secrets in what is logged": lambda text: shown(text, len(text)),
    "runtime/logging/logs.py: a line": lambda text: logger("growth").info(text, reason=text),
    "runtime/requests/statuses.py: a refusal": lambda text: trailing_metadata(
        ApiError(ErrorCode.INVALID_REQUEST, text, {"field": text})
    ),
    "runtime/requests/statuses.py: a message that is shortened": lambda text: shortened(repr(text)),
    "runtime/access/passing_on.py: a client id": client_id_text,
    "runtime/access/passing_on.py: a principal": forgiven(
        lambda text: principal_text(Principal("User", text)), ApiError
    ),
    "runtime/access/passing_on.py: a principal, read": forgiven(
        lambda text: principal([(CLIENT_PRINCIPAL, text)]), ApiError
    ),
    "protocol/api_versions.py: a client's name": lambda text: has_valid_software(ApiVersionsRequest(text, text), 4),
    "protocol/sasl/server.py: a mechanism": handshake,
    "protocol/sasl/scram_messages.py: client first": forgiven(
        lambda text: ClientFirst.parse(f"n,,n={text},r=x{text}".encode()), SaslError
    ),
    "protocol/sasl/scram_messages.py: client first, extensions": forgiven(
        lambda text: ClientFirst.parse(f"n,,n=a,r=x{text}".encode()), SaslError
    ),
    "protocol/sasl/scram_messages.py: server first": forgiven(
        lambda text: ServerFirst.parse(f"r=x{text},s={text},i=1{text}".encode()), SaslError
    ),
    "protocol/sasl/scram_messages.py: client final": forgiven(
        lambda text: ClientFinal.parse(f"c=biws,r=x{text},p={text}".encode()), SaslError
    ),
    "protocol/sasl/scram_messages.py: server final": forgiven(
        lambda text: ServerFinal.parse(f"v={text},a={text}".encode()), SaslError
    ),
    "authorizer/hosts.py: an entry's host": lambda text: fault_of_host(f"{text}/{text}"),
    "authorizer/hosts.py: an address": host_address,
    "controller/topic_names.py: a topic's name": fault_of_name,
    "controller/access/delegation_tokens.py: an owner": parse_principal,
    "controller/configs: values": values_of_configs,
    "controller/configs/client_metrics.py: match": forgiven(criterion, ApiError),
    "controller/configs/client_metrics.py: many criteria": forgiven(
        lambda text: client_metrics.check({"match": text.replace("a", "client_id=a,")}), ApiError
    ),
    "nouns.py: an id": forgiven(parse_uuid, ValueError),
    "runtime/telemetry/tracing.py: a traceparent": lambda text: parse_traceparent(text.encode()),
    "services/broker/coordinators.py: the key of a share partition": lambda text: SHARE_KEY.fullmatch(
        f"{text}:{'A' * 22}:{text}"
    ),
    "services/observer/page/http.py: a path": forgiven(
        lambda text: page_asked(f"GET /{quoted(text)}?{quoted(text)} HTTP/1.1"), HttpError
    ),
    "services/observer/page/http.py: fields": forgiven(
        lambda text: page_asked(f"GET / HTTP/1.1\r\ncookie: {quoted(text)}"), HttpError
    ),
    "services/observer/page/http.py: a head in small parts": forgiven(
        lambda text: page_asked(f"GET / HTTP/1.1\r\ncookie: {quoted(text)}", size=256), HttpError
    ),
    "services/observer/page/calls.py: a string of JSON": lambda text: in_json(json.dumps({"sql": text})),
    "services/observer/page/calls.py: what is no JSON": in_json,
    "cli/write_users.py: a quota": NUMBER.fullmatch,
    "cli/write_users.py: digits": lambda text: NUMBER.fullmatch(f"{'1' * len(text)}x"),
    "cli/scram.py: a credential": forgiven(lambda text: parse_scram(f"SCRAM-SHA-256=[name={text}x]"), Misused),
    "cli/as_of.py: a time": forgiven(read_as_of, Misused),
}


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.usefixtures("restored_logs")
@pytest.mark.parametrize("name", WORK)
def test_text_of_a_caller_costs_no_more_than_its_length(name: str) -> None:
    start_logs({}, io.StringIO())
    work = WORK[name]
    for repeated in REPEATED:

        def of(size: int, repeated: str = repeated) -> Callable[[], object]:
            text = (repeated * size)[:size]
            return lambda: work(text)

        assert None is grows_faster_than_its_input(of, SIZES), (name, repeated)
