"""The `quorate` command: a noun, a verb; text for people, `--output` for programs.

app             the commands and their options; all other modules are imported by the command that needs them
app_sql         the same for those that ask by SQL: `sql`, and a listing for each noun
app_nouns       the nouns that can be listed and changed
app_live        the same for those that ask a running cluster: `quorum`, `trace`, `call`
contexts        the file of contexts: which is the current one, and what it has
app_context     `quorate context`: use, list
writes          all writes by noun and verb, and their commands
write           what a row of that table is
write_topics    the rows of topics, leaders, reassignments
write_cluster   the rows of configs, features, members
write_acls      the rows of ACLs
write_users     the rows of quotas, users, tokens
writing         sends one write, or has it tried, and tells its results
given_json      JSON that somebody has written, and why it is none
messages        messages and methods by the protos' descriptors, and where JSON does not fit one
call            `quorate call`: any API of the gRPC services
call_security   TLS, and the login of calls to controllers, by `--command-config`
grpc_call       `--controller`, `--observer`, `--quorum`: a channel to a server of Quorate
grpcurl         `--print-grpcurl`: the line of grpcurl that does the same
controller_call  calls controllers until there is a leader
quorum          `quorate quorum`: voters and observers, and how far each is
controller_quorum  the same of Quorate's controllers, over gRPC
trace           `quorate trace`: the traces that an observer keeps
app_plans       the same for those that say what is wrong, and plan
version         `quorate --version`
documents       what a command tells a program: JSON or YAML
tables          rows for programs: CSV or Arrow
failures        errors of a command: one line on stderr, one document, one exit code
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

    Returns the exit code: 0 done, 1 failed, 2 bad usage, 3 no server or no leader, 141 the reader of its output has
    gone (as after SIGPIPE).
    """
    from quorate.cli.app import app
    from quorate.cli.failures import run

    return run(app, arguments)
