"""`quorate storage format`: the same files as Kafka's tool, refusals that change nothing, and a format cut short."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.controller.access.scram_keys import salted_password, verifier_keys
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import reserved_uuid, uuid_text
from quorate.random_uuid import random_uuid
from quorate.records import FeatureLevelRecord, UserScramCredentialRecord, VotersRecord
from quorate.storage.bootstrap import read_bootstrap
from quorate.storage.failpoints import set_failpoint
from quorate.storage.lock import DirectoryLock
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import ControlType, batches
from quorate.wire.codec import decode
from tests.cli.directories import CLUSTER_ID, FIXTURES, contents, files_of, run, run_apart

FIRST = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
VOTER = "1@127.0.0.1:19193:o6B3fqWpTcGGtv9rO14jCQ"
OTHER_VOTER = "2@other:9093:o6B3fqWpTcGGtv9rO14jCA"
STATIC = {"controller.quorum.voters": "1@127.0.0.1:19193"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:19193"}


def config(tmp_path: Path, **changes: str | None) -> Path:
    """A controller's properties; `_` stands for `.`, None takes a key away."""
    values: dict[str, str | None] = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:19193",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "data"),
    }
    values |= {key.replace("_", "."): value for key, value in changes.items()}
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items() if value is not None))
    return path


def static(tmp_path: Path, **changes: str | None) -> Path:
    return config(tmp_path, controller_quorum_voters="1@127.0.0.1:19193", **changes)


def timeless(path: Path) -> bytes:
    """A checkpoint without the times of its batches and of its header, and without the checksums over them."""
    data = bytearray(path.read_bytes())
    for position, header in list(batches(bytes(data))):
        data[position + 17 : position + 21] = bytes(4)
        data[position + 27 : position + 43] = bytes(16)
        if header.is_control and position == 0:
            data[74:82] = bytes(8)  # lastContainedLogTimestamp, the first record's value after its version
    return bytes(data)


@pytest.mark.parametrize(
    ("release", "level", "others"),
    [
        ("3.3", 7, {}),
        ("3.9", 21, {}),
        ("4.0", 25, {"group.version": 1, "transaction.version": 2}),
        ("4.1", 27, {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}),
        (
            "4.3",
            30,
            {
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "share.version": 1,
                "streams.version": 1,
                "transaction.version": 2,
            },
        ),
    ],
)
def test_a_release_begins_with_the_features_that_kafka_gives_it(
    tmp_path: Path, release: str, level: int, others: dict[str, int]
) -> None:
    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-r", release)

    assert (0, "") == (ran.code, ran.err)
    expected = [("metadata.version", level), *sorted(others.items())]
    assert [FeatureLevelRecord(*each) for each in expected] == list(read_bootstrap(tmp_path / "data", METADATA_VERSION))


def test_static_voters_leave_the_bytes_that_kafka_leaves(tmp_path: Path) -> None:
    """The fixture was formatted by a Kafka release: its 411 bytes, the times aside."""
    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID)

    assert f"Formatting metadata directory {tmp_path}/data with metadata.version 4.3-IV0." == ran.out.splitlines()[-1]
    of_kafka = FIXTURES / "three-dynamic" / "controller-1" / "bootstrap.checkpoint"
    assert timeless(of_kafka) == timeless(tmp_path / "data" / "bootstrap.checkpoint")
    assert ["bootstrap.checkpoint", "meta.properties"] == sorted(
        path.name for path in (tmp_path / "data").iterdir() if path.name != ".lock"
    )


def test_the_first_voters_leave_the_bytes_that_kafka_leaves(tmp_path: Path) -> None:
    of_kafka = FIXTURES / "three-dynamic" / "controller-1" / FIRST
    reader = SnapshotReader(of_kafka)
    (voters,) = [
        decode(VotersRecord, value, 0) for kind, value in reader.control_records() if kind == ControlType.KRAFT_VOTERS
    ]
    wanted = ",".join(
        f"{each.voter_id}@{each.endpoints[0].host}:{each.endpoints[0].port}:{uuid_text(each.voter_directory_id)}"
        for each in voters.voters
    )

    ran = run("storage", "format", "-c", config(tmp_path), "-t", CLUSTER_ID, "-I", wanted)

    assert (0, "") == (ran.code, ran.err)
    assert timeless(of_kafka) == timeless(tmp_path / "data" / FIRST)


