"""Left out where transformers or torch are not installed."""

from __future__ import annotations

import importlib.metadata


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# By the installed packages: a folder of tests could be imported as "transformers".
if not (_is_installed("torch") and _is_installed("transformers")):
    collect_ignore_glob = ["*.py"]
else:
    from eval_support import model_folder, text_file  # noqa: F401  (fixtures)
