"""Write, identify and check the Parquet shards of an embedded corpus.

In: chunks of a corpus, and an `EmbedJob`. Out: one shard per chunk, written atomically. The
text, model and settings of a shard are recorded in its own metadata, so that no second file can
disagree with it; its pages have checksums.
"""

import json
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from elmo.files.remote import StoragePath
from elmo.files.tables import Fields, Record
from elmo.models.identity import vectors_hash
from elmo.text.lines import LineFormat, line_format_of
from elmo.vectors.corpus.chunks import Chunk, read_chunk
from elmo.vectors.embed import Precision, embed_entries, make_entry, no_vectors
from elmo.vectors.files import ParquetFile, completed

RECORD = "elmo"  # the metadata key
FORMAT = 2
LOCK = ".lock"  # hidden, so that readers of the shards skip it
N_READERS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedJob:
    """The settings of a run: the output folder, the model, and how text is read and embedded."""

    out: str
    model: str
    options: str | None
    alignment: Mapping[int, str]  # files of alignment matrices, by layer
    model_sha256: str  # the model's path may differ between machines
    lines: LineFormat
    layers: str
    dtype: Precision
    fields: Fields

    def shard_path(self, chunk: Chunk) -> StoragePath:
        """The path of a chunk's shard."""
        return StoragePath.of(self.out).child(chunk.shard_name)

    def record(self, chunk: Chunk) -> dict[str, Any]:
        """The text, model and settings that a chunk's shard records in its metadata."""
        identity = ("name", "number", "first_line", "n_lines", "first_sentence", "sha256")
        return {
            "format": FORMAT,
            "model_sha256": self.model_sha256,
            "lines": self.lines,
            "layers": self.layers,
            "dtype": self.dtype,
            "chunk": {name: value for name, value in asdict(chunk).items() if name in identity},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A complete shard."""

    name: str
    n_sentences: int
    n_tokens: int
    n_truncated: int  # words that are longer than the model reads
    is_new: bool  # written by this run, not found intact


class ShardWriter:
    """Writes shards; loads the model when the first shard has to be written."""

    def __init__(self, job: EmbedJob) -> None:
        self._job = job

    def write(self, chunk: Chunk) -> Shard:
        """Write the shard of a chunk unless an intact one exists."""
        path = self._job.shard_path(chunk)
        found = read_record(path)
        is_ours = found is not None and is_record_of(found, self._job.record(chunk))
        if found is not None and is_ours and _is_intact(path, found["n_tokens"]):
            return _as_shard(chunk, found, is_new=False)
        records = read_chunk(chunk, self._job.fields)
        with _atomic_write(path) as temporary:
            record = self._embed(chunk, records, temporary)
        return _as_shard(chunk, record, is_new=True)

    @cached_property
    def _elmo(self) -> Elmo:
        opened = Elmo.load(
            self._job.model, options=self._job.options, alignment=self._job.alignment
        )
        if vectors_hash(opened.model) != self._job.model_sha256:
            raise CheckpointError(
                f"{self._job.model}: not the model that this run was started with; expected the "
                "same model on every machine"
            )
        return opened

    def _embed(self, chunk: Chunk, records: list[Record], path: Path) -> dict[str, Any]:
        n_sentences = n_tokens = n_truncated = 0
        entries = (
            make_entry(record, number, line_format_of([Path(chunk.name)], self._job.lines))
            for number, record in enumerate(records, chunk.first_line)
        )
        file = ParquetFile(path, file=chunk.name, first_sentence=chunk.first_sentence)
        file.has_ids = self._job.fields.has_ids(Path(chunk.name))
        file.no_vectors = no_vectors(self._elmo, self._job.layers).astype(self._job.dtype)
        with completed(file), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # truncated words are reported once, at the end
            for entry, vectors in embed_entries(self._elmo, entries, self._job.layers):
                file.add(entry, vectors.astype(self._job.dtype))
                n_sentences += len(entry.sentences)
                n_tokens += len(entry.tokens)
                n_truncated += self._elmo.bilm.word_encoder.count_truncated(entry.tokens)
            record = self._job.record(chunk) | {
                "n_sentences": n_sentences,
                "n_tokens": n_tokens,
                "n_truncated": n_truncated,
                "version": elmo.__version__,
            }
            file.add_metadata(RECORD, json.dumps(record))
        return record


def read_record(path: StoragePath) -> dict[str, Any] | None:
    """The record in a shard's metadata; None if there is no complete shard."""
    with needs_extra("parquet"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with path.filesystem.open(path.path, "rb") as file:
            metadata = parquet.ParquetFile(file).metadata.metadata or {}
        record = json.loads(metadata.get(RECORD.encode(), b"null"))
    except (OSError, pa.ArrowException, ValueError):
        return None
    return record if isinstance(record, dict) else None


def is_record_of(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a shard was built from the expected text, with the expected model and settings."""
    return all(found.get(name) == value for name, value in expected.items())


def check_separate(corpus: StoragePath, out: StoragePath) -> None:
    """Raise a ConfigError if the output is a file, or is inside the corpus or around it."""
    if corpus.contains(out) or out.contains(corpus):
        raise ConfigError(
            f"{out.address}: inside the corpus or around it; expected a separate folder, because "
            "shards would be read as text"
        )
    if out.filesystem.isfile(out.path):
        raise ConfigError(f"{out.address}: a file; expected a folder for the shards")


@contextmanager
def exclusive_output(out: StoragePath) -> Iterator[None]:
    """Lock the output folder against other runs; remote storage is not locked."""
    if not out.is_local:
        yield
        return
    folder = Path(out.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = set(os.listdir(folder))
    except OSError as error:
        raise WriteError(f"{folder}: cannot be written ({error.strerror})") from error
    with exclusive(folder / LOCK):
        recover(folder)
        try:
            yield
        finally:
            recover(folder)  # remove what killed workers left
            if set(os.listdir(folder)) - before == {LOCK}:  # nothing was written
                with suppress(PermissionError):  # Windows does not remove an open file
                    (folder / LOCK).unlink()
                    if not before:
                        folder.rmdir()


def find_finished(out: StoragePath, chunks: Sequence[Chunk], job: EmbedJob) -> set[str]:
    """The names of the complete shards, according to their metadata; workers check their content.

    Raises ConfigError for a shard of another corpus, model or other settings.
    """
    by_name = {chunk.shard_name: chunk for chunk in chunks}
    files = out.files() if out.filesystem.isdir(out.path) else {}
    found = {name: path for name, path in files.items() if name.endswith(".parquet")}
    finished = set()
    # In parallel, because of the latency of remote storage.
    with ThreadPoolExecutor(N_READERS) as readers:
        for name, record in zip(found, readers.map(read_record, found.values()), strict=True):
            if name not in by_name:
                raise ConfigError(
                    f"{found[name].address}: not a shard of this corpus; expected a folder with "
                    "its own shards only"
                )
            if record is not None:  # else it is incomplete, and is written again
                _check_record(found[name], record, job.record(by_name[name]))
                finished.add(name)
    return finished


def _check_record(path: StoragePath, found: dict[str, Any], expected: dict[str, Any]) -> None:
    if is_record_of(found, expected):
        return
    names = {"chunk": "text", "model_sha256": "model", "lines": "format of lines"}
    other = next(name for name, value in expected.items() if found.get(name) != value)
    raise ConfigError(
        f"{path.address}: made with another {names.get(other, other)} "
        f"({_short(found.get(other))} there, {_short(expected[other])} here); expected shards of "
        "one corpus, model and settings"
    )


def _short(value: object) -> str:
    return str(value.get("sha256") if isinstance(value, dict) else value)[:12]


def _is_intact(path: StoragePath, n_rows: int) -> bool:
    """Whether a shard can be read to its end, with correct checksums, and has all rows."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.filesystem.open(path.path, "rb") as file:
            shard = parquet.ParquetFile(file, page_checksum_verification=True)
            return bool(sum(batch.num_rows for batch in shard.iter_batches()) == n_rows)
    except (OSError, pa.ArrowException):
        return False


def _as_shard(chunk: Chunk, record: dict[str, Any], *, is_new: bool) -> Shard:
    return Shard(
        name=chunk.shard_name,
        n_sentences=record["n_sentences"],
        n_tokens=record["n_tokens"],
        n_truncated=record["n_truncated"],
        is_new=is_new,
    )


@contextmanager
def _atomic_write(path: StoragePath) -> Iterator[Path]:
    """Yield a local path to write a shard to, which is moved to `path` when it is complete."""
    folder, _, name = path.path.rpartition("/")
    try:
        if path.is_local:
            os.makedirs(folder, exist_ok=True)
            with atomic_write(Path(path.path), durable=True) as temporary:
                yield temporary
            return
        with TemporaryDirectory() as local:
            yield Path(local) / name
            uploaded = f"{folder}/.{name}.{uuid.uuid4().hex[:12]}.tmp"
            path.filesystem.makedirs(folder, exist_ok=True)
            path.filesystem.put_file(str(Path(local) / name), uploaded)
            path.filesystem.mv(uploaded, path.path)
    except OSError as error:
        raise WriteError(f"{path.address}: cannot be written ({error})") from error