def test_a_voter_gets_the_directory_id_that_the_voters_know(tmp_path: Path) -> None:
    ran = run("storage", "format", "-c", config(tmp_path), "-t", CLUSTER_ID, "-I", f"{OTHER_VOTER},{VOTER}")

    assert "Formatting dynamic metadata voter directory" in ran.out
    meta = read_meta_properties(tmp_path / "data")
    assert meta is not None
    assert meta.directory_id is not None
    assert ("o6B3fqWpTcGGtv9rO14jCQ", 1, CLUSTER_ID) == (uuid_text(meta.directory_id), meta.node_id, meta.cluster_id)


def test_a_voter_may_have_the_highest_id_of_a_node(tmp_path: Path) -> None:
    voter = "2147483647@127.0.0.1:19193:o6B3fqWpTcGGtv9rO14jCQ"

    ran = run("storage", "format", "-c", config(tmp_path, node_id="2147483647"), "-t", CLUSTER_ID, "-I", voter)

    assert (0, "") == (ran.code, ran.err)
    (found,) = run("image", "show", "--offline", tmp_path / "data", "--json").document["voters"]
    assert 2147483647 == found["id"]


def test_standalone_is_a_quorum_of_one_at_its_own_endpoint(tmp_path: Path) -> None:
    ran = run("storage", "format", "-c", config(tmp_path), "-t", CLUSTER_ID, "--standalone", "--json")

    (voter,) = ran.document["voters"]
    (directory,) = ran.document["directories"]
    assert ("CONTROLLER", "127.0.0.1", 19193) == (voter["listener"], voter["host"], voter["port"])
    assert directory["directoryId"] == voter["directoryId"]
    assert (tmp_path / "data" / FIRST).exists()


@pytest.mark.parametrize("how", ["--standalone", f"--initial-controllers={VOTER}"])
def test_a_quorum_nodes_endpoint_has_the_name_of_its_first_listener(tmp_path: Path, how: str) -> None:
    """Kafka's controllers have `controller.listener.names`, without which they do not start."""
    own = {"process_roles": None, "controller_listener_names": None, "metadata_log_dir": str(tmp_path / "data")}
    path = config(tmp_path, listeners="QUORUM://127.0.0.1:19193,SECURE://127.0.0.1:19194", **own)

    (voter,) = run("storage", "format", "-c", path, "-t", CLUSTER_ID, how, "--json").document["voters"]

    assert ("QUORUM", "127.0.0.1", 19193) == (voter["listener"], voter["host"], voter["port"])


def test_an_advertised_listener_comes_before_the_one_that_is_bound(tmp_path: Path) -> None:
    path = config(tmp_path, listeners="CONTROLLER://:9093", advertised_listeners="CONTROLLER://ctl.example:29193")

    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-s", "--json")

    assert ("ctl.example", 29193) == (ran.document["voters"][0]["host"], ran.document["voters"][0]["port"])


@pytest.mark.parametrize("option", ["-N", None])
def test_a_node_that_joins_gets_no_voters(tmp_path: Path, option: str | None) -> None:
    """A broker needs no option for it, a controller does."""
    path = config(tmp_path, process_roles="controller" if option else "broker")

    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, *([option] if option else []))

    assert (0, "") == (ran.code, ran.err)
    assert not (tmp_path / "data" / FIRST).exists()


def test_every_directory_of_a_node_is_formatted_and_the_metadata_directory_first(tmp_path: Path) -> None:
    a, b, m = (tmp_path / name for name in "abm")
    path = static(tmp_path, log_dirs=f"{b},{a}", metadata_log_dir=str(m))

    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-r", "4.0")

    release = "with metadata.version 4.0-IV3."
    expected = [f"Formatting metadata directory {m} {release}"]
    expected += [f"Formatting data directory {each} {release}" for each in (a, b)]
    assert expected == ran.out.splitlines()[1:]
    metas = [read_meta_properties(each) for each in (a, b, m)]
    assert 3 == len({meta.directory_id for meta in metas if meta})


