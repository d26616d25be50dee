"""`quorate call`: any API by its name, and what is wrong in the JSON by its path."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.directories import Ran, run

AT = ("--controller", "h:1")


def test_its_help_lists_the_apis_of_each_service() -> None:
    ran = run("call", "--help")
    words = set(ran.out.replace(",", " ").split())

    assert 0 == ran.code
    assert {"--controller:", "CreateTopics", "AdminStream", "--quorum:", "FindQuorum", "--observer:", "Query"} <= words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["CreateTopics"], "give --controller HOST:PORT,…: CreateTopics is there"),
        (["CreateTopics", *AT, "--quorum", "h:2"], "give one of --controller, --quorum, --observer"),
        (["CreateTopic"], "no service has an API 'CreateTopic'"),
        (["CreateTopic", *AT], "--controller has no API 'CreateTopic'"),
        (["FindQuorum", *AT], "--controller has no API 'FindQuorum': it is at --quorum"),
        (["CreateTopics", '{"topics": [}', *AT], "the request is no JSON at line 1, column 13"),
        (["CreateTopics", "[]", *AT], "CreateTopicsRequest: CreateTopicsRequest is an object; this is []"),
        (["CreateTopics", '{"topics": [[]]}', *AT], "CreateTopicsRequest.topics[0]: CreatableTopic is an object"),
        (["CreateTopics", '{"topics": {}}', *AT], "CreateTopicsRequest.topics: it is a list; this is {}"),
        (["CreateTopics", '{"topics": [{}, 5]}', *AT], "CreateTopicsRequest.topics[1]: CreatableTopic is an object"),
        (["CreateTopics", '{"topics": [{"nam": 5}]}', *AT], "CreateTopicsRequest.topics[0].nam: CreatableTopic has no"),
        (["CreateTopics", '{"topics": [{"name": 5}]}', *AT], "CreateTopicsRequest.topics[0].name: expected string"),
        (["CreateTopics", '{"timeoutMs": 4294967296}', *AT], "CreateTopicsRequest.timeoutMs: Value out of range"),
        (["AlterPartition", '{"topics": [{"partitions": [{"new_isr": [1, "x"]}]}]}', *AT], "partitions[0].new_isr: "),
        (["AdminStream", "{}", *AT], "AdminStream is asked by a stream of AdminRequests: give a list of them"),
        (["AdminStream", '[{}, {"requests": [{"x": 1}]}]', *AT], "[1].requests[0].x: AdminRequest has no such field"),
        (["CreateTopics", "[" * 100_000, *AT], "the request has more than 100 lists or objects in each other"),
        (["CreateTopics", "[" * 101 + "]" * 101, *AT], "the request has more than 100 lists or objects in each other"),
        (["CreateTopics", f'{{"timeout_ms": {"1" * 5_000}}}', *AT], "the request is no JSON that can be read: Exceeds"),
        (["CreateTopics", '{"timeout_ms": NaN}', *AT], "the request is no JSON that can be read: NaN is none of its"),
    ],
    ids=lambda given: given[1][:30] if len(given) > 1 and isinstance(given, list) else None,
)
def test_what_cannot_be_meant_ends_with_2_and_names_the_place(given: list[str], words: str) -> None:
    ran = run("call", *given)

    assert (2, "") == (ran.code, ran.out)
    assert words in ran.err


def test_a_request_of_a_file_is_that_of_the_line(tmp_path: Path) -> None:
    """The line of grpcurl has it; with TLS it names the files."""
    asked, config = tmp_path / "asked.json", tmp_path / "client.properties"
    asked.write_text('{"topics": [{"name": "it\'s"}]}')
    config.write_text("security.protocol=SSL\nssl.keystore.location=/k.pem\nssl.truststore.location=/t.pem\n")
    ran = run("call", "DeleteTopics", f"@{asked}", *AT, "--command-config", config, "--print-grpcurl")

    words = shlex.split(ran.out)
    assert ["grpcurl", "-cacert", "/t.pem", "-cert", "/k.pem", "-key", "/k.pem", "-d"] == words[:8]
    assert {"topics": [{"name": "it's"}]} == json.loads(words[8])
    assert ["h:1", "kraft.service.Controller/DeleteTopics"] == words[9:]


def test_a_file_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    asked = tmp_path / "asked.json"
    asked.write_bytes(b'{"topics": [{"name": "\xff"}]}')
    ran = run("call", "DeleteTopics", f"@{asked}", *AT, "--print-grpcurl")

    assert Ran(2, "", f"quorate: {asked} is no UTF-8 text: byte 22\n") == ran


def test_nobody_who_listens_is_exit_code_3() -> None:
    ran = run("call", "FindQuorum", "--quorum", "127.0.0.1:1,localhost:1", "--seconds-max", 5)

    assert (3, "") == (ran.code, ran.out)
    assert "127.0.0.1:1: UNAVAILABLE" in ran.err
    assert "localhost:1: UNAVAILABLE" in ran.err
