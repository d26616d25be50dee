"""DescribeAcls (29): lists the ACL entries that a filter matches, by resource, from committed state.

KIP-140, KIP-290.
"""

from __future__ import annotations

from itertools import groupby
from typing import TypeAlias

from kraft.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from quorate.controller.access.acl_filters import Matcher, check_filter
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.acls import pattern_of
from quorate.metadata.state import ClusterState
from quorate.records import AccessControlEntryRecord

__all__ = ["describe_acls"]

_Resource: TypeAlias = DescribeAclsResponse.DescribeAclsResource
_Description: TypeAlias = DescribeAclsResponse.DescribeAclsResource.AclDescription


def describe_acls(request: DescribeAclsRequest) -> Command[DescribeAclsResponse]:
    """Returns the command that lists entries by resource type, name and pattern type, then by principal.

    Raises ApiError(INVALID_REQUEST) for a filter with unknown enum values.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DescribeAclsResponse]:
        check_filter(request)
        resources = tuple(
            _Resource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=tuple(map(_described, entries)),
            )
            for pattern, entries in groupby(Matcher(state.acls.entries()).matches(request), key=pattern_of)
        )
        patterns = {(each.resource_type, each.resource_name, each.pattern_type) for each in resources}
        assert len(patterns) == len(resources), "a resource is listed once: the matches are sorted by resource"
        return Decision(DescribeAclsResponse(error_message=None, resources=resources))

    return command


def _described(entry: AccessControlEntryRecord) -> _Description:
    return _Description(entry.principal, entry.host, entry.operation, entry.permission_type)