def test_ignore_formatted_formats_what_is_left(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    path = static(tmp_path, log_dirs=str(a))
    run("storage", "format", "-c", path, "-t", CLUSTER_ID)
    before = contents(a)
    path = static(tmp_path, log_dirs=f"{a},{b}")

    assert f"quorate: {a} is already formatted" in run("storage", "format", "-c", path, "-t", CLUSTER_ID).err
    assert not b.exists()
    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-g")

    assert (0, f"Formatting data directory {b} with metadata.version 4.3-IV0.") == (ran.code, ran.out.splitlines()[-1])
    assert before == contents(a)
    again = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-g")
    assert "All of the log directories are already formatted.\n" == again.out


REFUSED = [
    # configuration, options, exit code, what the line on stderr has to name
    (STATIC, ["-t", ""], 2, "--cluster-id is ''"),
    (STATIC, ["-t", "two words"], 2, "--cluster-id is 'two words'"),
    (STATIC, ["-r", "9.9"], 2, "'9.9' is no metadata.version: known are 3.3-IV3 to 4.4-IV2"),
    (STATIC, ["-r", "3.2"], 2, "'3.2' is no metadata.version"),
    (STATIC, ["-f", "nosuch=1"], 2, "'nosuch' is not known; known are eligible.leader.replicas.version"),
    (STATIC, ["-f", "group.version=9"], 2, "group.version=9: its levels are 0 to 1"),
    (STATIC, ["-f", "metadata.version=6"], 2, "metadata.version=6: its levels are 7 to 33"),
    (STATIC, ["-f", "group.version"], 2, "'group.version': it is NAME=LEVEL"),
    (STATIC, ["-f", "group.version=-1"], 2, "it is NAME=LEVEL"),
    (
        STATIC,
        ["-r", "3.9", "-f", "eligible.leader.replicas.version=1"],
        2,
        "needs metadata.version at 23 or above; it is 21",
    ),
    (STATIC, ["-r", "4.0", "-f", "metadata.version=21"], 2, "one of them is enough"),
    (STATIC, ["-f", "kraft.version=1"], 1, "kraft.version=1: the voters here are static"),
    (DYNAMIC, ["-s", "-f", "kraft.version=0"], 1, "kraft.version=0: the voters here are in the log"),
    (STATIC, ["--standalone"], 1, "controller.quorum.voters is set"),
    (STATIC, ["-I", VOTER], 1, "controller.quorum.voters is set"),
    (DYNAMIC, [], 1, "controller.quorum.voters is not set on this controller"),
    (DYNAMIC, ["-s", "-N"], 2, "one of --standalone, --initial-controllers and --no-initial-controllers"),
    ({**DYNAMIC, "process.roles": "broker"}, ["-s"], 1, "process.roles has no controller"),
    ({**STATIC, "process.roles": "queen"}, [], 1, "process.roles has 'queen'"),
    ({**DYNAMIC, "listeners": "CONTROLLER://0.0.0.0:9093"}, ["-s"], 1, "cannot connect to 0.0.0.0"),
    ({**DYNAMIC, "listeners": "CONTROLLER://host:0"}, ["-s"], 1, "port 1 to 65535"),
    ({**DYNAMIC, "listeners": "OTHER://host:9093"}, ["-s"], 1, "no CONTROLLER listener"),
    (DYNAMIC, ["-I", ""], 2, "names nobody"),
    (DYNAMIC, ["-I", "1-host:9093"], 2, "'1-host:9093' is not id@host:port:directory-id"),
    (DYNAMIC, ["-I", "1@host:99999:o6B3fqWpTcGGtv9rO14jCQ"], 2, "port 1 to 65535"),
    (DYNAMIC, ["-I", "2147483648@host:9093:o6B3fqWpTcGGtv9rO14jCQ"], 2, "directory-id, id 0 to 2147483647"),
    (DYNAMIC, ["-I", "1@host:9093:nonsense"], 2, "'nonsense' is not an id"),
    (DYNAMIC, ["-I", "1@host:9093:AAAAAAAAAAAAAAAAAAAAAQ"], 2, "the first hundred directory ids are reserved"),
    (DYNAMIC, ["-I", f"{VOTER},{VOTER}"], 2, "id 1 is there more than once"),
    (
        DYNAMIC,
        ["-I", f"{VOTER},2@other:1:o6B3fqWpTcGGtv9rO14jCQ"],
        2,
        "directory id o6B3fqWpTcGGtv9rO14jCQ is there more",
    ),
    ({**STATIC, "node.id": "x"}, [], 1, "node.id is 'x'"),
    ({**STATIC, "log.dirs": ""}, [], 1, "neither metadata.log.dir nor log.dirs"),
    ({**STATIC, "process.roles": "", "zookeeper.connect": "zk:2181"}, [], 1, "zookeeper.connect is set, and process.r"),
    ({**STATIC, "process.roles": "", "metadata.log.dir": "/nowhere", "zookeeper.x": "1"}, [], 1, "zookeeper.x is set"),
    ({**STATIC, "process.roles": ""}, [], 1, "process.roles is not set; a Kafka node has it"),
]


@pytest.mark.parametrize(("changes", "options", "code", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_refuses_in_one_line_and_changes_nothing(
    tmp_path: Path, changes: dict[str, str], options: list[str], code: int, words: str
) -> None:
    path = config(tmp_path, **changes)
    cluster_id = [] if "-t" in options else ["-t", CLUSTER_ID]

    ran = run("storage", "format", "-c", path, *cluster_id, *options, "--json")

    assert (code, 1) == (ran.code, len(ran.err.splitlines()))
    assert words in ran.err
    assert {"error": {"message": ran.err.removeprefix("quorate: ").strip(), "exitCode": code}} == ran.document
    assert ["server.properties"] == [each.name for each in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "words"),
    [("another-cluster", "1", f"belongs to cluster {CLUSTER_ID}"), (CLUSTER_ID, "2", "belongs to node 1, and node 2")],
)
def test_refuses_a_directory_of_somebody_else(tmp_path: Path, cluster_id: str, node_id: str, words: str) -> None:
    run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID)
    before = contents(tmp_path / "data")

    ran = run("storage", "format", "-c", static(tmp_path, node_id=node_id), "-t", cluster_id, "-g")

    assert 1 == ran.code
    assert words in ran.err
    assert before == contents(tmp_path / "data")


def test_refuses_a_directory_that_another_process_has(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    with DirectoryLock(a):
        ran = run_apart("storage", "format", "-c", static(tmp_path, log_dirs=f"{a},{b}"), "-t", CLUSTER_ID)

    assert (1, f"quorate: {a} is locked by another process; a log directory is opened by one at a time\n") == (
        ran.code,
        ran.err,
    )
    assert ([".lock"], False) == ([path.name for path in a.iterdir()], b.exists())


def test_refuses_a_log_that_lost_its_meta_properties(tmp_path: Path) -> None:
    partition = tmp_path / "data" / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").write_bytes(b"something")

    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID)

    assert 1 == ran.code
    assert "holds a log" in ran.err
    assert not (tmp_path / "data" / "bootstrap.checkpoint").exists()


class PowerCut(Exception):
    """The world stops here."""


@pytest.mark.parametrize("failpoint", ["snapshot.before_rename", "snapshot.after_rename", "file.before_rename"])
def test_half_a_format_is_none(tmp_path: Path, failpoint: str) -> None:
    path = config(tmp_path)

    def stop() -> None:
        raise PowerCut

    set_failpoint(failpoint, stop)
    try:
        with pytest.raises(PowerCut):
            run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-I", VOTER)
    finally:
        set_failpoint(failpoint, None)

    assert read_meta_properties(tmp_path / "data") is None
    again = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-I", VOTER)
    assert (0, "") == (again.code, again.err)
    assert read_meta_properties(tmp_path / "data") is not None
    assert (0, "") == run("log", "verify", tmp_path / "data")[::2]


def test_a_password_becomes_the_credential_that_kafka_makes_of_it(tmp_path: Path) -> None:
    """The expected keys are what Kafka 4.3.1's StorageTool wrote for the same password and salt."""
    ran = run(
        *("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-r", "4.0", "-S"),
        "SCRAM-SHA-256=[name=alice,password=x,iterations=4096,salt=MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2E4Mg==]",
    )

    assert "User alice with SCRAM-SHA-256, 4096 iterations" in ran.out
    (user,) = [
        each
        for each in read_bootstrap(tmp_path / "data", METADATA_VERSION)
        if isinstance(each, UserScramCredentialRecord)
    ]
    stored = [90, -40, -110, -64, 57, -59, 25, -23, 90, 70, -37, 84, -76, -89, 83, -101]
    stored += [4, -61, 68, -121, 6, 96, 121, -128, 52, -49, 43, 109, 32, -15, 68, 74]
    assert struct.pack("32b", *stored) == user.stored_key
    assert ("alice", 1, b"1lv4pdnw4fwq7notcxm0yca82", 4096) == (user.name, user.mechanism, user.salt, user.iterations)


def test_a_salted_password_needs_no_password(tmp_path: Path) -> None:
    ran = run(
        *("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-S"),
        'SCRAM-SHA-512=[name=bob,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2E4Mg==",iterations=8192,'
        'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]',
    )

    assert (0, "") == (ran.code, ran.err)
    user = read_bootstrap(tmp_path / "data", METADATA_VERSION)[-1]
    assert isinstance(user, UserScramCredentialRecord)
    assert struct.pack("8b", 57, 50, 90, 35, 76, 107, 85, 80) == user.stored_key[:8]


@given(
    password=st.text(min_size=1),
    salt=st.binary(min_size=1),
    mechanism=st.sampled_from([1, 2]),
)
@settings(max_examples=10, deadline=None)
def test_a_credential_does_not_hold_the_password(password: str, salt: bytes, mechanism: int) -> None:
    salted = salted_password(mechanism, password.encode("utf-8", "surrogatepass"), salt, 4096)
    stored, server = verifier_keys(mechanism, salted)

    assert {32 * mechanism} == {len(stored), len(server), len(salted)}
    assert stored != server


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("hunter2", "no such form"),
        ("SCRAM-SHA-256=name=alice,password=hunter2", "no such form"),
        ("SCRAM-SHA-1=[name=alice,password=hunter2]", "mechanism 'SCRAM-SHA-1' is not known"),
        ("SCRAM-SHA-256=[password=hunter2]", "name is missing"),
        ("SCRAM-SHA-256=[name=alice]", "one of password and saltedpassword"),
        (
            "SCRAM-SHA-256=[name=alice,password=hunter2,saltedpassword=aHVudGVyMg==]",
            "one of password and saltedpassword",
        ),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=aHVudGVyMg==]", "both are needed"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,iterations=1000]", "they are from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,iterations=99999]", "they are from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,iterations=abc]", "iterations 'abc'"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,salt=!]", "is not base64"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,bogus=1]", "'bogus' is not known"),
        ("SCRAM-SHA-256=[name=alice,name=bob,password=hunter2]", "name is given twice"),
        ('SCRAM-SHA-256=[name=alice,password="hunter2]', "stands name="),
    ],
)
def test_a_refused_user_is_not_told_with_the_password(tmp_path: Path, argument: str, words: str) -> None:
    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-S", argument, "--json")

    assert 2 == ran.code
    assert words in ran.err
    assert "hunter2" not in ran.out + ran.err
    assert "aHVudGVyMg" not in ran.out + ran.err
    assert not (tmp_path / "data").exists()


