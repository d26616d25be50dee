"""What the chart or a node refuses, with a reason and before anything changes."""

from __future__ import annotations

from typing import Any, Final

from tests.kube.kubectl import Refused
from tests.kube.places import say
from tests.kube.release import CHART, FULL_NAME, Release, install_chart, new_namespace, under_load, uninstall
from tests.kube.shows.existing_secret import IDENTITIES
from tests.kube.waiting import until

NAMESPACE: Final = "kraft-moved"
IDS: Final = (f"{'a' * 21}A", f"{'b' * 21}A")
NO_SECRETS: Final = ",".join(
    ("tls.source=existingSecret", *(f"tls.existingSecrets.{each}=none" for each in IDENTITIES))
)
UPGRADES: Final = {
    "quorum.replica=3": "additional properties 'replica' not allowed",
    "quorum.replicas=4": "at '/quorum/replicas': value must be one of 1, 3, 5, 7",
    "quorum.firstNodeId=10": "the quorum was installed with 0, and its nodes keep their ids",
    f"clusterId={IDS[0]}": "and its volumes keep that id",
    "tls.source=existingSecret": "with tls.source = existingSecret it names a Secret",
    NO_SECRETS: "the namespace kraft has no such Secret",
    "quorum.settings.node\\.id=7": "quorum.settings: the chart sets node.id itself",
}
"""A value that an upgrade sets, and what is said."""
KINDS: Final = "statefulset,deployment,service,configmap,secret,networkpolicy,poddisruptionbudget,job,pvc"


def show(release: Release) -> None:
    """A release that runs stays what it is; a volume of another cluster stays what it is, too."""
    with under_load(release, "refusals"):
        before = _versions(release)
        for setting, why in UPGRADES.items():
            _refused(why, "upgrade", release, setting)
        other = Release(release.cluster, release.kubectl)
        _refused("two releases cannot share a name", "install", other, f"fullnameOverride={FULL_NAME}", name="second")
        if (now := _versions(release)) != before:
            raise SystemExit(f"something has changed: {set(now.items()) ^ set(before.items())}")
        say(f"{len(before)} objects are what they were")
    _volume_of_another_cluster(release)


def _refused(why: str, command: str, release: Release, *settings: str, name: str = "q") -> None:
    values = [part for setting in settings for part in ("--set", setting)]
    more = ["--reuse-values"] if command == "upgrade" else []
    try:
        release.kubectl.helm(command, name, CHART, *more, *values)
    except Refused as error:
        said = " ".join(str(error).split())
        if why not in said:
            raise SystemExit(f"{settings} is refused, but not for {why!r}: {said}") from error
        say(f"{command} with {settings[0]}: {said.partition('Error: ')[2][:160]}")
    else:
        raise SystemExit(f"{command} with {settings} is not refused")


def _versions(release: Release) -> dict[str, str]:
    """The version of each object but the test's pod, as the API server counts changes."""
    items = release.kubectl.get(KINDS)["items"]
    # Their status is written all the time.
    return {f"{each['kind']} {each['metadata']['name']}": _version(each) for each in items}


def _version(each: dict[str, Any]) -> str:
    about = each["metadata"]
    return str(about["generation"] if "generation" in about else about["resourceVersion"])


def _volume_of_another_cluster(release: Release) -> None:
    """One node is installed, goes, and is installed with another cluster's id: its volume is not touched."""
    moved = Release(release.cluster, new_namespace(release.cluster, NAMESPACE))
    one = ("quorum.replicas=1", "placer.replicas=1", "observer.replicas=1")
    install_chart(moved, CHART, *one, f"clusterId={IDS[0]}")
    with under_load(moved, "a quorum of one"):
        pass
    before = moved.users()
    uninstall(moved)
    moved.helm("install", CHART, "--values", moved.directory / "values.json", "--set", f"clusterId={IDS[1]}", *(
        part for setting in one for part in ("--set", setting)
    ))  # fmt: skip
    said = until("a node refuses a volume of another cluster", lambda: _says(moved))
    if IDS[0] not in said or IDS[1] not in said:
        raise SystemExit(f"the node does not name both clusters: {said}")
    say(said)
    uninstall(moved)
    install_chart(moved, CHART, *one, f"clusterId={IDS[0]}")
    if lost := before - moved.users():
        raise SystemExit(f"the volume has lost {sorted(lost)[:10]}")
    say(f"by its own cluster the volume is taken up again, with all {len(before)} users")
    uninstall(moved)
    moved.kubectl("delete", "namespace", NAMESPACE)


def _says(release: Release) -> str:
    """Why the init container has ended; empty as long as it has not."""
    for pod in release.pods("quorum"):
        for status in pod["status"].get("initContainerStatuses", []):
            if status.get("lastState", {}).get("terminated", status["state"].get("terminated", {})).get("exitCode"):
                return release.kubectl("logs", pod["metadata"]["name"], "-c", "format").strip().splitlines()[-1]
    return ""
