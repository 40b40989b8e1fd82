"""The command `python -m mpfa.bench`."""

import sys

from mpfa.bench.command import main

if __name__ == "__main__":
    sys.exit(main())
