"""`python -m mpfa.calibrate`: statistics of a whole model, from a text.

Importing this changes nothing: mpfa.calibrate stays the function that calibrates one layer.
"""

import sys

from mpfa._statistics import calibrate

if __name__ == "__main__":
    from mpfa._calibrate_command import main

    sys.exit(main())

sys.modules[__name__] = calibrate  # what `import mpfa.calibrate` binds to the name
