"""The data pipeline: turns metadata logs and checkpoints of many clusters, over years, into tables with Spark."""
