"""`python -m quorate.cli`: the command without its script."""

from __future__ import annotations

import sys

from quorate.cli import main

sys.exit(main())
