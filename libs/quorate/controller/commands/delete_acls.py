"""DeleteAcls (31): deletes the ACL entries that filters match, and lists the matches of each filter.

KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from kraft import Uuid
from kraft.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from quorate.controller.access.acl_filters import Matcher, check_filter
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

__all__ = ["delete_acls"]

_Result: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult
_Match: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult.DeleteAclsMatchingAcl

REMOVED_MAX: Final = RECORDS_PER_WRITE_MAX


def delete_acls(request: DeleteAclsRequest) -> Command[DeleteAclsResponse]:
    """Returns the command that deletes the matching entries; an entry that two filters match is listed by both.

    Raises ApiError(INVALID_REQUEST) if more than `REMOVED_MAX` entries match: Kafka's code here; elsewhere it is
    POLICY_VIOLATION.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DeleteAclsResponse]:
        matcher = Matcher(state.acls.entries())
        going: dict[Uuid, None] = {}
        results: list[_Result] = []
        for wanted in request.filters:
            try:
                check_filter(wanted)
            except ApiError as refusal:
                results.append(_Result(error_code=int(refusal.code), error_message=refusal.message))
                continue
            matching = matcher.matches(wanted)
            going |= dict.fromkeys(entry.id for entry in matching)
            results.append(_Result(error_message=None, matching_acls=tuple(map(_match, matching))))
        assert len(results) == len(request.filters), (len(results), len(request.filters))
        _check_size(going)
        removals = tuple(RemoveAccessControlEntryRecord(entry_id) for entry_id in going)
        return Decision(DeleteAclsResponse(filter_results=tuple(results)), removals)

    return command


def _check_size(going: Iterable[Uuid]) -> None:
    count = len(list(going))
    if count > REMOVED_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the filters match {count} entries; one request removes at most {REMOVED_MAX}",
        )


def _match(entry: AccessControlEntryRecord) -> _Match:
    return _Match(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
