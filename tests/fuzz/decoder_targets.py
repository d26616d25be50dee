"""The decoders of bytes that others write: files, Kafka's wire, gRPC, logins, certificates, settings."""

from __future__ import annotations

import base64
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from crc32c import crc32c
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kraft import Message, Uuid
from quorate.errors import ApiError, Corrupt
from quorate.network.client_config import parse_bootstrap, parse_client_config
from quorate.network.jaas import options
from quorate.nouns import OffsetAndEpoch, Principal, ReplicaKey, parse_uuid
from quorate.properties import parse_properties
from quorate.protocol.apis import all_apis
from quorate.protocol.errors import ProtocolError
from quorate.protocol.frames import Frames, frame
from quorate.protocol.messages import (
    decode_body,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from quorate.protocol.sasl.mechanism import SaslError
from quorate.protocol.sasl.plain import PlainServer
from quorate.protocol.sasl.scram_messages import ClientFinal, ClientFirst, ServerFinal, ServerFirst, from_saslname
from quorate.raft.log import LeaderChange, VotersChange
from quorate.raft.voters import ListenerEndpoint, VersionRange, Voter, VoterSet
from quorate.records import (
    ConfigRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from quorate.runtime.requests.decoded_cost import check_cost, cost_limit
from quorate.runtime.requests.decoding import parser
from quorate.runtime.settings.setting_types import (
    SettingType,
    integer,
    list_of,
    listener,
    milliseconds,
    principals,
    voter,
)
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from quorate.storage.names import LEADER_EPOCHS, META_PROPERTIES, PROMISE, QUORUM_STATE
from quorate.storage.salvage import PromiseFile
from quorate.tls.certificates import subject_name
from quorate.tls.node_ids import NodeIds
from quorate.tls.revoked import read_revoked
from quorate.tls.ssl_principals import parse_rules
from quorate.wire.batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    batches,
    check_batch,
    data_batch,
    data_values,
    records,
)
from quorate.wire.protobuf import to_struct
from services.observer.otlp import sender_of, span_of
from services.quorum.batches import control_batch_of, parse_batches
from tests.fuzz.inputs import Inputs, Words
from tests.fuzz.rpcs import SERVED, Rpc, rpcs_of

SAMPLES: Final = 200
"""Drawn for a target of which there are any number."""
TRIES_MAX: Final = 50
TEXT_ERRORS: Final = (ValueError,)
CRC: Final = struct.Struct(">I")
CRC_AT: Final = CHECKED_FROM - CRC.size
EXTERNAL: Final = ListenerEndpoint("CONTROLLER", "quorum-1.example", 9093)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One decoder. `mend` makes a damaged input sound on its surface, so that it gets further in."""

    name: str
    samples: Sequence[bytes]
    decode: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...]
    mend: Callable[[bytes], bytes] = bytes


def with_checksum(data: bytes) -> bytes:
    """A batch whose checksum and length are those of its bytes, whatever they are."""
    if len(data) < HEADER_BYTES:
        return data
    made = bytearray(data)
    made[8:12] = (len(made) - 12).to_bytes(4)
    made[CRC_AT:CHECKED_FROM] = CRC.pack(crc32c(bytes(made[CHECKED_FROM:])))
    return bytes(made)


def _read_batches(data: bytes) -> None:
    for position, header in batches(data):
        check_batch(data, position)
        for each in records(data, position, header):
            assert each.offset >= 0, each
        if not header.is_control:
            data_values(data, position, header)


def _read_record(data: bytes) -> None:
    record = decode_record(data)
    for version in range(4):
        with suppress(ApiError, ValueError, KeyError):
            again = encode_record(record, version)
            assert encode_record(decode_record(again), version) == again, (record, again)


def _read_request(data: bytes) -> None:
    api, header, position = decode_request_header(data)
    if header.request_api_version in api.versions:
        decode_body(api.request, data, position, header.request_api_version)


def _read_response(data: bytes) -> None:
    if len(data) < 4:
        return
    api = list(all_apis().values())[data[0] % len(all_apis())]
    version = api.versions[data[1] % len(api.versions)]
    _, position = decode_response_header(api, version, data[2:])
    decode_body(api.response, data[2:], position, version)


def _read_frames(data: bytes) -> None:
    frames = Frames(size_max=1 << 16)
    for at in range(0, len(data), 5):
        frames.receive_data(data[at : at + 5])
        while (taken := frames.take()) is not None:
            assert len(taken) <= 1 << 16, len(taken)


def _messages(program: str, rng: Random) -> Iterator[Any]:
    rpcs = [rpc for rpc in rpcs_of(program) if _is_kafkas(rpc)]
    while True:
        yield Inputs(rng.choice(rpcs), Words(), rng).message()


def _is_kafkas(rpc: Rpc) -> bool:
    return bool(rpc.request.full_name.startswith("kraft.api."))


def _structs(rng: Random) -> Iterator[Message]:
    """Requests of the controller as Kafka's messages."""
    for message in _messages("controller", rng):
        with suppress(ApiError, ValueError, KeyError, AttributeError, TypeError):
            yield to_struct(message)


def _requests(rng: Random) -> list[bytes]:
    apis = {api.request: api for api in all_apis().values()}
    found: list[bytes] = []
    for asked in _structs(rng):
        api = apis.get(type(asked))
        if api is None:
            continue
        with suppress(ApiError, ValueError):
            version = rng.choice(api.versions)
            data = encode_request(api, asked, version=version, correlation_id=len(found), client_id="fuzz")
            if len(data) < 4_000:
                found.append(data)
        if len(found) == SAMPLES:
            break
    return found


def _responses(rng: Random) -> list[bytes]:
    """Each API's empty answer, in each version; `_read_response` finds out by the first two bytes."""
    found: list[bytes] = []
    for number, api in enumerate(all_apis().values()):
        for at, version in enumerate(api.versions):
            with suppress(ApiError, ValueError, TypeError):
                data = encode_response(api, api.response(), version=version, correlation_id=1)
                found.append(bytes((number, at)) + data)
    return found or [rng.randbytes(8)]


def _records(rng: Random) -> list[bytes]:
    made: list[Message] = [
        NoOpRecord(),
        TopicRecord("orders", Uuid(bytes(15) + b"\x09")),
        ConfigRecord(2, "orders", "retention.ms", "1000"),
        FenceBrokerRecord(1, 7),
    ]
    found = [encode_record(each, 0) for each in made]
    return [*found, encode_record(PartitionRecord(topic_id=Uuid(bytes(15) + b"\x09")), 0), rng.randbytes(9)]


def _protobuf(program: str) -> Target:
    rng = Random(program)
    rpcs = [rpc for rpc in rpcs_of(program) if rpc.path.startswith("/kraft.")]
    parsers = [parser(GetMessageClass(rpc.request).FromString) for rpc in rpcs]
    limits = [cost_limit(rpc.path, rpc.request) for rpc in rpcs]
    samples: list[bytes] = []
    while len(samples) < SAMPLES:
        at = rng.randrange(len(rpcs))
        data = Inputs(rpcs[at], Words(), rng).message().SerializeToString()
        if len(data) < 4_000:
            samples.append(bytes((at,)) + data)

    def decode(data: bytes) -> None:
        if data:
            at = data[0] % len(parsers)
            for _ in check_cost(data[1:], limits[at]):
                pass
            request = parsers[at](data[1:])
            if _is_kafkas(rpcs[at]):
                to_struct(request)

    return Target(name=f"gRPC requests of {program}", samples=samples, decode=decode, errors=(ApiError, ValueError))


def _otlp(rng: Random) -> Target:
    rpc = next(each for each in rpcs_of("observer") if "TraceService" in each.path)
    samples: list[bytes] = []
    while len(samples) < SAMPLES:
        data = Inputs(rpc, Words(), rng).message().SerializeToString()
        if len(data) < 4_000:
            samples.append(data)

    def decode(data: bytes) -> None:
        for each in ExportTraceServiceRequest.FromString(data).resource_spans:
            sender = sender_of(each)
            for span in (span for scope in each.scope_spans for span in scope.spans):
                found = span_of(span, sender)
                assert found is None or len(found.trace_id) == 32, found

    return Target(name="OTLP spans", samples=samples, decode=decode, errors=(DecodeError,))


def _voters() -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(node_id, Uuid(bytes(15) + bytes((node_id,)))),
                endpoints=(EXTERNAL,),
                kraft_versions=VersionRange(0, 1),
            )
            for node_id in (1, 2, 3)
        )
    )


