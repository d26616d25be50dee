"""Produce (0): appends producers' batches to the partitions that this broker leads (R41–R46)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kraft.api.produce import ProduceRequest, ProduceResponse
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.network.listening import Unanswerable
from quorate.nouns import Offset
from quorate.partition_log.produced import is_transactional
from quorate.replication import ACKS_ALL, admit_produce
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.telemetry.tracing import Span
from quorate.wire.batch import BatchHeader
from quorate.wire.items import Items, Steps, each_in_steps
from services.broker.callers import Caller, Connection
from services.broker.cluster import PER_NAME, Cluster
from services.broker.produce_lines import ProduceLines
from services.broker.replicas import Replicas
from services.broker.table import Hosted, Key
from services.broker.tracing import ProduceTraces
from services.broker.verification import Verified, Verifier, transaction_of

__all__ = ["Produce"]

NAMES_LEADERS: Final = 10
"""From this version on an answer names leaders (KIP-951)."""
WAIT_MS_MAX: Final = 5 * 60_000
"""An answer waits no longer than that, whatever its request says."""
PER_BATCH: Final = 4
"""The cost of a batch in items of an answer: a step has 256 of them."""

_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse
_Asked = ProduceRequest.TopicProduceData


class _Written(NamedTuple):
    """The result of one partition's batch; `end` is what acks=all waits for, None after an error."""

    key: Key | None
    answer: _Partition
    end: Offset | None


_AllWritten: TypeAlias = list[tuple[_Asked, list[_Written]]]
"""The results of each topic's batches."""


