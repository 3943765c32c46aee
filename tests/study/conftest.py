"""The biLM of the tasks' tests."""

from tests.tasks.conftest import bilm_folder, other_bilm_folder

__all__ = ["bilm_folder", "other_bilm_folder"]
