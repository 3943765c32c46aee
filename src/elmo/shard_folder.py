"""The folder that the shards of a corpus are written to, and what it holds already.

In: the units of a corpus and what is wanted of them. Out: which of their shards are there. A
folder belongs to one corpus, model and choice of settings: anything else is refused, and so is a
second process.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo.corpus_units import Unit
from elmo.errors import ConfigError
from elmo.places import Place
from elmo.vector_shards import UNFINISHED, Wanted, is_record_of, read_record

N_READERS = 16


def check_apart(corpus: Place, out: Place) -> None:
    """Refuse an output that is no folder, or whose shards would be read as the corpus."""
    if corpus.holds(out) or out.holds(corpus):
        raise ConfigError(
            f"{out.address}: lies in the corpus or around it, expected apart from it, as shards "
            "would be read as text; name another output"
        )
    if out.system.isfile(out.path):
        raise ConfigError(
            f"{out.address}: a file, expected a folder for the shards; name another output"
        )


@contextmanager
def claimed(out: Place) -> Iterator[None]:
    """Hold the folder, cleared of what killed writers left. An address elsewhere has no lock."""
    if not out.is_local:
        yield
        return
    try:
        os.makedirs(out.path, exist_ok=True)
        held = os.open(out.path, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"{out.path}: no folder can be made there ({error.strerror}); expected a place for the "
            "shards; name another output"
        ) from error
    try:
        _lock(held, out.path)
        for unfinished in list(Path(out.path).rglob(f"{UNFINISHED}*")):
            shutil.rmtree(unfinished, ignore_errors=True)
        yield
    finally:
        os.close(held)
        with suppress(OSError):  # it holds something, as it should
            os.rmdir(out.path)


def find_finished(out: Place, units: Sequence[Unit], wanted: Wanted) -> set[str]:
    """The names of the shards that are there by what they say; workers see if they are whole."""
    by_name = {unit.shard_name: unit for unit in units}
    files = out.files() if out.system.isdir(out.path) else {}
    found = {name: place for name, place in files.items() if name.endswith(".parquet")}
    finished = set()
    # A store elsewhere takes a moment for each.
    with ThreadPoolExecutor(N_READERS) as readers:
        for name, record in zip(found, readers.map(read_record, found.values()), strict=True):
            if name not in by_name:
                raise ConfigError(
                    f"{found[name].address}: a shard of no file of this corpus; expected only its "
                    "own, as others would be read with them; name another output, or remove it"
                )
            if record is not None:  # else it is half a file, which will be written again
                _check_record(found[name], record, wanted.record_of(by_name[name]))
                finished.add(name)
    return finished


def _check_record(place: Place, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if is_record_of(found, wanted):
        return
    names = {"unit": "text", "model_sha256": "model"}
    other = next(name for name, value in wanted.items() if found.get(name) != value)
    raise ConfigError(
        f"{place.address}: made with another {names.get(other, other)} "
        f"({_short(found.get(other))} there, {_short(wanted[other])} here); expected the shards of "
        "one corpus, model and choice of settings; name another output"
    )


def _short(value: object) -> str:
    return str(value.get("sha256") if isinstance(value, dict) else value)[:12]


def _lock(folder: int, path: str) -> None:
    """Lock an open folder until it is closed, by whatever end this process comes to."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(
            f"{path}: another process is writing shards here; expected to be alone; wait for it, "
            "or name another output"
        ) from error