def test_users_need_a_release_that_knows_them(tmp_path: Path) -> None:
    user = "SCRAM-SHA-256=[name=alice,password=hunter2]"

    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-r", "3.4", "-S", user)

    assert (2, True) == (ran.code, "--add-scram needs metadata.version 3.5-IV2, this is 3.4-IV0" in ran.err)


def test_the_password_is_nowhere(tmp_path: Path) -> None:
    user = 'SCRAM-SHA-512=[name=alice,password="a, long [secret]=1"]'

    ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, "-S", user)

    assert (0, "") == (ran.code, ran.err)
    everything = ran.out.encode() + b"".join(data for data, _ in contents(tmp_path / "data").values())
    assert b"secret" not in everything


@pytest.mark.parametrize("options", [[], ["-S", "SCRAM-SHA-256=[name=alice,password=x]"]])
def test_a_log_directory_is_for_its_owner_alone(tmp_path: Path, options: list[str]) -> None:
    """It gets keys and passwords of users later, too, in files of whatever mode."""
    before = os.umask(0o022)
    try:
        ran = run("storage", "format", "-c", static(tmp_path), "-t", CLUSTER_ID, *options)
    finally:
        os.umask(before)

    assert (0, "") == (ran.code, ran.err)
    assert 0o700 == (tmp_path / "data").stat().st_mode & 0o777
    assert 0o600 == (tmp_path / "data" / "bootstrap.checkpoint").stat().st_mode & 0o777


