"""Stands in for a Kubernetes API server that helm asks what a namespace has: discovery, and objects by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.deploy.chart import NEWEST, Json

KINDS: Final = {
    "v1": {"Secret": "secrets", "ServiceAccount": "serviceaccounts", "Pod": "pods"},
    "apps/v1": {"StatefulSet": "statefulsets", "Deployment": "deployments"},
}
"""The kinds that it knows, and their names in its paths."""


@contextmanager
def api_server(objects: Sequence[Json] = ()) -> Iterator[str]:
    """The URL of one that has these objects, and nothing else; it answers reads alone."""
    found = {_path(each): each for each in objects}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer = _discovery(path) or found.get(path)
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(answer or missing).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _path(each: Json) -> str:
    version, about = each["apiVersion"], each["metadata"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    return f"{root}/namespaces/{about['namespace']}/{KINDS[version][each['kind']]}/{about['name']}"


def _discovery(path: str) -> Json | None:
    major, minor, _ = NEWEST.split(".")
    groups = [version for version in KINDS if "/" in version]
    answers: dict[str, Json] = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{NEWEST}"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": each.partition("/")[0], "versions": [{"groupVersion": each, "version": each.partition("/")[2]}]}
            for each in groups
        ]},
        **{(f"/apis/{version}" if "/" in version else f"/api/{version}"): {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
                {"name": name, "kind": kind, "namespaced": True, "verbs": ["get", "list"]}
                for kind, name in kinds.items()
            ],
        } for version, kinds in KINDS.items()},
    }  # fmt: skip
    return answers.get(path)
