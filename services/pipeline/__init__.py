"""The data pipeline: metadata logs and checkpoints of many clusters, for years, as tables on Spark."""