def _batch_targets() -> Iterator[Target]:
    rng, voters = Random("batches"), _voters()
    values = _records(rng)
    data = [
        data_batch(base_offset=offset, epoch=3, timestamp_ms=1_000, values=values[: 1 + offset % len(values)])
        for offset in range(10)
    ]
    change = VotersChange(base_offset=1, epoch=4, voters=voters, kraft_version=1)
    keys = tuple(each.key for each in voters.voters)
    first = LeaderChange(base_offset=0, epoch=4, leader_id=1, voters=keys, granting=keys[:2], change=change)
    control = [control_batch_of(first, timestamp_ms=1), control_batch_of(change, timestamp_ms=1)]
    yield Target(name="record batches", samples=data, decode=_read_batches, errors=(Corrupt,))
    yield Target(
        name="record batches, checksums mended",
        samples=[*data, *control],
        decode=_read_batches,
        errors=(Corrupt,),
        mend=with_checksum,
    )
    yield Target(
        name="fetched batches, checksums mended",
        samples=[*control, *data],
        decode=lambda each: list(parse_batches(each)),
        errors=(Corrupt,),
        mend=with_checksum,
    )
    yield Target(name="metadata records", samples=values, decode=_read_record, errors=(Corrupt,))


def _wire_targets() -> Iterator[Target]:
    rng = Random("wire")
    requests = _requests(rng)
    errors = (ProtocolError,)
    yield Target(name="Kafka's requests", samples=requests, decode=_read_request, errors=errors)
    yield Target(name="Kafka's responses", samples=_responses(rng), decode=_read_response, errors=errors)
    yield Target(name="Kafka's frames", samples=[*map(frame, requests[:20])], decode=_read_frames, errors=errors)
    yield from map(_protobuf, (program for program in SERVED if SERVED[program]))
    yield _otlp(rng)


