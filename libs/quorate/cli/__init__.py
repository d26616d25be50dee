"""The `quorate` command: a noun, a verb; text for people, `--json` for programs.

app             which commands there are; everything else is imported when it is needed
failures        how a command ends that could not do what was asked
node_config     what a server.properties says of directories and voters
formatting      the first files of a directory: planned whole, then written
scram           a password becomes a credential (RFC 5802)
storage         `quorate storage`: format, info, random-uuid
reading         opens metadata files to read, and nothing else
record_json     records as Kafka's own converters print them
dump            `quorate log dump`: batches and records, one a line
anatomy         every byte of a batch, named
explain         the same, drawn
verify          `quorate log verify`: what does not hold in a directory
verify_log      the same for segments and what Kafka derives from them
offline         the state of a directory that nobody has open
image           `quorate image show`: that state as tables
image_json      the same as one JSON document
waterfall       a trace, drawn
pipeline        `quorate pipeline`: hands over to services.pipeline
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; without `arguments` those of the process. 0 done, 1 failed, 2 not understood."""
    from quorate.cli.failures import run

    return run(arguments)
