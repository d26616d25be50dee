"""The broker service: stores, replicates and serves the partitions that the metadata log gives it.

driver          from registration to the stop
first_start     formats new log directories
in_sync         whether a rollout may go on: all replicas here are in their ISRs
lifecycle       registration, heartbeats, controlled shutdown (KIP-631)
news            what the metadata log may have changed
partitions      partitions are made, given up, and given their roles
table           the partitions of this broker
store           their directories, and the checkpoints of a log directory
directories     the log directories: whose they are, and the marks of clean stops (KIP-858, KIP-966)
replicas        the inputs and effects of `quorate.replication`, and the requests that wait
fetcher         follows leaders
control_plane   the settings of what is above: services of ours, or controllers of Kafka's
controllers     what is asked of controllers; by gRPC those of ours
kafka_controllers  the same of Kafka's, over Kafka's wire
controller_connection  one connection to who answers for the active controller
isr_changes     AlterPartition
placements      AssignReplicasToDirs
moves           AlterReplicaLogDirs (KIP-113)
future_replica  the copy of a replica that moves
wire            Kafka's protocol at its listeners
produce, fetch  the APIs of records
produce_lines   the order of appends, while batches are read in turns
fetch_sessions  what readers need not say again (KIP-227); fetch_session: one; fetching_session: a follower's end of one
resting         partitions without news, which a fetch of a session need not look at
awaited         followers that have not fetched yet what is led here now
verification    whether a batch of a transaction may be appended (KIP-890)
transaction_coordinators  AddPartitionsToTxn, as a leader asks it
transaction_markers  WriteTxnMarkers
producer_ids    InitProducerId
callers         who asks, and what they may do
logins          SCRAM and delegation tokens, by what is applied
peers           connections to other brokers, to gateways and to controllers of Kafka's
coordinators    FindCoordinator
deletion        DeleteRecords
reads           DescribeCluster, DescribeTopicPartitions, DescribeConfigs
access_reads    DescribeAcls, DescribeClientQuotas, DescribeUserScramCredentials, DescribeDelegationToken
forwarding      what controllers answer (KIP-590)
descriptions    DescribeLogDirs, DescribeProducers, ListTransactions
offsets         ListOffsets, OffsetForLeaderEpoch
cluster         Metadata, and who leads what where
grpc_service    records by gRPC
tracing         the spans of a produced record
metrics         the metrics, each with its Kafka name; traffic: what has come and gone
topic_settings  a topic's configs, for its logs
upkeep          what is done by the clock
threads         work for which the loop has no time
config          the settings; listener_config: those of the listeners
"""
