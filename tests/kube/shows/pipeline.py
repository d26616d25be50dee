"""The chart's pipeline: its CronJob reads the observers, and makes tables and a page of them."""

from __future__ import annotations

import json
from typing import Final

from tests.kube.images import PIPELINE, build_pipeline
from tests.kube.node import load_images
from tests.kube.places import say
from tests.kube.pods import add_pod
from tests.kube.release import FULL_NAME, Release, under_load
from tests.kube.waiting import until

RUN_S: Final = 1_800
NEVER: Final = "0 0 30 2 *"
"""As a schedule; the show says when."""
QUOTAS: Final = """
import json, pyarrow.dataset
rows = pyarrow.dataset.dataset("/claim/tables/silver/kept_history", partitioning="hive")
quotas = rows.to_table(columns=["key"], filter=pyarrow.dataset.field("kind") == "client_quota")
print(json.dumps(quotas["key"].to_pylist()))
"""


def show(release: Release) -> None:
    """Two runs; each has in its tables every write that was acknowledged before it."""
    name = build_pipeline()
    load_images(release.cluster.nodes[0], name)
    with under_load(release, "the pipeline reads"):
        release.upgrade(
            "pipeline.enabled=true", f"pipeline.schedule={NEVER}", "pipeline.resources.requests.cpu=100m",
            f"pipeline.nodeSelector.kubernetes\\.io/hostname={release.cluster.nodes[0].name}",
        )  # fmt: skip
        for run in ("first", "second"):
            before = release.users()
            _run(release, run)
            _look(release, before)
    release.upgrade("pipeline.enabled=false")


def _run(release: Release, name: str) -> None:
    """As an administrator runs it at once."""
    release.kubectl("create", "job", f"--from=cronjob/{FULL_NAME}-pipeline", name)
    job = until(f"the {name} run has ended", lambda: _ended(release, name), patience_s=RUN_S, every_s=2)
    said = release.kubectl("logs", f"job/{name}")
    if job != "Complete":
        raise SystemExit(f"the {name} run is {job}: {said}")
    for each in said.splitlines()[-5:]:
        say(f"    {each}")


def _ended(release: Release, name: str) -> str:
    """Complete or Failed; empty if neither."""
    conditions = release.kubectl.get("job", name)["status"].get("conditions", [])
    types = {each["type"] for each in conditions if each["status"] == "True"}
    return next((each for each in ("Complete", "Failed") if each in types), "")


def _look(release: Release, users: set[str]) -> None:
    """The tables have the quota of each of these users, and the page the release's cluster."""
    add_pod(release, "reader", {}, service=PIPELINE, claim=f"{FULL_NAME}-lake")
    keys = json.loads(release.kubectl("exec", "reader", "--", "python", "-c", QUOTAS))
    page = release.kubectl("exec", "reader", "--", "cat", "/claim/report.html")
    release.kubectl("delete", "pod", "reader")
    rows = "\n".join(keys)
    lost = {user for user in users if f'"{user}"' not in rows}
    if lost:
        raise SystemExit(f"the tables lack {len(lost)} of {len(users)} users, such as {sorted(lost)[:5]}: {keys[:3]}")
    say(
        f"quotas in the tables: {len(keys)}, among them those of all {len(users)} users; the page has {len(page)} bytes"
    )
