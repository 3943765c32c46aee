"""One unit of a corpus to one Parquet shard; and whether a shard that is there is that one.

In: units, and what is wanted of them. Out: a shard each, whole or not there at all. What a shard
was made from stands in its own metadata, so that no second file could disagree with it; its pages
have checksums.
"""

import json
import os
import shutil
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import elmo
from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, WriteError, needs_extra
from elmo.files.atomic import atomic_write, recover
from elmo.files.locks import exclusive
from elmo.files.remote import Place, find_place
from elmo.models.identity import model_hash
from elmo.text.lines import LineFormat
from elmo.vectors.corpus.units import Unit, read_unit
from elmo.vectors.embed import Precision, embed_entries, make_entry, no_vectors
from elmo.vectors.files import ParquetFile

RECORD = "elmo"  # the name of the metadata
FORMAT = 2
LOCK = ".lock"  # hidden, so that readers of the shards leave it out


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is written of every unit, where to, and by which model."""

    out: str
    model: str
    options: str | None
    model_sha256: str  # its path may differ between machines
    lines: LineFormat
    layers: str
    dtype: Precision
    column: str

    def shard(self, unit: Unit) -> Place:
        """Where a unit's shard belongs."""
        return find_place(self.out).child(unit.shard_name)

    def record_of(self, unit: Unit) -> dict[str, Any]:
        """What the shard of a unit says it was made from."""
        made_from = ("name", "number", "first_line", "n_lines", "first_sentence", "sha256")
        return {
            "format": FORMAT,
            "model_sha256": self.model_sha256,
            "lines": self.lines,
            "layers": self.layers,
            "dtype": self.dtype,
            "unit": {name: value for name, value in asdict(unit).items() if name in made_from},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A shard that is whole and in its place."""

    name: str
    n_sentences: int
    n_tokens: int
    n_truncated: int  # words that the model does not read to their end
    is_new: bool  # written now, or found whole


class ShardWriter:
    """Writes shards; opens its model when first one is needed."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def write(self, unit: Unit) -> Shard:
        """The shard of a unit: written now unless it is there and whole."""
        place = self._wanted.shard(unit)
        found = read_record(place)
        is_ours = found is not None and is_record_of(found, self._wanted.record_of(unit))
        if found is not None and is_ours and _is_intact(place, found["n_tokens"]):
            return _as_shard(unit, found, is_new=False)
        return _as_shard(unit, self._write(unit, place), is_new=True)

    @cached_property
    def _elmo(self) -> Elmo:
        opened = Elmo.load(self._wanted.model, options=self._wanted.options)
        if model_hash(opened.bilm) != self._wanted.model_sha256:
            raise CheckpointError(
                f"{self._wanted.model}: another model than the one that this run began with; "
                "expected the same on every machine; copy it there again"
            )
        return opened

    def _write(self, unit: Unit, place: Place) -> dict[str, Any]:
        lines = read_unit(unit, self._wanted.column)
        with _atomic_write(place) as path:
            record = self._embed(unit, lines, path)
        return record

    def _embed(self, unit: Unit, lines: list[str], path: Path) -> dict[str, Any]:
        n_sentences = n_tokens = n_truncated = 0
        entries = (
            make_entry(line, number, self._wanted.lines)
            for number, line in enumerate(lines, unit.first_line)
        )
        file = ParquetFile(path, file=unit.name, first_sentence=unit.first_sentence)
        file.no_vectors = no_vectors(self._elmo, self._wanted.layers).astype(self._wanted.dtype)
        with closing(file), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # long words are told of once, when all is done
            for entry, vectors in embed_entries(self._elmo, entries, self._wanted.layers):
                file.add(entry, vectors.astype(self._wanted.dtype))
                n_sentences += len(entry.sentences)
                n_tokens += len(entry.tokens)
                n_truncated += self._elmo.bilm.word_encoder.count_truncated(entry.tokens)
            record = self._wanted.record_of(unit) | {
                "n_sentences": n_sentences,
                "n_tokens": n_tokens,
                "n_truncated": n_truncated,
                "version": elmo.__version__,
            }
            file.note(RECORD, json.dumps(record))
        return record


def read_record(place: Place) -> dict[str, Any] | None:
    """What a shard says of itself; nothing if there is none, or no whole Parquet file of ours."""
    with needs_extra("parquet"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with place.system.open(place.path, "rb") as file:
            metadata = parquet.ParquetFile(file).metadata.metadata or {}
        record = json.loads(metadata.get(RECORD.encode(), b"null"))
    except (OSError, pa.ArrowException, ValueError):
        return None
    return record if isinstance(record, dict) else None


def is_record_of(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a shard was made from what is wanted, by the model and the settings wanted."""
    return all(found.get(name) == value for name, value in wanted.items())


def _is_intact(place: Place, n_rows: int) -> bool:
    """Read a whole shard against the checksums of its pages."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with place.system.open(place.path, "rb") as file:
            shard = parquet.ParquetFile(file, page_checksum_verification=True)
            return bool(sum(batch.num_rows for batch in shard.iter_batches()) == n_rows)
    except (OSError, pa.ArrowException):
        return False


def _as_shard(unit: Unit, record: dict[str, Any], *, is_new: bool) -> Shard:
    return Shard(
        name=unit.shard_name,
        n_sentences=record["n_sentences"],
        n_tokens=record["n_tokens"],
        n_truncated=record["n_truncated"],
        is_new=is_new,
    )


@contextmanager
def _atomic_write(place: Place) -> Iterator[Path]:
    """A local path to write a shard to, which is moved to its place when it is complete."""
    if place.is_local:
        os.makedirs(os.path.dirname(place.path), exist_ok=True)
        with atomic_write(Path(place.path), durable=True) as temporary:
            yield temporary
        return
    folder, _, name = place.path.rpartition("/")
    try:
        with TemporaryDirectory() as local:
            yield Path(local) / name
            uploaded = f"{folder}/.{name}.{uuid.uuid4().hex[:12]}.tmp"
            place.system.makedirs(folder, exist_ok=True)
            place.system.put_file(str(Path(local) / name), uploaded)
            place.system.mv(uploaded, place.path)
    except OSError as error:
        raise WriteError(f"{place.address}: cannot be written ({error})") from error


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
def exclusive_output(out: Place) -> Iterator[None]:
    """Keep other runs out of the output folder. There is no lock for remote storage."""
    if not out.is_local:
        yield
        return
    folder = Path(out.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: cannot be written ({error.strerror})") from error
    with exclusive(folder / LOCK):
        recover(folder)
        try:
            yield
        finally:
            if [path.name for path in folder.iterdir()] == [LOCK]:
                shutil.rmtree(folder, ignore_errors=True)


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
    names = {"unit": "text", "model_sha256": "model", "lines": "format of lines"}
    other = next(name for name, value in wanted.items() if found.get(name) != value)
    raise ConfigError(
        f"{place.address}: made with another {names.get(other, other)} "
        f"({_short(found.get(other))} there, {_short(wanted[other])} here); expected the shards of "
        "one corpus, model and choice of settings; name another output"
    )


def _short(value: object) -> str:
    return str(value.get("sha256") if isinstance(value, dict) else value)[:12]
