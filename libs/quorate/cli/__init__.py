"""The `quorate` command: a noun, a verb; text for people, `--json` for programs.

app             the commands and their options; all other modules are imported by the command that needs them
app_sql         the same for those that ask by SQL: `sql`, and a listing for each noun
app_plans       the same for those that say what is wrong, and plan
version         `quorate --version`
failures        errors of a command: one line on stderr, one JSON document, one exit code
printable       escapes text that would control the terminal
node_config     reads a node's server.properties: directories, roles, voters, listeners
formatting      the first files of a node's directories: planned as a whole, then written
scram           makes a SCRAM credential from a password (RFC 5802)
storage         `quorate storage`: format, info, random-uuid
epoch           `quorate storage reset-epoch`: sets a stopped node's epoch to a lower one
reading         opens metadata files read-only
index_entries   the entries of offset and time indexes
record_json     records as JSON, as Kafka's own converters print them
dump            `quorate log dump`: batches and records, one per line
anatomy         names every byte of a batch
explain         `quorate log dump --explain`: prints those bytes with their names
verify          `quorate log verify`: checks all files of a metadata directory
verify_log      checks segments, indexes and leader epochs
as_of           `--as-of`: an offset, or a time that the log turns into one
image_diff      `quorate image diff`: the rows that differ between two states
history         `quorate history`: what each record changed, of a topic, a broker, a user or all there is
observer_call   `--observer`: the first observer that answers
observer_image  a state, by `--observer`: as records, without a replay
observer_sql    `quorate sql --observer`: an observer's database answers
observer_changes  `history` and `image diff` with `--observer`: its database tells, without a replay
what_if         `quorate what-if`: what becomes of the partitions if brokers, racks or log directories go
doctor          `quorate doctor`: what an operator should look at
features_plan   `quorate features plan`: what stands against feature levels, and what clears it
reassign_plan   `quorate reassign plan`: which replicas move if brokers come or go
restart_safe    `quorate restart-safe`: which brokers can be restarted, one after the other
restart_controllers  `quorate restart-safe --controllers`: the same of the quorum's voters
options         options that several commands have
offline         rebuilds the metadata state from the files of a directory
image           `quorate image show`: prints that state as tables
sql             `quorate sql`: one query on that state
image_json      converts that state to one JSON document
lost_scram      finds SCRAM credentials that a checkpoint lacks
live            fetches the committed log of a live quorum
waterfall       draws a trace
pipeline        `quorate pipeline`: runs services.pipeline
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; None for the process's arguments.

    Returns the exit code: 0 done, 1 failed, 2 bad usage, 141 the reader of its output has gone (as after SIGPIPE).
    """
    from quorate.cli.app import app
    from quorate.cli.failures import run

    return run(app, arguments)
