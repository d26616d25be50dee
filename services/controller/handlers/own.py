"""The APIs that are not Kafka's, or that each controller answers by itself: `servicer` has a method for each."""

from __future__ import annotations

from typing import Final

from kraft.api.api_versions_pb2 import ApiVersionsRequest
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from kraft.service.controller_pb2 import (
    AuthenticateRequest,
    AuthorizeRequest,
    ChangeBrokerStateRequest,
    ClaimSessionsRequest,
    ListErrorReasonsRequest,
)
from quorate.controller.engine.engine import QueueLimit
from quorate.metadata.acls import AclOperation
from services.controller.api import Api

__all__ = [
    "ADMIN_STREAM",
    "API_VERSIONS",
    "AUTHENTICATE",
    "AUTHORIZE",
    "CHANGE_BROKER_STATE",
    "CLAIM_SESSIONS",
    "LIST_ERROR_REASONS",
    "OWN",
    "SUBMIT",
]

ADMIN_STREAM: Final = Api(name="AdminStream", request=AdminRequests, right=None, is_forwarded=False)
"""A stream of envelopes. Each is authorized and forwarded by itself, as SUBMIT."""
API_VERSIONS: Final = Api(name="ApiVersions", request=ApiVersionsRequest, right=None, is_forwarded=False)
AUTHENTICATE: Final = Api(
    name="Authenticate",
    request=AuthenticateRequest,
    right=AclOperation.CLUSTER_ACTION,
    is_forwarded=False,
)
AUTHORIZE: Final = Api(name="Authorize", request=AuthorizeRequest, right=None, is_forwarded=False)
"""It says whether others may do something: a caller that asks for them needs the right to pass on requests."""
CHANGE_BROKER_STATE: Final = Api(
    name="ChangeBrokerState",
    request=ChangeBrokerStateRequest,
    right=AclOperation.CLUSTER_ACTION,
    lane=QueueLimit.CLUSTER,
)
CLAIM_SESSIONS: Final = Api(name="ClaimSessions", request=ClaimSessionsRequest, right=AclOperation.CLUSTER_ACTION)
LIST_ERROR_REASONS: Final = Api(
    name="ListErrorReasons", request=ListErrorReasonsRequest, right=None, is_forwarded=False
)
SUBMIT: Final = Api(name="Submit", request=AdminRequest, right=None)
"""An envelope of any admin API, whose own row says which right it needs."""

OWN: Final = (
    ADMIN_STREAM,
    API_VERSIONS,
    AUTHENTICATE,
    AUTHORIZE,
    CHANGE_BROKER_STATE,
    CLAIM_SESSIONS,
    LIST_ERROR_REASONS,
    SUBMIT,
)
