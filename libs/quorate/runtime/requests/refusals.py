"""Answers that refuse a whole request, as each API says it: Kafka's `AbstractRequest.getErrorResponse`.

An answer with an error code of its own has it there; the others have it in every item that was asked for. Three have
it in both places, because Kafka's admin client looks for each item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from kraft.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kraft.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from kraft.api.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kraft.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from quorate.protocol.apis import api_of
from quorate.runtime.requests.statuses import shortened
from quorate.wire.items import Items, Steps, each_in_steps

__all__ = ["RepeatedError", "refused", "shorten_messages"]

NO_TIME: Final = -1
ERROR_MESSAGE: Final = "error_message"
MESSAGES_BYTES_MAX: Final = 64 << 10
"""How many bytes of error messages the items of one refusal have together: an item of three bytes is refused with a
sentence of a hundred, and a request may have 100,000 items."""
ITEM_BYTES_MAX: Final = 20
"""How many bytes more than in the request an item of a refusal has at most, without its message: the schemas say it.
The dearest is one of CreateTopics, with the id of no topic."""
FETCH_TOP_LEVEL_SINCE: Final = 13
"""The version of Fetch from which an error of the whole request is not repeated in each partition."""

Named = tuple[str, tuple[Message, ...]]
"""A field of an answer, and its items."""
Itemize = Callable[[Any, "RepeatedError", Items], Steps[Named]]


class RepeatedError:
    """The error of each item of an answer, called once an item: code and message, as `error_code` and `error_message`.

    Only the first items have the message, up to `MESSAGES_BYTES_MAX` in all, so that the answer stays small.
    """

    def __init__(self, code: int, message: str | None) -> None:
        self._error = {"error_code": code, "error_message": message}
        self._left = MESSAGES_BYTES_MAX // max(1, len((message or "").encode("utf-8", "replace")))

    def __call__(self) -> Mapping[str, Any]:
        """Returns code and message of the next item."""
        self._left -= 1
        return self._error if self._left >= 0 else self._error | {"error_message": None}


def refused(request: Message, refusal: ApiError, version: int, principal: Principal = ANONYMOUS) -> Steps[Message]:
    """Makes the answer (a struct, in the newest version) that refuses `request` as a whole, in steps for `in_turns`.

    `version` is the one that the client speaks: it decides where a Fetch has the error. `principal` is the client's:
    who may not ask for tokens hears who would have had one.
    """
    response = api_of(type(request)).response
    values = _of_no_token(request, refusal, principal)
    if "error_code" in response.__struct_fields__:
        values["error_code"] = int(refusal.code)
    if "error_message" in response.__struct_fields__:
        values["error_message"] = refusal.message
    itemize = _ITEMS.get(type(request))
    if itemize is not None and not (isinstance(request, FetchRequest) and version >= FETCH_TOP_LEVEL_SINCE):
        name, items = yield from itemize(request, RepeatedError(int(refusal.code), refusal.message), Items())
        values[name] = items
    return response(**values)


def shorten_messages(answer: ProtobufMessage) -> Steps[None]:
    """Changes a service's answer: shortens its error messages that are longer than a gRPC status has them, in steps.

    A sentence quotes the value at fault with escapes, and so may have more bytes than a string of Kafka (32,767).
    """
    return _shorten(answer, Items())


def _shorten(answer: ProtobufMessage, done: Items) -> Steps[None]:
    for field, value in answer.ListFields():
        if field.name == ERROR_MESSAGE:
            setattr(answer, ERROR_MESSAGE, shortened(value))
        elif field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from _shorten(each, done)
                yield from done.one()


def _of_no_token(request: Message, refusal: ApiError, principal: Principal) -> dict[str, Any]:
    """Returns what Kafka says beside the error where a delegation token would have been; nothing for other requests."""
    is_barred = refusal.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if isinstance(request, CreateDelegationTokenRequest):
        requester = principal if is_barred else ANONYMOUS
        owner = requester
        if is_barred and request.owner_principal_name:
            owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
        return {
            "principal_type": owner.type,
            "principal_name": owner.name,
            "token_requester_principal_type": requester.type,
            "token_requester_principal_name": requester.name,
            **dict.fromkeys(("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), NO_TIME),
        }
    if is_barred and isinstance(request, RenewDelegationTokenRequest | ExpireDelegationTokenRequest):
        return {"expiry_timestamp_ms": NO_TIME}
    return {}


def _each(asked: str, answered: str, item: type[Message], copied: Sequence[str] = ()) -> Itemize:
    """Makes an item of the answer's field `answered` for each of the request's `asked`, with the `copied` fields."""

    def itemize(request: Any, error: RepeatedError, done: Items) -> Steps[Named]:
        def made(each: Any) -> Message:
            return item(**{name: getattr(each, name) for name in copied}, **error())

        return answered, (yield from each_in_steps(made, getattr(request, asked), done))

    return itemize


def _delete_topics(request: DeleteTopicsRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = DeleteTopicsResponse.DeletableTopicResult
    by_name = yield from each_in_steps(lambda name: item(name=name, **error()), request.topic_names, done)
    others = yield from each_in_steps(
        lambda each: item(name=each.name, topic_id=each.topic_id, **error()), request.topics, done
    )
    return "responses", (*by_name, *others)


def _scram(request: AlterUserScramCredentialsRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return "results", (yield from each_in_steps(lambda user: item(user=user, **error()), users, done))


def _nested(
    items: Iterable[Any],
    inside: str,
    part: Callable[[Any], Any],
    whole: Callable[[Any, Any], Message],
    done: Items,
) -> Steps[tuple[Message, ...]]:
    """Makes an item by `whole` for each of `items`, with what `part` makes of each that it has in its list `inside`."""
    made = []
    for each in items:
        parts = yield from each_in_steps(part, getattr(each, inside), done)
        made.append(whole(each, parts))
        yield from done.one()
    return tuple(made)


def _alter_client_quotas(request: AlterClientQuotasRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = AlterClientQuotasResponse.EntryData
    return "entries", (
        yield from _nested(
            request.entries,
            "entity",
            lambda part: item.EntityData(part.entity_type, part.entity_name),
            lambda _, entity: item(entity=entity, **error()),
            done,
        )
    )


def _elect_leaders(request: ElectLeadersRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = ElectLeadersResponse.ReplicaElectionResult
    return "replica_election_results", (
        yield from _nested(
            request.topic_partitions or (),
            "partitions",
            lambda index: item.PartitionResult(index, **error()),
            lambda each, partitions: item(each.topic, partitions),
            done,
        )
    )


def _reassignments(request: AlterPartitionReassignmentsRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    return "responses", (
        yield from _nested(
            request.topics,
            "partitions",
            lambda part: item.ReassignablePartitionResponse(part.partition_index, **error()),
            lambda each, partitions: item(each.name, partitions),
            done,
        )
    )


def _fetch(request: FetchRequest, error: RepeatedError, done: Items) -> Steps[Named]:
    item = FetchResponse.FetchableTopicResponse
    code = error()["error_code"]
    return "responses", (
        yield from _nested(
            request.topics,
            "partitions",
            lambda part: item.PartitionData(partition_index=part.partition, error_code=code, high_watermark=-1),
            lambda each, partitions: item(topic=each.topic, partitions=partitions),
            done,
        )
    )


_RESOURCE: Final = ("resource_type", "resource_name")

_ITEMS: Final[Mapping[type[Message], Itemize]] = {
    AlterClientQuotasRequest: _alter_client_quotas,
    AlterConfigsRequest: _each("resources", "responses", AlterConfigsResponse.AlterConfigsResourceResponse, _RESOURCE),
    AlterPartitionReassignmentsRequest: _reassignments,
    AlterUserScramCredentialsRequest: _scram,
    CreateAclsRequest: _each("creations", "results", CreateAclsResponse.AclCreationResult),
    CreatePartitionsRequest: _each(
        "topics", "results", CreatePartitionsResponse.CreatePartitionsTopicResult, ("name",)
    ),
    CreateTopicsRequest: _each("topics", "topics", CreateTopicsResponse.CreatableTopicResult, ("name",)),
    DeleteAclsRequest: _each("filters", "filter_results", DeleteAclsResponse.DeleteAclsFilterResult),
    DeleteTopicsRequest: _delete_topics,
    DescribeConfigsRequest: _each("resources", "results", DescribeConfigsResponse.DescribeConfigsResult, _RESOURCE),
    ElectLeadersRequest: _elect_leaders,
    FetchRequest: _fetch,
    IncrementalAlterConfigsRequest: _each(
        "resources", "responses", IncrementalAlterConfigsResponse.AlterConfigsResourceResponse, _RESOURCE
    ),
}
"""The items that a refusal of the whole request has, by the request's class."""
