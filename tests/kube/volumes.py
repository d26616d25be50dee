"""Persistent volumes: directories of a node, which Kubernetes binds by a storage class that provisions nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

CLASS: Final = "directories"
SIZE: Final = "8Gi"


def storage_class() -> dict[str, Any]:
    """The default one; a volume is chosen when a pod is scheduled, on the pod's node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def volume(name: str, node: str, directory: Path) -> dict[str, Any]:
    """An empty volume on a node; its directory is made."""
    directory.mkdir(parents=True)
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(directory)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def manifest(objects: list[dict[str, Any]]) -> str:
    """As `kubectl apply` reads it."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