def test_info_says_what_kafka_says(tmp_path: Path) -> None:
    path = static(tmp_path)
    run("storage", "format", "-c", path, "-t", CLUSTER_ID)

    ran = run("storage", "info", "-c", path)

    data = tmp_path / "data"
    pattern = (
        rf"Found log directory:\n  {re.escape(str(data))}\n\n"
        rf"Found metadata: \{{cluster.id={CLUSTER_ID}, directory.id=[\w-]{{22}}, node.id=1, version=1\}}\n\n"
    )
    assert re.fullmatch(pattern, ran.out), ran.out
    (shown,) = run("storage", "info", "-c", path, "--json").document["directories"]
    assert (str(data), CLUSTER_ID, 1) == (shown["path"], shown["clusterId"], shown["nodeId"])


def test_info_names_every_problem(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    run("storage", "format", "-c", static(tmp_path, log_dirs=str(a)), "-t", CLUSTER_ID)
    b.mkdir()
    path = static(tmp_path, log_dirs=f"{a},{b},{c}", node_id="7")

    ran = run("storage", "info", "-c", path, "--json")

    assert 1 == ran.code
    expected = [
        f"{a / 'meta.properties'}: node.id is 1, the configuration says 7",
        f"{b} is not formatted.",
        f"{c} does not exist",
    ]
    assert expected == ran.document["problems"]


def test_a_missing_configuration_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.properties"

    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "--json")

    assert (1, f"quorate: {path}: No such file or directory\n") == (ran.code, ran.err)
    assert f"{path}: No such file or directory" == ran.document["error"]["message"]


