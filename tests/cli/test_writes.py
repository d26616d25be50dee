"""`quorate NOUN VERB` for each write: the request that it makes of its arguments, and what it tells of the answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from kraft.api import delete_acls_pb2, elect_leaders_pb2, update_features_pb2
from kraft.service.admin_pb2 import AdminRequest, AdminResponse
from kraft.service.controller_pb2_grpc import ControllerServicer, add_ControllerServicer_to_server
from quorate.cli.messages import parsed
from quorate.cli.write_cluster import TYPES
from quorate.cli.write_users import ITERATIONS, ITERATIONS_MAX, NUMBERS
from quorate.cli.writes import WRITES
from quorate.controller.access import scram_keys
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import RESOURCE_TYPES
from quorate.metadata.scram import MECHANISMS
from quorate.runtime.requests.statuses import UNTOUCHED, status_code, trailing_metadata
from tests.cli.directories import Ran, run

AT: Final = ("--controller", "h:1")
DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
PLAN: Final = {"version": 1, "partitions": [{"topic": "a", "partition": 2, "replicas": [1, 2]}]}
SECRET: Final = "canary"

ACL: Final = {"resource_type": 2, "resource_name": "a", "resource_pattern_type": 3, "host": "*", "permission_type": 3}
ASKED: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    (
        "topics create a --partitions 3 --config x=1=2",
        {
            "topics": [
                {
                    "name": "a",
                    "num_partitions": 3,
                    "replication_factor": -1,
                    "configs": [{"name": "x", "value": "1=2"}],
                }
            ]
        },
    ),
    ("topics delete a b", {"topics": [{"name": "a"}, {"name": "b"}]}),
    ("topics add-partitions a --partitions 4", {"topics": [{"name": "a", "count": 4}]}),
    (
        "leaders elect a-b-0 a-b-1 --type unclean",
        {"election_type": 1, "topic_partitions": {"items": [{"topic": "a-b", "partitions": [0, 1]}]}},
    ),
    ("leaders elect --all", {"election_type": 0}),
    (
        "reassign apply PLAN",
        {"topics": [{"name": "a", "partitions": [{"partition_index": 2, "replicas": {"items": [1, 2]}}]}]},
    ),
    ("reassign cancel PLAN", {"topics": [{"name": "a", "partitions": [{"partition_index": 2}]}]}),
    *(
        (
            f"configs {verb} broker/ x=1",
            {
                "resources": [
                    {
                        "resource_type": 4,
                        "resource_name": "",
                        "configs": [{"name": "x", "config_operation": number, "value": "1"}],
                    }
                ]
            },
        )
        for verb, number in (("set", 0), ("append", 2), ("subtract", 3))
    ),
    (
        "configs delete topic/a/b x",
        {
            "resources": [
                {"resource_type": 2, "resource_name": "a/b", "configs": [{"name": "x", "config_operation": 1}]}
            ]
        },
    ),
    (
        "features upgrade metadata.version=4.0 group.version=1",
        {
            "feature_updates": [
                {"feature": "metadata.version", "max_version_level": 25, "upgrade_type": 1},
                {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1},
            ]
        },
    ),
    (
        "features downgrade group.version=0 --unsafe",
        {"feature_updates": [{"feature": "group.version", "max_version_level": 0, "upgrade_type": 3}]},
    ),
    ("brokers unregister 7", {"broker_id": 7}),
    ("controllers unregister 7", {"controller_id": 7}),
    (
        f"quorum add-voter 4 --directory-id {DIRECTORY} --listener CONTROLLER://[::1]:9093",
        {
            "voter_id": 4,
            "voter_directory_id": DIRECTORY,
            "listeners": [{"name": "CONTROLLER", "host": "::1", "port": 9093}],
        },
    ),
    (f"quorum remove-voter 4 --directory-id {DIRECTORY}", {"voter_id": 4, "voter_directory_id": DIRECTORY}),
    (
        "acls add --principal User:a --operation read --operation describe-configs --topic a",
        {"creations": [{**ACL, "principal": "User:a", "operation": each} for each in (3, 10)]},
    ),
    (
        "acls remove --principal User:a",
        {
            "filters": [
                {
                    "resource_type_filter": 1,
                    "pattern_type_filter": 3,
                    "principal_filter": "User:a",
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
    ),
    (
        "quotas set --entity user/a --entity client-id/ producer_byte_rate=1.5E+6",
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "a"}, {"entity_type": "client-id"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.5e6}],
                }
            ]
        },
    ),
    (
        "quotas delete --entity ip/10.0.0.1 connection_creation_rate",
        {
            "entries": [
                {
                    "entity": [{"entity_type": "ip", "entity_name": "10.0.0.1"}],
                    "ops": [{"key": "connection_creation_rate", "remove": True}],
                }
            ]
        },
    ),
    ("users delete a --mechanism SCRAM-SHA-512", {"deletions": [{"name": "a", "mechanism": 2}]}),
    (
        "tokens create --owner User:a --renewer User:b",
        {
            "owner_principal_type": "User",
            "owner_principal_name": "a",
            "renewers": [{"principal_type": "User", "principal_name": "b"}],
            "max_lifetime_ms": -1,
        },
    ),
)
SECRETS: Final = {("users", "set"), ("tokens", "renew"), ("tokens", "expire")}
"""Rows whose request is not printed."""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


@pytest.mark.parametrize(("line", "asked"), ASKED, ids=[line for line, _ in ASKED])
def test_a_write_is_the_request_that_its_arguments_say(line: str, asked: dict[str, Any], plan: Path) -> None:
    """In the line of grpcurl, and it fits the API's proto."""
    words = [str(plan) if word == "PLAN" else word for word in line.split()]
    write = WRITES[words[0], words[1]]
    ran = run(*words, *AT, "--print-grpcurl")
    assert (0, "") == (ran.code, ran.err)
    program, _, _, data, address, method = shlex.split(ran.out)
    printed = json.loads(data)

    assert ("grpcurl", "h:1") == (program, address)
    assert f"kraft.service.Controller/{'Submit' if write.is_enveloped else write.api}" == method
    if write.is_enveloped:
        ((field, request),) = printed.items()
        message = parsed(AdminRequest.DESCRIPTOR, printed)
        assert (field, f"{write.api}Request") == (
            message.WhichOneof("request"),
            getattr(message, field).DESCRIPTOR.name,
        )
    else:
        request = printed
    request.pop("timeout_ms", None)
    assert asked == request