class Produce:
    """Answers Produce."""

    def __init__(self, replicas: Replicas, cluster: Cluster, traces: ProduceTraces, verifier: Verifier) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._traces = traces
        self._verifier = verifier
        self._arrived = ProduceLines[Connection]()
        self._lines = ProduceLines[Key]()

    async def answer(self, request: ProduceRequest, version: int, caller: Caller) -> ProduceResponse | None:
        """Appends the batches and answers; with acks=all once the replicas of each ISR have them, or the time is over.

        Each partition's error is in the answer. With REQUEST_TIMED_OUT its records stay in the log. None with acks=0;
        then raises Unanswerable if a batch is refused, and the connection is closed, as by Kafka. Raises Corrupt,
        OSError.
        """
        with self._traces.of_request(request.acks) as span:
            return await self._answered(request, version, caller, span)

    async def _answered(
        self, request: ProduceRequest, version: int, caller: Caller, span: Span
    ) -> ProduceResponse | None:
        # Before the first turn that others have: a connection's next request may be small, and ready before this one.
        async with self._arrived.turn(caller.connections):
            written = await self._written(request, version, caller)
        every = [each for _, partitions in written for each in partitions]
        if request.acks == 0:
            if refused := [each for each in every if each.end is None]:
                code = ErrorCode(refused[0].answer.error_code).name
                raise Unanswerable(f"Produce with acks=0: {code}: {refused[0].answer.error_message}")
            return None
        outcomes = await self._acknowledged(request, every, span)
        responses = await in_turns(self._responses(written, outcomes, version))
        return ProduceResponse(responses=responses, node_endpoints=tuple(self._leaders(responses, caller.listener)))

    async def _written(self, request: ProduceRequest, version: int, caller: Caller) -> _AllWritten:
        """Appends all batches; of a transaction once its coordinator has said yes (KIP-890)."""
        try:
            transaction = await in_turns(transaction_of(request, version, caller))
        except ApiError as refusal:
            return await in_turns(_refused_all(request, refusal))
        allowed, refused = await in_turns(self._admitted(request, caller))
        if transaction is None:
            return [*await self._appended_all(allowed, None), *refused]
        async with self._verifier.turn(transaction.producer_id):
            verified = await self._verifier.verified(allowed, version, transaction)
            return [*await self._appended_all(allowed, verified), *refused]

    def _admitted(self, request: ProduceRequest, caller: Caller) -> Steps[tuple[ProduceRequest, _AllWritten]]:
        """Returns the request with the topics that the caller may write to, and the refusals of the others."""
        allowed: list[_Asked] = []
        refused: _AllWritten = []
        done = Items()
        for topic in request.topic_data:
            try:
                self._cluster.check(caller, AclOperation.WRITE, topic.topic_id, topic.name)
                allowed.append(topic)
            except ApiError as refusal:
                refused.append((yield from _refused_whole(topic, refusal, done)))
            yield from done.many(PER_NAME)
        return (msgspec.structs.replace(request, topic_data=tuple(allowed)) if refused else request), refused

    async def _appended_all(self, request: ProduceRequest, verified: Verified | None) -> _AllWritten:
        """Appends the batches, each once it is read, in turns; nobody overtakes a batch that is being read."""
        appended: _AllWritten = []
        done = Items()
        async with self._lines.turn(await in_turns(self._hosted_in(request))):
            for topic in request.topic_data:
                written = []
                for each in topic.partition_data:
                    written.append(await self._write(request.acks, topic, each, verified, done))
                    await in_turns(done.many(PER_BATCH))
                appended.append((topic, written))
                await in_turns(done.one())
        return appended

    def _hosted_in(self, request: ProduceRequest) -> Steps[set[Key]]:
        found, done = set[Key](), Items()
        for topic in request.topic_data:
            for each in topic.partition_data:
                with suppress(ApiError):
                    found.add(self._cluster.hosted(topic.topic_id, topic.name, each.index).key)
                yield from done.many(PER_BATCH)
            yield from done.one()
        return found

    def _responses(
        self, written: _AllWritten, outcomes: Mapping[Key, ErrorCode], version: int
    ) -> Steps[tuple[_Topic, ...]]:
        responses, done = [], Items()
        for topic, partitions in written:
            answers = []
            for each in partitions:
                answers.append(self._outcome(topic, each, outcomes, version))
                yield from done.one()
            responses.append(_Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(answers)))
            yield from done.one()
        return tuple(responses)

    async def _acknowledged(
        self, request: ProduceRequest, written: list[_Written], span: Span
    ) -> Mapping[Key, ErrorCode]:
        """Waits for the replicas in the ISR; returns how that has ended by partition, for all batches that it has."""
        required: dict[Key, Offset] = {}
        for each in written:
            if each.key is not None and each.end is not None:
                required[each.key] = max(each.end, required.get(each.key, 0))
        if request.acks != ACKS_ALL or not required:
            return {}
        with self._traces.waiting(span, required):
            return await self._replicas.reached(required, timeout_ms=min(request.timeout_ms, WAIT_MS_MAX))

    async def _write(
        self,
        acks: int,
        topic: _Asked,
        asked: _Asked.PartitionProduceData,
        verified: Verified | None,
        done: Items,
    ) -> _Written:
        """Checks a batch, in turns if that is long, and appends it; meanwhile the partition may have gone."""
        records = asked.records or b""
        try:
            hosted = self._cluster.hosted(topic.topic_id, topic.name, asked.index)
            admit_produce(hosted.partition, acks)
            steps = hosted.log.check_in_steps(records, now_ms=self._replicas.wall_ms, done=done)
            checked = await in_turns(steps)
            hosted = self._cluster.hosted(topic.topic_id, topic.name, asked.index)
            return self._appended(acks, hosted, asked.index, records, checked, verified)
        except ApiError as refusal:
            return _Written(None, _refused(asked.index, refusal), None)

    def _appended(
        self, acks: int, hosted: Hosted, index: int, records: bytes, checked: BatchHeader, verified: Verified | None
    ) -> _Written:
        """Appends one batch. Raises ApiError, and then nothing is written."""
        role = admit_produce(hosted.partition, acks)
        if verified is not None and hosted.key not in verified and is_transactional(records):
            why = f"{hosted.name} has come to this broker while a coordinator was asked; its transaction is not known"
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
        verification = None if verified is None else verified.get(hosted.key)
        if isinstance(verification, ApiError):
            raise ApiError(verification.code, verification.message)
        with self._traces.appending(hosted):
            appended = hosted.log.append_as_leader(
                records,
                epoch=role.leader_epoch,
                now_ms=self._replicas.wall_ms,
                verification=verification,
                checked=checked,
            )
        # R44: what acks=all waits for is what this broker has.
        assert appended.base_offset <= appended.last_offset < hosted.log.leo, (hosted.name, appended, hosted.log.leo)
        if not appended.was_there:
            self._replicas.traffic.records_produced += checked.count
            self._replicas.traffic.bytes_produced += checked.size
            self._replicas.appended(hosted, role)
        answer = _Partition(
            index=index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=hosted.log.start,
        )
        return _Written(hosted.key, answer, appended.last_offset + 1)

    def _outcome(self, topic: _Asked, written: _Written, outcomes: Mapping[Key, ErrorCode], version: int) -> _Partition:
        """Returns one partition's answer with what came of the wait, and with its leader where that helps."""
        answer = written.answer
        code = ErrorCode.NONE if written.key is None else outcomes.get(written.key, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            why = f"offset {answer.base_offset} is not known to be in the replicas of the ISR"
            answer = _refused(answer.index, ApiError(code, why))
        if version < NAMES_LEADERS or not answer.error_code:
            return answer
        leader = self._cluster.leader_named(ErrorCode(answer.error_code), topic.topic_id, topic.name, answer.index)
        return msgspec.structs.replace(answer, current_leader=_Partition.LeaderIdAndEpoch(*leader))

    def _leaders(self, responses: tuple[_Topic, ...], listener: str) -> Iterator[ProduceResponse.NodeEndpoint]:
        """Yields where the leaders are that the answer names (KIP-951)."""
        named = {each.current_leader.leader_id for topic in responses for each in topic.partition_responses}
        for broker in self._cluster.endpoints(named, listener):
            yield ProduceResponse.NodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack)


def _refused_all(request: ProduceRequest, refusal: ApiError) -> Steps[_AllWritten]:
    refused: _AllWritten = []
    done = Items()
    for topic in request.topic_data:
        refused.append((yield from _refused_whole(topic, refusal, done)))
        yield from done.one()
    return refused


def _refused_whole(topic: _Asked, refusal: ApiError, done: Items) -> Steps[tuple[_Asked, list[_Written]]]:
    refused = yield from each_in_steps(
        lambda each: _Written(None, _refused(each.index, refusal), None), topic.partition_data, done
    )
    return topic, list(refused)


def _refused(index: int, refusal: ApiError) -> _Partition:
    return _Partition(index=index, error_code=refusal.code, base_offset=-1, error_message=refusal.message)
