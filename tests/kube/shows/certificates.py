"""New certificates for every service, while writes go on and without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.kube.doors import SERVICES, restarts, shown
from tests.kube.places import say
from tests.kube.release import FULL_NAME, Release, under_load
from tests.kube.waiting import until

RENEWED_S = 400


def show(release: Release) -> None:
    """Helm makes other certificates where the Secrets are gone."""
    with under_load(release, "certificates rotated"), all_renewed(release):
        for service in ("quorum-0", "quorum-1", "quorum-2", *SERVICES[1:], "admin"):
            release.kubectl("delete", "secret", f"{FULL_NAME}-{service}-tls")
        release.upgrade()


@contextmanager
def all_renewed(release: Release) -> Iterator[None]:
    """After the block every door shows another certificate than before, and no container has been started again."""
    before, started = shown(release, *release.certificate()), restarts(release)
    if not all(before.values()):
        raise SystemExit(f"the admin is refused: {before}")
    yield
    until(
        "each door shows another certificate",
        lambda: _all_new(before, shown(release, *release.certificate())),
        patience_s=RENEWED_S,
        every_s=2,
    )
    if restarts(release) != started:
        raise SystemExit(f"containers were started again: {started} became {restarts(release)}")
    say(f"{len(before)} doors have new certificates, and no container was started again")


def _all_new(before: dict[str, str], now: dict[str, str]) -> bool:
    return before.keys() == now.keys() and all(now[door] not in ("", old) for door, old in before.items())
