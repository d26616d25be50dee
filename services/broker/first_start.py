"""Formats the log directories of a broker before its first start, once: `python -m services.broker.first_start`.

It is for brokers whose volumes are made for them, such as the pods of a StatefulSet: it has the broker's own file, and
the cluster's id. A directory that is formatted is left as it is; one of another cluster or broker is refused.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from quorate.cli.failures import Failed, Misused
from quorate.cli.formatting import FormatOptions, plan, write
from quorate.cli.node_config import NodeConfig
from quorate.errors import Corrupt
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.settings.config import ConfigError, load, setting
from quorate.runtime.settings.setting_types import text
from services.broker.config import FOR_FORMAT, BrokerConfig

__all__ = ["BrokerFirstStartConfig", "format_new"]

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFirstStartConfig(BrokerConfig):
    """The settings of a broker, and what its directories are formatted with."""

    cluster_id: str = setting("cluster.id", text(), "The cluster's id; a formatted directory must have it.")


def format_new(config: BrokerFirstStartConfig) -> int:
    """Formats the log directories without meta.properties; returns how many. Raises ConfigError, Corrupt, OSError."""
    node = NodeConfig(
        path=config.log_dirs[0],
        node_id=config.node_id,
        is_controller=False,
        directories=config.log_dirs,
        has_static_voters=False,
        values={"process.roles": "broker"},
    )
    asked = FormatOptions(cluster_id=config.cluster_id, ignore_formatted=True)
    try:
        found = plan(asked, node)
        write(found, timestamp_ms=time.time_ns() // 1_000_000)
    except Misused as problem:
        raise ConfigError([str(problem)]) from None
    except Failed as problem:
        raise Corrupt(str(problem), path=config.log_dirs[0]) from None
    return sum(not each.is_formatted for each in found.directories)


async def main(_life: ServiceLife) -> None:
    """Formats those of the broker's log directories that are not formatted, as the process's own arguments say.

    Raises ConfigError, HelpAsked, OSError; Corrupt also for a directory of another cluster or broker.
    """
    start_logs(os.environ)
    config = load(BrokerFirstStartConfig, sys.argv[1:], os.environ, others=FOR_FORMAT)
    count = format_new(config)
    log.info("log directories are formatted", new=count, all=len(config.log_dirs), cluster_id=config.cluster_id)


if __name__ == "__main__":
    raise SystemExit(run(main))
