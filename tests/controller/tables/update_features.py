"""UpdateFeatures (57)."""

from __future__ import annotations

from typing import Any

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.update_features import UpgradeType, update_features
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER
from quorate.records import ConfigRecord, FeatureLevelRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Update = UpdateFeaturesRequest.FeatureUpdateKey
OfBroker = BrokerRegistrationRequest.Feature
OfController = ControllerRegistrationRequest.Feature
UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
MV, KRAFT, ELR = "metadata.version", "kraft.version", "eligible.leader.replicas.version"
GROUP, SHARE = "group.version", "share.version"
MIN_ISR = "min.insync.replicas"


def nobody() -> Cluster:
    """Nobody but this controller; metadata.version 4.2-IV1 (29), kraft.version 0, nothing else is on."""
    return Cluster(29)


def with_groups() -> Cluster:
    """The same, group.version is at 1."""
    cluster = nobody()
    cluster.apply([FeatureLevelRecord(GROUP, 1)])
    return cluster


def with_elr() -> Cluster:
    """The same, ELR is on, and min.insync.replicas of all brokers is 1."""
    cluster = Cluster(29, elr=True)
    cluster.apply([ConfigRecord(BROKER, "", MIN_ISR, "1")])
    return cluster


def before_elr() -> Cluster:
    """Nobody but this controller; metadata.version 4.0-IV0 (22)."""
    return Cluster(22)


def old_broker() -> Cluster:
    """Broker 7 is fenced, supports metadata.version 7 to 29, group.version 0 to 1; at 29."""
    cluster = nobody()
    cluster.register(7, features=(OfBroker(MV, 7, 29), OfBroker(KRAFT, 0, 1), OfBroker(GROUP, 0, 1)))
    return cluster


def old_controller() -> Cluster:
    """Controller 3001 supports metadata.version 7 to 29, group.version 0 to 1; at 29."""
    cluster = nobody()
    listeners = (ControllerRegistrationRequest.Listener("CONTROLLER", "c", 9093, 0),)
    features = (OfController(MV, 7, 29), OfController(GROUP, 0, 1))
    cluster.write(
        register_controller(ControllerRegistrationRequest(3001, uuid(1), listeners=listeners, features=features))
    )
    return cluster


def brokers_differ() -> Cluster:
    """min.insync.replicas is 2 for broker 3, 1 for broker 4, not set for broker 5 and for all; at 29."""
    cluster = nobody()
    cluster.apply(
        [
            ConfigRecord(BROKER, "3", MIN_ISR, "2"),
            ConfigRecord(BROKER, "3", "num.io.threads", "9"),
            ConfigRecord(BROKER, "4", MIN_ISR, "1"),
            ConfigRecord(BROKER, "5", "num.io.threads", "9"),
        ]
    )
    return cluster


def all_brokers_have_it() -> Cluster:
    """min.insync.replicas is 2 for all brokers, 3 for broker 3; at 29."""
    cluster = nobody()
    cluster.apply([ConfigRecord(BROKER, "", MIN_ISR, "2"), ConfigRecord(BROKER, "3", MIN_ISR, "3")])
    return cluster


def in_the_file() -> Cluster:
    """min.insync.replicas is 2 in the controllers' file; at 29."""
    return Cluster(29, settings=ControllerSettings(static_configs={MIN_ISR: "2"}))


