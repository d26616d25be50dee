"""A Kafka release: its jars, fetched by Maven, and its nodes and tools as child processes.

release     the jars of the release that a POM names, and the command that runs one of its classes
node        a broker or controller from its format to its end; a command-line tool
"""
