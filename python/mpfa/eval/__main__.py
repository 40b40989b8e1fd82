"""python -m mpfa.eval: measures, writes results as they come, and a report."""

from __future__ import annotations

import sys

from mpfa.eval.command import main

sys.exit(main())
