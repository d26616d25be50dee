"""DeleteAcls (31): deletes the ACL entries that filters match, and lists the matches of each filter.

KIP-140, KIP-290.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kraft import Uuid
from kraft.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from quorate.controller.access.acl_filters import Matcher, check_filter, in_order
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

__all__ = ["delete_acls"]

_Result: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult
_Match: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult.DeleteAclsMatchingAcl

REMOVED_MAX: Final = RECORDS_PER_WRITE_MAX


MATCHES_MAX: Final = 10 * REMOVED_MAX
"""The most matches that an answer lists: an entry is listed by each filter that matches it."""


def delete_acls(request: DeleteAclsRequest) -> Command[DeleteAclsResponse]:
    """Returns the command that deletes the entries that match a filter of `request`; each filter lists its matches.

    An entry that two filters match is listed by both. A filter with unknown enum values fails by itself. The command
    raises ApiError(INVALID_REQUEST) if more than `REMOVED_MAX` entries match, which is Kafka's code here (elsewhere it
    is POLICY_VIOLATION), or if the filters match them more than `MATCHES_MAX` times.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[DeleteAclsResponse]]:
        matcher = Matcher(state.acls.entries())
        going: dict[Uuid, None] = {}
        match_count = 0
        results: list[_Result] = []
        for wanted in request.filters:
            try:
                check_filter(wanted)
            except ApiError as refusal:
                results.append(_Result(error_code=int(refusal.code), error_message=refusal.message))
                continue
            matching = yield from matcher.matching(wanted)
            match_count += len(matching)
            _check_size(len(matching), match_count)
            in_their_order = in_order(matching)
            matched = dict.fromkeys(entry.id for entry in in_their_order)
            assert len(matched) == len(matching), f"matched more than once: {wanted}, {len(matched)}, {len(matching)}"
            going |= matched
            _check_size(len(going), match_count)
            results.append(_Result(error_message=None, matching_acls=tuple(map(_match, in_their_order))))
        assert len(results) == len(request.filters), (len(results), len(request.filters))
        listed_count = sum(len(result.matching_acls) for result in results)
        assert listed_count == match_count, (listed_count, match_count)
        removals = tuple(RemoveAccessControlEntryRecord(entry_id) for entry_id in going)
        return Decision(DeleteAclsResponse(filter_results=tuple(results)), removals)

    return command


def _check_size(removed_count: int, match_count: int) -> None:
    if removed_count > REMOVED_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the filters match {removed_count} entries or more; one request removes at most {REMOVED_MAX}",
        )
    if match_count > MATCHES_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the filters match entries {match_count} times or more; one answer lists at most {MATCHES_MAX} matches",
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
