"""DescribeAcls (29): lists the ACL entries that a filter matches, by resource, from committed state.

KIP-140, KIP-290.
"""

from __future__ import annotations

from itertools import groupby
from typing import TypeAlias

from kraft.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from quorate.controller.access.acl_filters import Matcher, check_filter, in_order
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.steps import ITEMS_PER_STEP, Steps
from quorate.metadata.acls import pattern_of
from quorate.metadata.state import ClusterState
from quorate.records import AccessControlEntryRecord

__all__ = ["describe_acls"]

_Resource: TypeAlias = DescribeAclsResponse.DescribeAclsResource
_Description: TypeAlias = DescribeAclsResponse.DescribeAclsResource.AclDescription


def describe_acls(request: DescribeAclsRequest) -> Command[DescribeAclsResponse]:
    """Returns the command that lists the entries that match `request`, by resource type, name and pattern type.

    Those of one resource are sorted by principal, host and operation. The command raises ApiError(INVALID_REQUEST) for
    a filter with unknown enum values.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[DescribeAclsResponse]]:
        check_filter(request)
        entries = in_order((yield from Matcher(state.acls.entries()).matching(request)))
        resources: list[_Resource] = []
        for pattern, alike in groupby(entries, key=pattern_of):
            if len(resources) % ITEMS_PER_STEP == 0:
                yield
            acls = tuple(map(_described, alike))
            resources.append(_Resource(pattern.resource_type, pattern.name, pattern.pattern_type, acls))
        listed_count = sum(len(each.acls) for each in resources)
        assert listed_count == len(entries), (listed_count, len(entries))
        patterns = {(each.resource_type, each.resource_name, each.pattern_type) for each in resources}
        assert len(patterns) == len(resources), "a resource is listed once: the matches are sorted by resource"
        return Decision(DescribeAclsResponse(error_message="", resources=tuple(resources)))

    return command


def _described(entry: AccessControlEntryRecord) -> _Description:
    return _Description(entry.principal, entry.host, entry.operation, entry.permission_type)
