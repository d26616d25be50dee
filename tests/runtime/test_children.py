"""gRPC's handlers of forks are off: with them some children of a process with a busy server die before they begin.

An observer starts a child for each question in SQL.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SETTING = "GRPC_ENABLE_FORK_SUPPORT"


@pytest.mark.parametrize("given", [{}, {SETTING: "1"}], ids=str)
def test_no_handler_of_grpcs_runs_in_a_fork_whatever_the_environment_says(given: dict[str, str]) -> None:
    program = f"import quorate.runtime, os; print(os.environ[{SETTING!r}])"
    environment = {name: value for name, value in os.environ.items() if name != SETTING} | given
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert "0\n" == ran.stdout
