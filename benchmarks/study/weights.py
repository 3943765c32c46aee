"""Earlier versions of the package's English model, from the history of this repository.

In: a commit. Out: a model folder. A shallow clone has none of them.
"""

import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from elmo.errors import CheckpointError

REPOSITORY = Path(__file__).parent.parent.parent
MODEL = "src/elmo/models/english"


def find_weights(commit: str, folder: Path, repository: Path = REPOSITORY) -> Path:
    """The model of a commit, in a folder of that name, which is created if it does not exist."""
    found = folder / commit
    if found.exists():
        return found
    archive = ["git", "-C", str(repository), "archive", "--format=tar", commit, MODEL]
    ran = subprocess.run(archive, capture_output=True, check=False)
    if ran.returncode:
        raise CheckpointError(
            f"{repository}: no {MODEL} at {commit}, expected a clone with the full history"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder) as unfinished,
        tarfile.open(fileobj=io.BytesIO(ran.stdout)) as files,
    ):
        files.extractall(unfinished, filter="data")
        os.replace(Path(unfinished) / MODEL, found)
    return found
