"""The quorum service: one KRaft node (KIP-595). It keeps the log, votes, replicates, and serves its controller."""
