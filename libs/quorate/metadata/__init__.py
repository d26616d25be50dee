"""The replicated state machine: the metadata records of the log build the cluster's state (Kafka's MetadataImage).

state, replay            all tables, and the table method that applies each record type
topics, partitions       topics, and the effect of a change on one partition
partition_rows           the partitions of one topic
isr_index                counts of partitions by broker
brokers, controllers     registrations
configs, client_quotas   values that are set on resources and on clients
features, versions       finalized levels, and what each level of metadata.version means
acls, scram, tokens      who may do what, and by which secret
producer_ids             the next block of producer ids
transactions             metadata transactions (KIP-868)
unknown, known, faults   records of unknown type, normalized records, records that contradict the state
past_view, canonical     views at an earlier offset, a hash of the whole state
scram_lost               SCRAM users that a JVM's checkpoint has lost
"""
