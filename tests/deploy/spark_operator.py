"""The shape of what the Kubeflow Spark operator reads, as far as the chart writes it."""

from __future__ import annotations

from typing import Final

POD: Final = {
    "cores": int,
    "memory": str,
    "memoryOverhead": str,
    "serviceAccount": str,
    "instances": int,
    "securityContext": {
        "runAsNonRoot": bool,
        "runAsUser": int,
        "allowPrivilegeEscalation": bool,
        "capabilities": {"drop": [str]},
        "seccompProfile": {"type": str},
    },
    "podSecurityContext": {"fsGroup": int},
    "labels": {str: str},
    "annotations": {str: str},
    "nodeSelector": {str: str},
    "tolerations": [{"key": str, "operator": str, "effect": str}],
    "affinity": {"nodeAffinity": dict},
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
}
APPLICATION: Final = {
    "type": ("Java", "Python", "Scala", "R"),
    "pythonVersion": ("2", "3"),
    "mode": ("cluster", "client"),
    "sparkVersion": str,
    "image": str,
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "imagePullSecrets": [str],
    "mainApplicationFile": str,
    "arguments": [str],
    "restartPolicy": {"type": ("Never", "Always", "OnFailure")},
    "timeToLiveSeconds": int,
    "sparkConf": {str: str},
    "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str, "readOnly": bool}}],
    "driver": POD,
    "executor": POD,
}
SCHEDULED: Final = {
    "schedule": str,
    "timeZone": str,
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "successfulRunHistoryLimit": int,
    "failedRunHistoryLimit": int,
    "template": APPLICATION,
}
"""The parts of sparkoperator.k8s.io/v1beta2 that are used here, off the operator's custom resource definitions."""