def _text(name: str, samples: Sequence[str], read: Callable[[str], Any]) -> Target:
    """Of what is text: bytes that are none have been refused before."""
    encoded = [each.encode() for each in samples]
    return Target(
        name=name, samples=encoded, decode=lambda data: read(data.decode("utf-8", "replace")), errors=TEXT_ERRORS
    )


def _login_targets() -> Iterator[Target]:
    nonce, salt = "fyko+d2lbbFgONRv9qkxdawL", base64.b64encode(b"salt and more").decode()
    first = f"n,a=admin,n=al=2Cice=3D,r={nonce},tokenauth=true".encode()
    server = f"r={nonce}3rfcNHYJY1ZVvWVs7j,s={salt},i=4096".encode()
    final = f"c=biws,r={nonce}3rfcNHYJY1ZVvWVs7j,p={salt}".encode()

    def client_first(data: bytes) -> None:
        from_saslname(ClientFirst.parse(data).saslname)

    for name, samples, read in (
        ("SCRAM, the client's first message", [first, b"n,,n=bob,r=x"], client_first),
        ("SCRAM, the server's first message", [server], ServerFirst.parse),
        ("SCRAM, the client's final message", [final], ClientFinal.parse),
        ("SCRAM, the server's final message", [f"v={salt}".encode(), b"e=other-error"], ServerFinal.parse),
    ):
        yield Target(name=name, samples=samples, decode=read, errors=(SaslError,))
    plain = PlainServer(lambda user, password: user == password)
    yield Target(
        name="PLAIN", samples=[b"\0alice\0alice", b"bob\0alice\0alice"], decode=plain.evaluate, errors=(SaslError,)
    )
    yield _text("JAAS options", ['a.b.PlainLoginModule required username="a b" user_b=\'c"d\';'], options)


