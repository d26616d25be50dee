"""One Raft node: owns the log, votes, replicates, and serves the controller beside it."""
