"""One event, one line, whatever it holds; and no secret in it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quorate.runtime.logging.logs import TEXT_MAX, logger, redact, start_logs
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.telemetry.tracing import Telemetry

pytestmark = pytest.mark.usefixtures("restored_logs")
log = logger("quorate.raft")


def written(act: Callable[[], None], form: str = "logfmt", level: str = "debug") -> list[str]:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": form, "QUORATE_LOG_LEVEL": level}, stream)
    act()
    return stream.getvalue().splitlines()


def test_an_event_is_words_and_fields() -> None:
    (line,) = written(lambda: log.info("became leader", epoch=7, leo=42, reason="3 of 5 votes"))

    time, rest = line.split(" ", 1)
    assert time.startswith("time=20")
    assert time.endswith("Z")
    assert 'level=info logger=quorate.raft event="became leader" epoch=7 leo=42 reason="3 of 5 votes"' == rest


def test_the_same_as_json_keeps_types() -> None:
    (line,) = written(lambda: log.warning("lagging", lag=7, caught_up=False, directory=None), "json")

    made = json.loads(line)
    assert ("warning", "lagging", 7, False, None) == tuple(
        made[key] for key in ("level", "event", "lag", "caught_up", "directory")
    )


def test_bound_fields_are_in_every_event_and_a_field_does_not_hide_the_lines_own() -> None:
    bound = log.bind(node_id=3)
    (line,) = written(lambda: bound.info("x", level="low"), "json")

    made = json.loads(line)
    assert (3, "info", "low") == (made["node_id"], made["level"], made["field_level"])


def test_below_the_level_nothing_is_written() -> None:
    def act() -> None:
        log.debug("a")
        log.info("b")
        log.warning("c")
        logging.getLogger("sqlalchemy").info("a library's chatter")

    assert 1 == len(written(act, level="warning"))


def test_an_exception_is_in_the_line_with_its_traceback() -> None:
    def act() -> None:
        try:
            raise ValueError("first\nsecond")
        except ValueError as error:
            log.error("failed", exception=error)

    (line,) = written(act, "json")
    assert "ValueError: first\nsecond" in json.loads(line)["exception"]
    assert "test_logs.py" in json.loads(line)["exception"]


@pytest.mark.parametrize(("error", "lines"), [(asyncio.CancelledError(), 0), (ValueError("a fault in a handler"), 1)])
def test_a_call_that_was_cancelled_in_grpc_is_no_error(error: BaseException, lines: int) -> None:
    of_grpc = logging.getLogger("grpc._cython.cygrpc")
    assert lines == len(written(lambda: of_grpc.error("Exception not handled in servicer method", exc_info=error)))


@given(st.text(), st.text())
@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_it_is_one_line_whatever_it_holds(form: str, event: str, value: str) -> None:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": form}, stream)
    log.info(event, value=value)

    text = stream.getvalue()
    assert text.endswith("\n")
    assert 1 == text.count("\n")
    assert "\r" not in text


def test_inside_a_span_a_line_names_it() -> None:
    telemetry = Telemetry.to(SimpleSpanProcessor(InMemorySpanExporter()), service="quorum", instance="1")

    def act() -> None:
        with telemetry.span("write") as span:
            log.info("inside", traceparent=(span.traceparent or b"").decode())
        log.info("outside")

    inside, outside = (json.loads(line) for line in written(act, "json"))
    assert f"00-{inside['trace_id']}-{inside['span_id']}-01" == inside["traceparent"]
    assert "trace_id" not in outside


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("epoch", 7, 7),
        ("ok", True, True),
        ("password", "hunter2", "***"),
        ("sasl.jaas.config", "hunter2", "***"),
        ("delegation_token_hmac", b"hunter2", "***"),
        ("client-secret", "hunter2", "***"),
        ("line", "user=a password=hunter2, next", "user=a password=***, next"),
        ("line", "ssl.key.password: 'hunter2 hunter2' x", "ssl.key.password: *** x"),
        ("header", "Authorization Bearer hunter2.abc-1", "Authorization Bearer ***"),
        ("reason", "the passwords differ", "the passwords differ"),
        ("at", "postgresql+psycopg://me:hunter2@host:5432/spans", "postgresql+psycopg://me:***@host:5432/spans"),
        ("at", "from redis://:hunter2@host, then a://u:h/u?n#ter2@h", "from redis://:***@host, then a://u:***@h"),
        ("at", "a://u:hunter@2@h/x?user=me@home", "a://u:***@h/x?user=me@home"),
        ("at", "https://me@host:443/a:b, 1@host:9093", "https://me@host:443/a:b, 1@host:9093"),
        ("listeners", "CONTROLLER://127.0.0.1:9093", "CONTROLLER://127.0.0.1:9093"),
        ("listeners", "A://[::1]:9093", "A://[::1]:9093"),
        ("line", "{'password': 'hunter2', 'epoch': 7}", "{'password': ***, 'epoch': 7}"),
        ("line", "topic 'token-events': its name is taken", "topic 'token-events': its name is taken"),
        ("line", 'password="hunter2 and more', "password=***"),
        ("line", "note=token=hunter2, at: x", "note=token=***, at: x"),
        ("header", "authorization=DelegationToken t1:hunter2==", "authorization=DelegationToken ***"),
    ],
)
def test_secrets_are_hidden_by_key_and_in_text(key: str, value: object, expected: object) -> None:
    assert expected == redact(key, value)


@pytest.mark.parametrize("secret", ["a://u:", "password=", "password='", "Basic "])
@pytest.mark.parametrize("at", [0, TEXT_MAX - 5, 4 * TEXT_MAX - 12, 4 * TEXT_MAX - 1])
def test_a_long_value_is_cut_and_no_part_of_a_secret_is_left(secret: str, at: int) -> None:
    """Wherever the end of what is looked through falls, also after secrets that made room by being hidden."""
    for before in ("x" * at, ("password=" + "y" * at)[:at]):
        shown = str(redact("reason", f"{before} {secret}{'hunter2' * 2_000}@h"))

        assert "hunter" not in shown
        assert len(shown) < TEXT_MAX + 30


def test_a_long_list_is_cut_and_says_how_long_it_was() -> None:
    (line,) = written(lambda: log.info("asked", topics=["t"] * 1_000_000, voters=[1, 2, 3]), "json")

    made = json.loads(line)
    assert made["topics"].endswith("… 1000000 items")
    assert (True, "[1, 2, 3]") == (len(made["topics"]) < 300, made["voters"])


def test_a_secret_in_event_or_traceback_is_hidden_too() -> None:
    lines = written(lambda: log.error("bad password=hunter2", exception=ValueError("token=hunter2")))

    assert 1 == len(lines)
    assert "hunter2" not in lines[0]


def test_a_form_or_level_that_is_unknown_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as caught:
        start_logs({"QUORATE_LOG_FORMAT": "xml", "QUORATE_LOG_LEVEL": "loud"})

    assert (
        "QUORATE_LOG_FORMAT = 'xml': must be one of logfmt, json",
        "QUORATE_LOG_LEVEL = 'loud': must be one of debug, info, warning, error",
    ) == caught.value.problems