def test_each_row_is_in_this_table() -> None:
    assert WRITES.keys() - SECRETS == {tuple(line.split()[:2]) for line, _ in ASKED}


def test_what_is_written_down_for_a_fast_help_is_what_the_cores_have() -> None:
    assert {kind.upper().replace("-", "_"): number for kind, number in TYPES.items()} == {
        name: number for number, name in RESOURCE_TYPES.items()
    }
    assert MECHANISMS == {number: str(each) for each, number in NUMBERS.items()}
    assert (scram_keys.ITERATIONS_MIN, scram_keys.ITERATIONS_MAX) == (ITERATIONS, ITERATIONS_MAX)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics create a", "give --controller HOST:PORT"),
        ("topics create a --controller h", "--controller: 'h' is not HOST:PORT"),
        ("topics create a --config x --controller h:1", "--config 'x': it is NAME=VALUE"),
        ("topics create a --config x=1 --config x=2 --controller h:1", "--config: x is given twice"),
        ("leaders elect --controller h:1", "give partitions, or --all"),
        ("leaders elect a-0 --all --controller h:1", "give partitions, or --all"),
        ("leaders elect orders --controller h:1", "partition 'orders': it is TOPIC-PARTITION"),
        ("configs set orders x=1 --controller h:1", "resource 'orders': it is TYPE/NAME"),
        ("configs set topics/orders x=1 --controller h:1", "type 'topics' is none of topic, broker,"),
        ("features upgrade metadata.version=3.9000 --controller h:1", "'3.9000' is no metadata.version"),
        ("features upgrade group.version=new --controller h:1", "feature group.version: 'new': it is a level"),
        ("acls add --principal User:a --topic x --controller h:1", "give --principal, --operation and a resource"),
        ("acls remove --controller h:1", "else all would be removed"),
        (
            "acls add --principal User:a --operation reed --topic x --controller h:1",
            "--operation 'reed': it is one of ANY, ALL, READ",
        ),
        ("quotas set --entity alice x=1 --controller h:1", "--entity 'alice': it is TYPE/NAME"),
        ("quotas set --entity user/alice x=much --controller h:1", "quota x=much: a quota is a number"),
        *(
            (f"quotas set --entity user/alice x={each} --print-grpcurl --controller h:1", f"quota x={each}: a quota is")
            for each in ("nan", "-inf", "1e999", "1_0", "\u0661")
        ),
        ("users set alice --controller h:1", "give --password-file: standard input is no terminal"),
        ("tokens renew --controller h:1", "give --hmac-file: standard input is no terminal"),
        ("tokens create --owner alice --controller h:1", "--owner 'alice': it is TYPE:NAME"),
        (f"quorum add-voter 4 --directory-id {DIRECTORY} --listener x:1 --controller h:1", "it is NAME://HOST:PORT"),
        (f"quorum remove-voter 4 --directory-id {DIRECTORY} --controller h:1 --dry-run", "RemoveRaftVoter cannot be"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_and_says_the_rule(
    line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    ran = run(*line.split())

    assert (2, "") == (ran.code, ran.out)
    assert words in ran.err


FITS: Final = {"topic": "a", "partition": 0, "replicas": [1]}
UNFIT: Final[Sequence[tuple[dict[str, Any], str]]] = (
    ({**FITS, "partition": True}, "a topic, a partition"),
    ({**FITS, "replicas": [True]}, "a topic, a partition"),
    ({**FITS, "replicas": []}, "replicas []"),
    ({**FITS, "replicas": [1, 2, 1]}, "replicas [1, 2, 1]"),
    *(({**FITS, "log_dirs": each}, "log_dirs") for each in (None, 5, [[]])),
)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is no JSON at line 1, column 2"),
        ("[]", 'a plan is {"version": 1'),
        ('{"version": 1, "partitions": []}', "it has no partitions"),
        (
            '{"version": 1, "partitions": [{"topic": "a", "partition": "0", "replicas": []}]}',
            "partitions[0] has a topic",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]}',
            "partitions[0] has log_dirs",
        ),
        *((json.dumps({**PLAN, "partitions": [each]}), f"partitions[0] has {why}") for each, why in UNFIT),
        ("[" * 200_000, "has more than 100 lists or objects in each other"),
        (f'{{"version": {"1" * 5_000}}}', "is no JSON that can be read: Exceeds the limit"),
        ('{"version": true, "partitions": []}', 'a plan is {"version": 1'),
        (
            json.dumps({**PLAN, "partitions": [*PLAN["partitions"], PLAN["partitions"][0]]}),
            "as partitions[0]",
        ),
    ],
)
def test_what_is_no_plan_is_named_with_its_place(document: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(document)
    ran = run("reassign", "apply", path, *AT)

    assert (2, True, True) == (ran.code, words in ran.err, str(path) in ran.err)


class StandIn(ControllerServicer):
    """A controller that answers each call by the next of these, the last one again and again."""

    def __init__(self, answers: Sequence[AdminResponse | ApiError]) -> None:
        self._answers = list(answers)
        self.asked: list[AdminRequest] = []

    def Submit(self, request: AdminRequest, context: Any) -> AdminResponse:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, AdminResponse):
            return answer
        context.set_trailing_metadata(trailing_metadata(answer))
        context.abort(status_code(answer.code), answer.message)
        raise AssertionError