def _certificate_targets(directory: Path) -> Iterator[Target]:
    # Of a subject with several attributes: the authorities that the machine trusts.
    found = ssl.create_default_context().get_ca_certs(binary_form=True)[:50]
    yield Target(
        name="subjects of certificates",
        samples=found or [bytes.fromhex("30820122308201")],
        decode=subject_name,
        errors=(Corrupt,),
    )
    rules = [r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,RULE:^spiffe:\/\/cluster\/(.*)$/$1/,DEFAULT", "DEFAULT"]

    mapped = parse_rules(rules[0])

    def map_name(name: str) -> None:
        # Names are a stranger's; the patterns are the operator's own, and may take as long as any pattern of theirs.
        for rule in mapped:
            rule.apply(name)

    yield _text("names that rules map", ["CN=alice,OU=ServiceUsers,O=x", "spiffe://cluster/quorum/1"], map_name)

    nodes = r"RULE:^(quorum|broker)-([0-9]+)$/$2/,RULE:^gw$/*/"
    ids = NodeIds(nodes)
    yield _text("ssl.principal.mapping.rules", rules, parse_rules)
    yield _text("principal.node.id.mapping.rules", [nodes], NodeIds)
    yield _text("names of nodes", ["broker-12", "quorum-1", "gw"], lambda name: ids.of(Principal("User", name)))
    revoked = b"# lost\nsha256 Fingerprint=" + b":".join([b"AB"] * 32) + b"\n" + b"0f" * 32
    yield _file("revoked certificates", directory / "revoked", [revoked], read_revoked, TEXT_ERRORS)


def _file(
    name: str, path: Path, samples: Sequence[bytes], read: Callable[[Path], Any], errors: tuple[type[Exception], ...]
) -> Target:
    """Of a file that is read by its path."""

    def decode(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    return Target(name=name, samples=samples, decode=decode, errors=errors)


def _file_targets(directory: Path) -> Iterator[Target]:
    meta = MetaProperties(cluster_id="4L6g3nShT-eMCtK--X86sw", node_id=3, directory_id=Uuid(bytes(15) + b"\x07"))
    write_meta_properties(directory, meta)
    elections = ElectionFile(directory, voters=(1, 2, 3))
    states = []
    for version in (0, 1):
        elections.write(StoredElection(epoch=7, voted=ReplicaKey(2)), version=version)
        states.append((directory / QUORUM_STATE).read_bytes())
    PromiseFile(directory).write(OffsetAndEpoch(offset=77, epoch=3))
    corrupt = (Corrupt,)
    old = b"broker.id=1\nversion=0\ncluster.id=abc\n"
    yield _file(
        "meta.properties",
        directory / META_PROPERTIES,
        [(directory / META_PROPERTIES).read_bytes(), old],
        lambda path: read_meta_properties(path.parent),
        corrupt,
    )
    yield _file("quorum-state", directory / QUORUM_STATE, states, lambda _: elections.read(), corrupt)
    promised = (directory / PROMISE).read_bytes()
    yield _file("promised end", directory / PROMISE, [promised], lambda path: PromiseFile(path.parent).read(), corrupt)
    epochs = [b"0\n2\n0 0\n3 17\n"]
    yield _file("leader epochs", directory / LEADER_EPOCHS, epochs, lambda path: EpochsFile(path.parent).read(), ())


def _setting_targets() -> Iterator[Target]:
    yield _text("properties", ["a.b=c\\\n  d\nx : \\u00e9\n# no\n! no\ny", "key=value"], parse_properties)
    client = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nrequest.timeout.ms=1000\n"

    def client_config(text: str) -> None:
        parse_client_config(parse_properties(text))

    yield _text("a client's properties", [client, "security.protocol=PLAINTEXT\n"], client_config)
    yield _text("bootstrap servers", ["a:9092,b.example:9093,[::1]:9094", "SSL://c:1"], parse_bootstrap)
    kinds: tuple[SettingType[Any], ...] = (
        listener(),
        list_of(voter(), low=0),
        principals(),
        integer(-1, 7),
        milliseconds(),
    )

    def settings(text: str) -> None:
        for kind in kinds:
            with suppress(ValueError):
                assert kind.write(kind.parse(text)) is not None, text

    samples = ["CONTROLLER://:9093", "1@a:9093,2@[::1]:9094", "User:alice;User:CN=bob,O=x", "-1", "2147483647"]
    yield _text("settings of services", samples, settings)
    yield _text("ids", ["4L6g3nShT-eMCtK--X86sw", "AAAAAAAAAAAAAAAAAAAAAA"], parse_uuid)


def targets_in(directory: Path) -> Iterator[Target]:
    """Every target; files are in this directory."""
    yield from _batch_targets()
    yield from _wire_targets()
    yield from _login_targets()
    yield from _certificate_targets(directory)
    yield from _file_targets(directory)
    yield from _setting_targets()