def test_a_new_id_is_never_reserved_and_never_looks_like_an_option() -> None:
    uuids = [random_uuid() for _ in range(500)]

    assert 500 == len(set(uuids))
    assert [] == [uuid for uuid in uuids if reserved_uuid(uuid) or uuid_text(uuid).startswith("-")]
    assert re.fullmatch(r"[\w-]{22}\n", run("storage", "random-uuid").out)


@pytest.mark.parametrize("how", [["-s"], ["-N"], []], ids=["standalone", "joins", "static"])
def test_from_4_4_on_the_first_records_lie_beside_the_first_voters(tmp_path: Path, how: list[str]) -> None:
    """As Kafka 4.4 leaves them (`test_against_kafka` compares the bytes); they are no state before they are written."""
    path = config(tmp_path) if how else static(tmp_path)

    ran = run("storage", "format", "-c", path, "-t", CLUSTER_ID, "-r", "4.4", *how)

    assert (0, "") == (ran.code, ran.err)
    data = tmp_path / "data"
    assert [FIRST, "meta.properties"] == sorted(
        str(file.relative_to(data)) for file in files_of(data) if file.name != ".lock"
    )
    assert FeatureLevelRecord("metadata.version", 33) in read_bootstrap(data, METADATA_VERSION)
    shown = run("image", "show", "--offline", data, "--json").document
    assert {} == shown["features"]["finalizedVersions"]
    assert (1 if how else 0, 1 if "-s" in how else 0) == (shown["kraftVersion"], len(shown["voters"] or ()))
    assert 0 == run("log", "verify", data).code
