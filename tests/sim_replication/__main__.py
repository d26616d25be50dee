"""`python -m tests.sim_replication soak | replay | mutants`."""

from __future__ import annotations

from tests.seeds.command import Simulator, main
from tests.seeds.outcome import Outcome
from tests.sim_replication.mutants import MUTANTS, kill
from tests.sim_replication.runner import PROFILES, run
from tests.sim_replication.world import FAULTS


def replay(seed: int, profile: str | None, last: int | None) -> tuple[str, Outcome]:
    """The last lines of a seed's story: registrations in the metadata log, and the brokers' logs."""
    outcome = run(seed, profile)
    lines = outcome.story.splitlines()
    return "\n".join(lines[-last:] if last else lines), outcome


if __name__ == "__main__":
    raise SystemExit(
        main(
            Simulator(
                name="tests.sim_replication",
                run=run,
                replay=replay,
                profiles=PROFILES,
                rows=FAULTS,
                mutants=MUTANTS,
                kill=kill,
                seeds=1_000,
                chunk=25,
                limit=100,
            )
        )
    )
