"""The biLM fixtures of the tests of tasks."""

from tests.tasks.conftest import bilm_folder, other_bilm_folder

__all__ = ["bilm_folder", "other_bilm_folder"]
