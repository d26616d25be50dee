"""A run of pytest, from what each begins with and no bug is in: imported once, by the process that forks the runs.

Nothing of ours may be imported here, nor gRPC, before which `quorate.runtime` sets what its core reads.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import kraft

_OF_KRAFT = [found.name for found in pkgutil.walk_packages(kraft.__path__, "kraft.")]
for _name in ("hypothesis.strategies", "opentelemetry.sdk.trace", *_OF_KRAFT):
    if not _name.endswith("_grpc"):
        importlib.import_module(_name)

if __name__ == "__main__":
    raise SystemExit(pytest.console_main())
