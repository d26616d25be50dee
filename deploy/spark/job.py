"""The pipeline's entry point for spark-submit, which sets the master: `spark-submit deploy/spark/job.py run …`."""

from __future__ import annotations

import sys

from services.pipeline.__main__ import UNDER_SUBMIT, main

if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--master", UNDER_SUBMIT]))