def asked(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    keys = tuple(Update(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates)
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


def before_registrations() -> Cluster:
    """Nobody but this controller; metadata.version 3.6-IV2 (14)."""
    return Cluster(14)


def command(
    cluster: Cluster, request: UpdateFeaturesRequest, kraft_version: int = 0, voters: tuple[int, ...] = ()
) -> Command[Any]:
    return update_features(request, kraft_version=kraft_version, voters=voters, settings=cluster.settings)


DONE = UpdateFeaturesResponse(error_message=None)
REFUSED = ErrorCode.INVALID_UPDATE_VERSION
UPDATE = "FeatureControlManager.updateFeature"
ALL = "FeatureControlManager.updateFeatures"
LEVEL = "FeatureControlManager.updateMetadataVersion"
SUPPORTED = "FeatureControlManager.reasonNotSupported"
SAFETY = "ConfigurationControlManager.maybeGenerateElrSafetyRecords"
NEEDS = "Feature.validateVersion: what it needs is on, or comes with it (KIP-1022)."

TABLE = Table(
    api="UpdateFeatures",
    kafka="FeatureControlManager.updateFeatures, ConfigurationControlManager.updateFeatures (KIP-584, 778, 1022)",
    command=command,
    given=nobody,
    rows=(
        Row(
            case="metadata.version up",
            rule=f"{LEVEL} (KIP-778).",
            request=asked((MV, 30, UP)),
            records=(FeatureLevelRecord(MV, 30),),
            answer=DONE,
        ),
        Row(
            case="metadata.version down, where nothing is lost",
            rule=f"{LEVEL}: MetadataVersion.checkIfMetadataChanged between the two (KIP-778).",
            request=asked((MV, 25, SAFE)),
            records=(FeatureLevelRecord(MV, 25),),
            answer=DONE,
        ),
        Row(
            case="metadata.version down, where something would be lost",
            rule=f"{LEVEL}: a safe downgrade loses nothing (KIP-778).",
            request=asked((MV, 22, SAFE)),
            answer=REFUSED,
        ),
        Row(
            case="metadata.version down unsafely, where something would be lost",
            rule=f"{LEVEL}: nobody has written how (KIP-778).",
            request=asked((MV, 22, UNSAFE)),
            answer=REFUSED,
        ),
        Row(
            case="metadata.version down unsafely, where nothing is lost",
            rule=f"{LEVEL}: MetadataVersion.checkIfMetadataChanged between the two (KIP-778).",
            request=asked((MV, 25, UNSAFE)),
            records=(FeatureLevelRecord(MV, 25),),
            answer=DONE,
        ),
        Row(
            case="a feature that nobody knows, off",
            rule="Feature.featureFromName: there is none of that name (KIP-1022).",
            request=asked(("group.versoin", 0, SAFE)),
            answer=REFUSED,
        ),
        Row(
            case="metadata.version as it is",
            rule=f"{LEVEL}: Kafka writes the record again; here nothing is written.",
            request=asked((MV, 29, UP)),
            answer=DONE,
        ),
        Row(
            case="metadata.version off",
            rule="QuorumFeatures.reasonNotLocallySupported: from the oldest level on that there is (KIP-778).",
            request=asked((MV, 0, SAFE)),
            answer=REFUSED,
        ),
        Row(
            case="metadata.version beyond the latest",
            rule="QuorumFeatures.reasonNotLocallySupported: up to the latest level that there is.",
            request=asked((MV, 99, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a feature on",
            rule=f"{UPDATE} (KIP-584).",
            request=asked((GROUP, 1, UP)),
            records=(FeatureLevelRecord(GROUP, 1),),
            answer=DONE,
        ),
        Row(
            case="a feature up by two levels",
            rule=f"{UPDATE}: none is passed over by that (KIP-584).",
            request=asked(("transaction.version", 2, UP)),
            records=(FeatureLevelRecord("transaction.version", 2),),
            answer=DONE,
        ),
        Row(
            case="a feature off",
            rule=f"{UPDATE}: level 0 is off (KIP-584).",
            given=with_groups,
            request=asked((GROUP, 0, SAFE)),
            records=(FeatureLevelRecord(GROUP, 0),),
            answer=DONE,
        ),
        Row(
            case="a feature off, unsafely",
            rule=f"{UPDATE}: only of metadata.version is an unsafe downgrade not supported.",
            given=with_groups,
            request=asked((GROUP, 0, UNSAFE)),
            records=(FeatureLevelRecord(GROUP, 0),),
            answer=DONE,
        ),
        Row(
            case="a feature off, as an upgrade",
            rule=f"{UPDATE}: an upgrade lowers nothing (KIP-778).",
            given=with_groups,
            request=asked((GROUP, 0, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a feature on, as a downgrade",
            rule=f"{UPDATE}: a downgrade raises nothing (KIP-778).",
            request=asked((GROUP, 1, SAFE)),
            answer=REFUSED,
        ),
        Row(
            case="a feature below 0",
            rule=f"{UPDATE}: a level is 0 or above.",
            request=asked((GROUP, -1, SAFE)),
            answer=REFUSED,
        ),
        Row(
            case="no kind of change",
            rule=f"{UPDATE}: UpgradeType.UNKNOWN (KIP-778).",
            request=asked((GROUP, 1, 0)),
            answer=REFUSED,
        ),
        Row(
            case="a kind of change that there is not",
            rule=f"{UPDATE}: UpgradeType.UNKNOWN (KIP-778).",
            request=asked((GROUP, 1, 4)),
            answer=REFUSED,
        ),
        Row(
            case="a feature that there is not",
            rule="QuorumFeatures.reasonNotLocallySupported: what is not known is supported at 0 only.",
            request=asked(("group.versoin", 1, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a broker does not support the level",
            rule=f"{SUPPORTED}: every broker that is registered, fenced or not (KIP-584).",
            given=old_broker,
            request=asked((MV, 30, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a broker does not know the feature",
            rule=f"{SUPPORTED}: what it does not name it supports at 0 only (KIP-584).",
            given=old_broker,
            request=asked((SHARE, 1, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a broker supports the level",
            rule=f"{SUPPORTED} (KIP-584).",
            given=old_broker,
            request=asked((GROUP, 1, UP)),
            records=(FeatureLevelRecord(GROUP, 1),),
            answer=DONE,
        ),
        Row(
            case="a controller does not support the level",
            rule=f"{SUPPORTED}: and every controller (KIP-919).",
            given=old_controller,
            request=asked((MV, 30, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a controller does not know the feature",
            rule=f"{SUPPORTED}: what it does not name it supports at 0 only (KIP-919).",
            given=old_controller,
            request=asked((SHARE, 1, UP)),
            answer=REFUSED,
        ),
        Row(
            case="a voter's controller has not registered",
            rule=f"{SUPPORTED}: who has not said what it supports may not support it (KIP-919).",
            given=old_controller,
            request=asked((GROUP, 1, UP)),
            beside={"voters": (3001, 3002)},
            answer=REFUSED,
        ),
        Row(
            case="a voter's controller has not registered, and a feature is to be off",
            rule=f"{SUPPORTED}: asked of every level, 0 too (KIP-919).",
            given=with_groups,
            request=asked((GROUP, 0, SAFE)),
            beside={"voters": (3002,)},
            answer=REFUSED,
        ),
        Row(
            case="every voter's controller has registered and supports it",
            rule=f"{SUPPORTED} (KIP-919).",
            given=old_controller,
            request=asked((GROUP, 1, UP)),
            beside={"voters": (3001,)},
            records=(FeatureLevelRecord(GROUP, 1),),
            answer=DONE,
        ),
        Row(
            case="no controller can have registered",
            rule=f"{SUPPORTED}: MetadataVersion.isControllerRegistrationSupported, from 3.7-IV0 on (KIP-919).",
            given=before_registrations,
            request=asked((MV, 15, UP)),
            beside={"voters": (3001, 3002)},
            records=(FeatureLevelRecord(MV, 15),),
            answer=DONE,
        ),
        Row(
            case="two at once",
            rule=f"{ALL}: one write; Kafka's order is that of a hash table, here the request's.",
            request=asked((SHARE, 1, UP), (MV, 30, UP)),
            records=(FeatureLevelRecord(SHARE, 1), FeatureLevelRecord(MV, 30)),
            answer=DONE,
        ),
        Row(
            case="one that can be and one that cannot",
            rule=f"{ALL}: all or nothing (KIP-1022).",
            request=asked((GROUP, 1, UP), (MV, 99, UP)),
            answer=REFUSED,
        ),
        Row(
            case="one as it is and one that cannot be",
            rule=f"{ALL}: all or nothing (KIP-1022).",
            request=asked((MV, 29, UP), (GROUP, 9, UP)),
            answer=REFUSED,
        ),
        Row(
            case="nothing",
            rule=f"{ALL}: nothing to be done is done.",
            request=asked(),
            answer=DONE,
        ),
        Row(
            case="only to be validated",
            rule=f"{ALL}: validateOnly drops the records (KIP-584).",
            request=asked((GROUP, 1, UP), (ELR, 1, UP), validate_only=True),
            answer=DONE,
        ),
        Row(
            case="only to be validated, and it cannot be",
            rule=f"{ALL}: looked at all the same (KIP-584).",
            request=asked((GROUP, 9, UP), validate_only=True),
            answer=REFUSED,
        ),
        Row(
            case="one that needs a metadata.version above this",
            rule=NEEDS,
            given=before_elr,
            request=asked((ELR, 1, UP)),
            answer=REFUSED,
        ),
        Row(
            case="one that needs a metadata.version which comes with it",
            rule=NEEDS,
            given=before_elr,
            request=asked((MV, 23, UP), (ELR, 1, UP)),
            records=(
                FeatureLevelRecord(MV, 23),
                ConfigRecord(BROKER, "", MIN_ISR, "1"),
                FeatureLevelRecord(ELR, 1),
            ),
            answer=DONE,
        ),
        Row(
            case="ELR on",
            rule=f"{SAFETY}: first what all brokers have to agree on is set for all (KIP-966).",
            request=asked((ELR, 1, UP)),
            records=(ConfigRecord(BROKER, "", MIN_ISR, "1"), FeatureLevelRecord(ELR, 1)),
            answer=DONE,
        ),
        Row(
            case="ELR on, brokers have their own least in-sync replicas",
            rule=f"{SAFETY}: and taken from each broker (KIP-966).",
            given=brokers_differ,
            request=asked((ELR, 1, UP)),
            records=(
                ConfigRecord(BROKER, "", MIN_ISR, "1"),
                ConfigRecord(BROKER, "3", MIN_ISR, None),
                ConfigRecord(BROKER, "4", MIN_ISR, None),
                FeatureLevelRecord(ELR, 1),
            ),
            answer=DONE,
        ),
        Row(
            case="ELR on, all brokers have least in-sync replicas",
            rule=f"{SAFETY}: what is set for all stays (KIP-966).",
            given=all_brokers_have_it,
            request=asked((ELR, 1, UP)),
            records=(ConfigRecord(BROKER, "3", MIN_ISR, None), FeatureLevelRecord(ELR, 1)),
            answer=DONE,
        ),
        Row(
            case="ELR on, the file has least in-sync replicas",
            rule=f"{SAFETY}: KafkaConfigSchema.getStaticallyConfiguredMinInsyncReplicas (KIP-966).",
            given=in_the_file,
            request=asked((ELR, 1, UP)),
            records=(ConfigRecord(BROKER, "", MIN_ISR, "2"), FeatureLevelRecord(ELR, 1)),
            answer=DONE,
        ),
        Row(
            case="ELR off",
            rule="ConfigurationControlManager.updateFeatures: the configs stay (KIP-966).",
            given=with_elr,
            request=asked((ELR, 0, SAFE)),
            records=(FeatureLevelRecord(ELR, 0),),
            answer=DONE,
        ),
        Row(
            case="kraft.version up",
            rule=f"{UPDATE}: the quorum writes it, in control records (KIP-853); Kafka adds a NoOpRecord.",
            request=asked((KRAFT, 1, UP)),
            answer=DONE,
        ),
        Row(
            case="kraft.version up, and a feature on",
            rule=f"{UPDATE}: the quorum writes it, in control records (KIP-853).",
            request=asked((KRAFT, 1, UP), (GROUP, 1, UP)),
            records=(FeatureLevelRecord(GROUP, 1),),
            answer=DONE,
        ),
        Row(
            case="kraft.version as it is",
            rule=f"{UPDATE}: a downgrade to the same level is none (KIP-853).",
            request=asked((KRAFT, 1, SAFE)),
            beside={"kraft_version": 1},
            answer=DONE,
        ),
        Row(
            case="kraft.version down",
            rule=f"{UPDATE}: the quorum cannot go back (KIP-853).",
            request=asked((KRAFT, 0, SAFE)),
            beside={"kraft_version": 1},
            answer=REFUSED,
        ),
        Row(
            case="kraft.version beyond the latest",
            rule="QuorumFeatures.reasonNotLocallySupported (KIP-853).",
            request=asked((KRAFT, 2, UP)),
            answer=REFUSED,
        ),
    ),
)
