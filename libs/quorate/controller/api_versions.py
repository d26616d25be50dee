"""ApiVersions (18): the APIs that a controller serves, and its supported and finalized features. KIP-584."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraft.api.api_versions import ApiVersionsResponse
from quorate.metadata.features import KRAFT_VERSION, Features, supported_features

__all__ = ["api_versions"]

_Finalized = ApiVersionsResponse.FinalizedFeatureKey
_Supported = ApiVersionsResponse.SupportedFeatureKey


def api_versions(
    features: Features, *, kraft_version: int, served: Iterable[ApiVersionsResponse.ApiVersion]
) -> ApiVersionsResponse:
    """Builds the response from the `served` APIs, the committed `features` and the quorum's finalized kraft.version.

    Before a metadata.version is finalized no feature is listed as finalized, and the epoch is -1, as in Kafka's
    FeaturesPublisher. A kraft.version of 0 is not listed as finalized either.
    """
    is_known = features.metadata_version is not None
    return ApiVersionsResponse(
        api_keys=tuple(served),
        supported_features=tuple(
            _Supported(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in sorted(supported_features().items())
        ),
        finalized_features_epoch=features.epoch if is_known else -1,
        finalized_features=tuple(_finalized(features, kraft_version)) if is_known else (),
    )


def _finalized(features: Features, kraft_version: int) -> Iterator[_Finalized]:
    levels = features.finalized() | ({KRAFT_VERSION: kraft_version} if kraft_version else {})
    for name, level in sorted(levels.items()):
        yield _Finalized(name=name, max_version_level=level, min_version_level=level)
