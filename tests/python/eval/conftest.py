"""Fixtures of these tests."""

from eval_support import model_folder, text_file  # noqa: F401
