"""`python -m quorate.cli`: runs the `quorate` command without its installed script."""

from __future__ import annotations

import sys

from quorate.cli import main

sys.exit(main())
