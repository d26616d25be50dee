"""Authorizer: the decision of Kafka's StandardAuthorizer over the ACL entries in the metadata log. KIP-11, KIP-801.

standard   the decision
hosts      which client addresses an entry's host matches: one address, a network, any

>>> from quorate.metadata.acls import AclOperation, Acls, ResourceType
>>> from quorate.nouns import ZERO_UUID, Principal
>>> from quorate.records import AccessControlEntryRecord
>>> from quorate.timeline import SnapshotRegistry
>>> acls = Acls(SnapshotRegistry())
>>> acls.add(AccessControlEntryRecord(ZERO_UUID, 2, "orders", 4, "User:alice", "*", 3, 3), 0)  # ALLOW READ on orders*
>>> authorizer = StandardAuthorizer(super_users=frozenset({"User:admin"}))
>>> alice = Requester(principal=Principal("User", "alice"), host="10.1.2.3")
>>> orders = AclResource(ResourceType.TOPIC, "orders-eu")
>>> [authorizer.allows(acls, alice, each, orders) for each in (AclOperation.DESCRIBE, AclOperation.WRITE)]
[True, False]
"""

from quorate.authorizer.hosts import covers, fault_of_host, host_address, is_network
from quorate.authorizer.standard import (
    CLUSTER,
    CLUSTER_NAME,
    STANDARD_AUTHORIZER,
    AclResource,
    DefaultRule,
    Requester,
    Ruling,
    StandardAuthorizer,
)

__all__ = [
    "CLUSTER",
    "CLUSTER_NAME",
    "STANDARD_AUTHORIZER",
    "AclResource",
    "DefaultRule",
    "Requester",
    "Ruling",
    "StandardAuthorizer",
    "covers",
    "fault_of_host",
    "host_address",
    "is_network",
]
