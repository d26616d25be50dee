"""Stands in for a Kubernetes API server that helm asks what a namespace has: discovery, and objects by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.deploy.chart import NEWEST, Json

KINDS: Final = {
    "v1": {
        "ConfigMap": "configmaps",
        "PersistentVolumeClaim": "persistentvolumeclaims",
        "Pod": "pods",
        "Secret": "secrets",
        "Service": "services",
        "ServiceAccount": "serviceaccounts",
    },
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "batch/v1": {"CronJob": "cronjobs", "Job": "jobs"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}
"""The kinds that it knows, and their names in its paths."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One that runs: its URL, and the method and path of each request that would have changed something."""

    url: str
    changes: list[str] = field(default_factory=list)


@contextmanager
def api_server(objects: Sequence[Json] = ()) -> Iterator[ApiServer]:
    """One that has these objects, and nothing else; it refuses every change, and notes it."""
    found = {_path(each): each for each in objects}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer = _discovery(path) or found.get(path) or _list(path)
            if answer is None:
                self.answer(HTTPStatus.NOT_FOUND, _status("NotFound", HTTPStatus.NOT_FOUND))
            else:
                self.answer(HTTPStatus.OK, answer)

        def refuse(self) -> None:
            made.changes.append(f"{self.command} {self.path}")
            self.answer(HTTPStatus.FORBIDDEN, _status("Forbidden", HTTPStatus.FORBIDDEN))

        def answer(self, status: HTTPStatus, content: Json) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    for method in ("POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.refuse)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = ApiServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _status(reason: str, code: HTTPStatus) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": int(code)}


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _path(each: Json) -> str:
    version, about = each["apiVersion"], each["metadata"]
    return f"{_root(version)}/namespaces/{about['namespace']}/{KINDS[version][each['kind']]}/{about['name']}"


def _list(path: str) -> Json | None:
    """The objects of one kind that have the labels of a release of Helm's: none."""
    for version, kinds in KINDS.items():
        for kind, name in kinds.items():
            if path.startswith(f"{_root(version)}/namespaces/") and path.endswith(f"/{name}"):
                return {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": []}
    return None


def _discovery(path: str) -> Json | None:
    major, minor, _ = NEWEST.split(".")
    groups = [version.split("/") for version in KINDS if "/" in version]
    resources = {
        _root(version): [
            {"name": name, "kind": kind, "namespaced": True, "verbs": ["get", "list"]} for kind, name in kinds.items()
        ]
        for version, kinds in KINDS.items()
    }
    if path in resources:
        version = path.removeprefix("/apis/").removeprefix("/api/")
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources[path]}
    answers: dict[str, Json] = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{NEWEST}"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}]}
                for group, version in groups
            ],
        },
    }
    return answers.get(path)