Asking = Callable[..., Ran]


@contextmanager
def standing_in(*answers: AdminResponse | ApiError) -> Iterator[tuple[StandIn, str]]:
    stand_in, server = StandIn(answers), grpc.server(ThreadPoolExecutor(1))
    add_ControllerServicer_to_server(stand_in, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield stand_in, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


NOT_YET: Final = ApiError(ErrorCode.NOT_CONTROLLER, "no controller is active")


def test_a_write_is_asked_again_until_there_is_a_leader_as_the_same_request() -> None:
    """So the second is answered as the first, if that one was executed after all."""
    with standing_in(NOT_YET, NOT_YET, AdminResponse(update_features=DONE)) as (stand_in, at):
        ran = run("features", "upgrade", "group.version=1", "--controller", at)

    assert (0, "") == (ran.code, ran.err)
    assert 3 == len(stand_in.asked)
    assert {16} == {len(each.request_id) for each in stand_in.asked}
    assert 1 == len({each.request_id for each in stand_in.asked})


def test_what_may_be_done_already_is_asked_again_if_it_is_known_by_its_id_and_else_not() -> None:
    """A write has a request id. What `quorate call` sends has none: that it is not known is said."""
    late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "not committed in time")
    with standing_in(late, AdminResponse(update_features=DONE)) as (stand_in, at):
        written = run("features", "upgrade", "group.version=1", "--controller", at)
    with standing_in(late, AdminResponse(update_features=DONE)) as (called, at):
        once = run("call", "Submit", '{"update_features": {}}', "--controller", at)

    assert (0, 2) == (written.code, len(stand_in.asked))
    assert (3, 1, True) == (once.code, len(called.asked), "whether it was done is not known" in once.err)


