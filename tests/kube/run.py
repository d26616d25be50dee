"""Everything: programs, images, a cluster, the release, what is shown on it, and the teardown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.kube import cluster
from tests.kube.images import build_images
from tests.kube.places import say
from tests.kube.programs import get_programs
from tests.kube.release import Release, install, uninstall
from tests.kube.shows import (
    autoscaling,
    brokers,
    cert_manager,
    certificates,
    collector,
    existing_secret,
    gateway,
    kills,
    lost_volume,
    network_policies,
    observers,
    own_brokers,
    pipeline,
    refusals,
    rolling_restart,
    two_heartbeats,
    upgrade,
    voters,
)

SHOWS: Final[Mapping[str, Callable[[Release], None]]] = {
    "network-policies": network_policies.show,
    "kills": kills.show,
    "lost-volume": lost_volume.show,
    "rolling-restart": rolling_restart.show,
    "observers": observers.show,
    "autoscaling": autoscaling.show,
    "voters": voters.show,
    "certificates": certificates.show,
    "gateway": gateway.show,
    "brokers": brokers.show,
    "two-heartbeats": two_heartbeats.show,
    "own-brokers": own_brokers.show,
    "collector": collector.show,
    "pipeline": pipeline.show,
    "refusals": refusals.show,
    "existing-secret": existing_secret.show,
    "cert-manager": cert_manager.show,
    "upgrade": upgrade.show,
}


def run(names: Sequence[str], *, keep: bool) -> None:
    """Raises SystemExit with what did not hold; the cluster is taken down in any case, unless it is to be kept."""
    if unknown := set(names) - SHOWS.keys():
        raise SystemExit(f"no show is called {', '.join(sorted(unknown))}; there are {', '.join(SHOWS)}")
    chosen = names or list(SHOWS)
    get_programs()
    build_images()
    begun = time.monotonic()
    try:
        release = install(cluster.up())
        say(f"installed; {time.monotonic() - begun:.0f} s since the images")
        print(release.helm("test", "--logs"), flush=True)
        for name in chosen:
            show_begun = time.monotonic()
            say(f"== {name}")
            SHOWS[name](release)
            # Two runs differ by what else the machine had to do.
            load = os.getloadavg()[0]
            say(f"== {name}: {time.monotonic() - show_begun:.0f} s; {load:.0f} wished for {os.cpu_count()} processors")
        uninstall(release)
    finally:
        if not keep:
            cluster.down()
    say(f"done: {', '.join(chosen)}; {time.monotonic() - begun:.0f} s since the images")
