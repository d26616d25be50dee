"""ApiVersions: what a server answers by itself, and which version a client may use. KIP-35, KIP-511."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.errors import ApiError, ErrorCode
from quorate.protocol.apis import API_VERSIONS, ApiMessageType, all_apis, api_of

__all__ = [
    "FALLBACK_VERSION",
    "Versions",
    "for_version",
    "has_valid_software",
    "unsupported_version",
    "usable_version",
    "versions_of",
]

FALLBACK_VERSION: Final = 0
"""In which an unknown version is answered: every client can read it."""

Versions = Mapping[int, range]
"""The versions that a node serves, by API key."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Kafka's rule for the name and the version of a client (`ApiVersionsRequest.isValid`)."""
_OMITS_MIN_ZERO: Final = 4
"""The first version whose reader accepts a feature with lowest level 0."""


def has_valid_software(request: ApiVersionsRequest, version: int) -> bool:
    """Returns whether the client's name and version have the form of KIP-511; true before version 3, which has none.

    From version 5 on it is false, too, if the request has a cluster id without a node id, or the reverse (KIP-1242).
    """
    if version < 3:
        return True
    if version >= 5 and (request.cluster_id is None) != (request.node_id < 0):
        return False
    return all(_SOFTWARE.fullmatch(each) for each in (request.client_software_name, request.client_software_version))


def unsupported_version() -> ApiVersionsResponse:
    """Returns the answer to an ApiVersions in a version that is not served: the error UNSUPPORTED_VERSION.

    It lists the versions of ApiVersions alone, and is to be encoded in version 0.
    """
    api = all_apis()[API_VERSIONS]
    known = ApiVersionsResponse.ApiVersion(api.key, api.versions[0], api.versions[-1])
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(known,))


def for_version(response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    """Returns the response without what readers of `version` refuse: before 4, a feature with lowest level 0."""
    if version >= _OMITS_MIN_ZERO:
        return response
    kept = tuple(feature for feature in response.supported_features if feature.min_version)
    return ApiVersionsResponse(
        error_code=response.error_code,
        api_keys=response.api_keys,
        throttle_time_ms=response.throttle_time_ms,
        supported_features=kept,
        finalized_features_epoch=response.finalized_features_epoch,
        finalized_features=response.finalized_features,
        zk_migration_ready=response.zk_migration_ready,
    )


def versions_of(response: ApiVersionsResponse) -> Versions:
    """Returns the versions that a response lists, by API key; an API with an empty range is not served."""
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in response.api_keys}


def usable_version(
    served: Versions, request: type[Message], *, oldest: int | None = None, latest: int | None = None
) -> int:
    """Returns the highest version of `request` that the node (`served`) and the schema have, from `oldest` to `latest`.

    Raises ApiError(UNSUPPORTED_VERSION) if there is none, as Kafka's `NodeApiVersions.latestUsableVersion`.
    """
    api: ApiMessageType = api_of(request)
    first = api.versions[0] if oldest is None else max(oldest, api.versions[0])
    last = api.versions[-1] if latest is None else min(latest, api.versions[-1])
    theirs = served.get(api.key)
    if not theirs:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the node does not support {api.name} (key {api.key})")
    highest = min(last, theirs[-1])
    if highest < max(first, theirs[0]):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the node supports {api.name} in versions {theirs[0]} to {theirs[-1]}; this client needs one of "
            f"{first} to {last}",
        )
    assert highest in theirs, (highest, theirs)
    assert highest in api.versions, (highest, api)
    return highest
