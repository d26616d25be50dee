"""Partition changes: every change of a partition is made here, by one builder.

partition_change   at most one PartitionChangeRecord from a registration, a target and rules
soundness          what is true of a partition unless another program wrote it
elections          preferred, clean and unclean leader elections
broker_changes     what follows when a broker is fenced, unfenced or restarts
chunked_change     the same for very many partitions, in chunks
new_partitions     checks replicas of new partitions, and makes their records
"""
