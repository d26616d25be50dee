"""Silver, the history layer: each state with the offsets between which it held.

events       selects the records that count: from one base on, without gaps, aborted or open transactions; none that is
             uncommitted
partitions   builds partition states from records that state only what changes, in Python workers; stated,
             partition_arrays
brokers      builds broker states by window functions
topics       builds topics and configs; the removal of a topic ends its configs
kept         builds all states that one record states completely: features, ACLs, quotas, voters and others
write_path   joins spans and log into one row for each write, from the request to every replica
image        combines all histories into one table: the state as of any offset
progress     records how far each cluster is processed, so that a run rebuilds only clusters with new records
present      the state at the log's end or as of an offset, as gold reads it
validity     the columns from when to when a row held
"""