def test_after_a_leader_is_lost_only_what_nobody_has_begun_is_called_again() -> None:
    """The next leader may commit what the last one had appended."""
    lost = ApiError(ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the write was committed")
    standby = ApiError(ErrorCode.NOT_CONTROLLER, "no controller is active", {UNTOUCHED: "true"})
    with standing_in(lost, AdminResponse(update_features=DONE)) as (stand_in, at):
        once = run("call", "Submit", '{"update_features": {}}', "--controller", at)
    with standing_in(standby, AdminResponse(update_features=DONE)) as (waiting, at):
        again = run("call", "Submit", '{"update_features": {}}', "--controller", f"no-such-host.invalid:1,{at}")

    assert (3, 1, True) == (once.code, len(stand_in.asked), "whether it was done is not known" in once.err)
    assert (0, 2) == (again.code, len(waiting.asked))


DONE: Final = update_features_pb2.UpdateFeaturesResponse()


def test_without_a_leader_in_time_it_ends_with_3_and_so_if_nobody_listens() -> None:
    with standing_in(NOT_YET) as (_, at):
        led = run("brokers", "unregister", 7, "--controller", at, "--seconds-max", 0.3, "--json")
    nobody = run("brokers", "unregister", 7, "--controller", at)

    assert (3, True) == (led.code, "NOT_CONTROLLER: no controller is active" in led.err)
    assert 3 == led.document["error"]["exitCode"]
    assert (3, True) == (nobody.code, nobody.err.startswith(f"quorate: {at}: UNAVAILABLE"))


def test_one_that_does_not_listen_is_passed_over() -> None:
    with standing_in(NOT_YET) as (_, nobody):
        pass
    with standing_in(AdminResponse(update_features=DONE)) as (_, at):
        ran = run("features", "upgrade", "group.version=1", "--controller", f"{nobody},{at}")

    assert Ran(0, "  group.version  raised\n", "") == ran


def test_what_a_trial_says_is_asked_as_one_and_told_as_one() -> None:
    with standing_in(AdminResponse(update_features=DONE)) as (stand_in, at):
        ran = run("features", "upgrade", "group.version=1", "--controller", at, "--dry-run")

    assert [(True, b"")] == [(each.validate_only, each.request_id) for each in stand_in.asked]
    assert Ran(0, "  group.version  would be raised\nwould write nothing\n", "") == ran


def test_each_entry_that_a_filter_has_removed_is_told_and_a_filter_that_fits_nothing() -> None:
    removed = delete_acls_pb2.DeleteAclsResponse.DeleteAclsFilterResult
    entry = removed.DeleteAclsMatchingAcl(
        resource_type=2, resource_name="a", principal="User:b", host="*", operation=3, permission_type=2
    )
    results = [removed(matching_acls=[entry, entry]), removed(), removed(error_code=ErrorCode.INVALID_REQUEST)]
    answer = AdminResponse(delete_acls=delete_acls_pb2.DeleteAclsResponse(filter_results=results))
    topics = [word for name in "abc" for word in ("--topic", name)]
    with standing_in(answer) as (_, at):
        ran = run("acls", "remove", *topics, "--controller", at)

    assert 1 == ran.code
    assert [
        ["User:b is denied READ TOPIC a from *", "removed"],
        ["User:b is denied READ TOPIC a from *", "removed"],
        ["anybody ANY TOPIC b from anywhere", "nothing fits"],
        ["anybody ANY TOPIC c from anywhere", "INVALID_REQUEST"],
    ] == [[each.strip() for each in line.split("  ") if each.strip()] for line in ran.out.splitlines()]


@pytest.mark.parametrize(
    ("codes", "code", "told"),
    [
        ([], 0, "all partitions  none needs an election"),
        ([ErrorCode.ELECTION_NOT_NEEDED], 0, "a-0  ELECTION_NOT_NEEDED"),
        ([ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], 1, "a-1  PREFERRED_LEADER_NOT"),
        ([ErrorCode.NONE], 0, "a-0  elected"),
    ],
)
def test_that_no_election_is_needed_is_no_error(codes: Sequence[ErrorCode], code: int, told: str) -> None:
    of_topic = elect_leaders_pb2.ElectLeadersResponse.ReplicaElectionResult
    partitions = [of_topic.PartitionResult(partition_id=number, error_code=each) for number, each in enumerate(codes)]
    results = [of_topic(topic="a", partition_result=partitions)] if codes else []
    answer = AdminResponse(elect_leaders=elect_leaders_pb2.ElectLeadersResponse(replica_election_results=results))
    with standing_in(answer) as (_, at):
        ran = run("leaders", "elect", "--all", "--controller", at)

    assert (code, True) == (ran.code, told in ran.out), ran


@pytest.mark.parametrize("noun_and_verb", sorted(SECRETS))
def test_a_secret_comes_from_a_file_and_is_shown_nowhere(noun_and_verb: tuple[str, str], tmp_path: Path) -> None:
    """It is salted here, and the line of grpcurl is refused, as the salted password is as good as the password."""
    file = tmp_path / "secret"
    is_user = noun_and_verb == ("users", "set")
    file.write_text(f"{SECRET}\n" if is_user else "Y2FuYXJ5\n")
    words = [*noun_and_verb, *(("alice", "--password-file") if is_user else ("--hmac-file",)), file]
    refusal = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    with standing_in(refusal) as (stand_in, at):
        ran = run(*words, "--controller", at)
    line = run(*words, *AT, "--print-grpcurl")

    (asked,) = stand_in.asked
    if is_user:
        (credential,) = asked.alter_user_scram_credentials.upsertions
        salted = scram_keys.salted_password(1, SECRET.encode(), credential.salt, credential.iterations)
        assert (salted, 24) == (credential.salted_password, len(credential.salt))
        assert SECRET.encode() not in asked.SerializeToString()
    else:
        assert SECRET.encode() in asked.SerializeToString()
    assert (1, 2) == (ran.code, line.code)
    assert not any(each in text for each in (SECRET, "Y2FuYXJ5") for text in (*ran[1:], *line[1:]))
    assert "as good as a password" in line.err
