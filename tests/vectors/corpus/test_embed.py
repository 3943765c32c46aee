"""A corpus to shards: the same rows as from single files, despite kills, damage and restarts."""

import logging
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'elmo-torch[parquet]'")

import fsspec
import pyarrow as pa
from pyarrow import parquet

from elmo.errors import CheckpointError, ConfigError, DataError, WriteError
from elmo.files.remote import StoragePath
from elmo.vectors.corpus.embed import embed_corpus
from elmo.vectors.corpus.shards import exclusive_output
from elmo.vectors.corpus.workers import LocalWorkers
from elmo.vectors.embed import embed_file
from tests.conftest import CORPUS
from tests.vectors.corpus.test_chunks import write

LINES = [*CORPUS.splitlines()[:8], "", "Two sentences. In a line."]
SMALL = 4000  # bytes of a shard: some ten lines


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "corpus" / "a.txt", LINES * 6)
    write(tmp_path / "corpus" / "sub" / "b.txt.xz", LINES * 3)
    write(tmp_path / "corpus" / "c.parquet", LINES * 3)
    return tmp_path / "corpus"


def contents(folder):
    """The bytes of every file under a folder, without the lock."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(paths)}


def n_shards(folder):
    """The number of finished shards, while others are being written."""
    walked = os.walk(folder)
    return sum(name.endswith(".parquet") for _, _, names in walked for name in names)


def assert_same_rows(one, other):
    """Check that two folders have the same shards, rows and metadata, and vectors within 1e-5."""
    names = [
        {path.relative_to(folder) for path in folder.rglob("*.parquet")} for folder in (one, other)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        first, second = (parquet.read_table(folder / name) for folder in (one, other))
        assert first.schema.equals(second.schema, check_metadata=True)
        for column in first.column_names:
            if column.startswith("vector"):
                vectors = [table[column].combine_chunks().flatten() for table in (first, second)]
                np.testing.assert_allclose(*vectors, atol=1e-5)
            else:
                assert first[column].equals(second[column])


def joined(folder, name):
    """The shards of a file of the corpus as one table."""
    paths = sorted(folder.glob(f"{name}-*.parquet"))
    assert paths
    return pa.concat_tables([parquet.read_table(path) for path in paths])


@pytest.mark.parametrize("lines", ["sentences", "paragraphs", "tokens"])
def test_the_shards_of_a_file_are_what_embedding_the_file_gives(lines, corpus, official, tmp_path):
    wanted = {"lines": lines, "layers": "0,2", "dtype": "float16"}
    embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL, **wanted)
    embed_file(corpus / "a.txt", tmp_path / "a.parquet", official, **wanted)
    shards = joined(tmp_path / "out", "a.txt")
    assert set(shards["file"].to_pylist()) == {"a.txt"}
    assert len(list((tmp_path / "out").glob("a.txt-*"))) > 3
    alone = parquet.read_table(tmp_path / "a.parquet")
    for name in alone.column_names:
        if name.startswith("vector"):
            assert shards[name].type == alone[name].type
            one, other = (
                np.stack(table[name].to_numpy()).astype(np.float32) for table in (shards, alone)
            )
            np.testing.assert_allclose(one, other, atol=2e-3)
        else:
            assert shards[name].equals(alone[name])


def test_an_address_of_fsspec_is_as_good_as_a_path(corpus, official, tmp_path):
    embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    system = fsspec.filesystem("memory")
    system.put(str(corpus), "/corpus", recursive=True)
    for n_new in (None, 0):
        counts = embed_corpus(
            "memory://corpus", "memory://out/vectors", official, shard_bytes=SMALL
        )
        assert counts.n_new == (counts.n_shards if n_new is None else n_new)
    system.get("/out/vectors", str(tmp_path / "fetched"), recursive=True)
    assert contents(tmp_path / "fetched") == contents(tmp_path / "out")


def test_a_second_run_writes_nothing(corpus, official, tmp_path):
    first = embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    before = written_at(tmp_path / "out")
    second = embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    assert (first.n_new, second.n_new) == (first.n_shards, 0)
    assert (first.n_sentences, first.n_tokens) == (second.n_sentences, second.n_tokens)
    assert before == written_at(tmp_path / "out")


def written_at(folder):
    found = {path: path.stat() for path in folder.rglob("*.parquet")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "gone"])
def test_a_broken_shard_is_found_and_made_again(damage, corpus, official, tmp_path):
    embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    whole = contents(tmp_path / "out")
    victim = tmp_path / "out" / "a.txt-00001.parquet"
    content = bytearray(victim.read_bytes())
    # A byte of some vector: after the small columns, before the file's metadata.
    content[len(content) // 2] ^= 1
    broken = {"flipped": content, "cut": content[:-5], "emptied": b""}
    victim.unlink() if damage == "gone" else victim.write_bytes(broken[damage])
    assert embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL).n_new == 1
    assert contents(tmp_path / "out") == whole


def test_a_run_killed_at_random_loses_nothing_and_writes_nothing_twice(corpus, official, tmp_path):
    embed_corpus(corpus, tmp_path / "whole", official, shard_bytes=600)
    names, out = set(contents(tmp_path / "whole")), tmp_path / "out"
    random.seed(1)
    fork, n_killed = multiprocessing.get_context("fork"), 0
    done: dict[str, bytes] = {}
    while len(done) < len(names):
        process = fork.Process(
            target=embed_corpus, args=(corpus, out, official), kwargs={"shard_bytes": 600}
        )
        process.start()
        # Wait until it has written some more, then for a random time while it writes the next one.
        n_more = len(done) + random.randint(1, len(names) // 6)
        while process.is_alive() and n_shards(out) < n_more:
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        process.kill()
        process.join()
        n_killed += process.exitcode == -signal.SIGKILL
        found = {k: v for k, v in contents(out).items() if k.endswith(".parquet")}
        assert done.items() <= found.items()
        done = found
    assert n_killed >= 3
    assert embed_corpus(corpus, out, official, shard_bytes=600).n_new == 0
    assert contents(out) == done  # leftovers of the killed runs are removed
    assert_same_rows(out, tmp_path / "whole")


RUN = """
import sys
from elmo.vectors.corpus.embed import embed_corpus
from elmo.vectors.corpus.workers import LocalWorkers

if __name__ == "__main__":
    embed_corpus(*sys.argv[1:], shard_bytes=600, workers=LocalWorkers(2))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, to see other processes")
def test_workers_end_with_the_process_that_started_them_and_others_continue(
    corpus, official, tmp_path
):
    (tmp_path / "run.py").write_text(RUN)
    write(corpus / "more.txt", LINES * 25)
    out = tmp_path / "out"
    arguments = [sys.executable, tmp_path / "run.py", corpus, out, official]
    process = subprocess.Popen([str(word) for word in arguments])
    while not n_shards(out) and process.poll() is None:
        time.sleep(0.005)
    workers = [Path(f"/proc/{pid}") for pid in children(process.pid)]
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert len(workers) >= 2
    deadline = time.monotonic() + 20
    while any(worker.exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(worker.exists() for worker in workers)

    two = LocalWorkers(2)
    counts = embed_corpus(corpus, out, official, shard_bytes=600, workers=two)
    assert 0 < counts.n_new < counts.n_shards
    embed_corpus(corpus, tmp_path / "one", official, shard_bytes=600)
    assert_same_rows(out, tmp_path / "one")


def children(pid):
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            found += (thread / "children").read_text().split()
    return [int(child) for child in found]


def test_a_killed_worker_is_reported(corpus, official, tmp_path, monkeypatch):
    write(corpus / "more.txt", LINES * 25)
    killed = []

    def kill_one(bar, n_tokens):
        if not killed:
            killed.append(children(os.getpid())[-1])
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr("tqdm.tqdm.update", kill_one)
    with pytest.raises(DataError, match="a worker process was killed"):
        embed_corpus(corpus, tmp_path / "out", official, shard_bytes=600, workers=LocalWorkers(2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layers": "top"}, "another layers"),
        ({"dtype": "float16"}, "another dtype"),
        ({"lines": "tokens"}, "another format of lines"),
        ({"shard_bytes": 2 * SMALL}, "not a shard of this corpus|another text"),
        ({"model": None}, "another model"),
    ],
)
def test_other_settings_or_another_model_are_refused(changed, message, corpus, elmo, tmp_path):
    elmo.save(tmp_path / "model")
    wanted = {"model": tmp_path / "model", "shard_bytes": SMALL}
    embed_corpus(corpus, tmp_path / "out", **wanted)
    before = contents(tmp_path / "out")
    if "model" in changed:
        next(elmo.bilm.parameters()).data.add_(1e-3)
        elmo.save(tmp_path / "other")
        changed = {"model": tmp_path / "other"}
    with pytest.raises(ConfigError, match=message):
        embed_corpus(corpus, tmp_path / "out", **(wanted | changed))
    assert contents(tmp_path / "out") == before


def test_a_worker_that_finds_another_model_says_so(corpus, official, tmp_path):
    class Elsewhere(LocalWorkers):
        def write(self, job, chunks):
            return super().write(replace(job, model_sha256="other"), chunks)

    with pytest.raises(CheckpointError, match="not the model that this run was started with"):
        embed_corpus(corpus, tmp_path / "out", official, workers=Elsewhere())
    assert not (tmp_path / "out").exists()


def test_a_model_is_known_by_its_weights_not_by_where_it_lies(corpus, elmo, official, tmp_path):
    elmo.save(tmp_path / "converted")
    embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    counts = embed_corpus(corpus, tmp_path / "out", tmp_path / "converted", shard_bytes=SMALL)
    assert counts.n_new == 0


def test_changed_text_and_shards_of_text_that_is_gone_are_refused(corpus, official, tmp_path):
    embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    write(corpus / "a.txt", ["other", *(LINES * 6)[1:]])
    with pytest.raises(ConfigError, match=r"a\.txt-00000\.parquet: made with another text"):
        embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    (corpus / "a.txt").unlink()
    with pytest.raises(ConfigError, match=r"a\.txt-00000\.parquet: not a shard of this corpus"):
        embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)


def test_a_corpus_may_grow(corpus, official, tmp_path):
    before = embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    write(corpus / "aa.txt", ["one more"])
    after = embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    assert (after.n_new, after.n_shards) == (1, before.n_shards + 1)


@pytest.mark.parametrize("out", ["corpus", "corpus/out", ".", "file.txt", "file.txt/out"])
def test_a_place_for_no_shards_is_refused(out, corpus, official, tmp_path):
    (tmp_path / "file.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises((ConfigError, WriteError)):
        embed_corpus(corpus, tmp_path / out, official)
    assert contents(tmp_path) == before


def test_two_runs_do_not_write_to_one_folder(corpus, official, tmp_path):
    with (
        exclusive_output(StoragePath.of(tmp_path / "out")),
        pytest.raises(ConfigError, match="another process"),
    ):
        embed_corpus(corpus, tmp_path / "out", official)


def test_a_lock_that_cannot_be_removed_does_not_hide_the_error(tmp_path, monkeypatch):
    def refuse(path, missing_ok=False):  # as Windows does for a lock that is held
        raise PermissionError(13, "used by another process", str(path))

    def fail():
        with exclusive_output(StoragePath.of(tmp_path / "out")):
            monkeypatch.setattr(Path, "unlink", refuse)
            raise DataError("the reason")

    with pytest.raises(DataError, match="the reason"):
        fail()


def test_disk_use_is_reported_and_a_full_disk_refused_before_anything_is_written(
    corpus, official, tmp_path, monkeypatch, caplog
):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1000))
    with caplog.at_level(logging.INFO), pytest.raises(DataError, match="1 kB free, expected about"):
        embed_corpus(corpus, tmp_path / "out", official)
    assert "3 files to be written as 3 shards: about" in caplog.text
    assert not (tmp_path / "out").exists()


def test_speed_and_the_time_left_are_reported_where_there_is_no_terminal(
    corpus, official, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("elmo.vectors.corpus.embed.LOG_SECONDS", 0)
    with caplog.at_level(logging.INFO):
        counts = embed_corpus(corpus, tmp_path / "out", official, shard_bytes=SMALL)
    told = [line for line in caplog.messages if " tokens/s, " in line]
    assert [line.split(" shards")[0] for line in told] == [
        f"{k} of {counts.n_shards}" for k in range(1, counts.n_shards + 1)
    ]
    assert told[-1].endswith(" 00:00 left")


def test_a_shard_without_words_reports_no_speed(official, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("elmo.vectors.corpus.embed.LOG_SECONDS", 0)
    write(tmp_path / "corpus" / "a.txt", ["", "", "More words."])
    with caplog.at_level(logging.INFO):
        counts = embed_corpus(tmp_path / "corpus", tmp_path / "out", official, shard_bytes=1)
    assert counts.n_shards == 3
    assert len([line for line in caplog.messages if " tokens/s, " in line]) == 1


def test_a_shard_without_words_has_all_columns(official, tmp_path):
    write(tmp_path / "corpus" / "a.txt", ["Words.", "", "", "", "More words."])
    embed_corpus(tmp_path / "corpus", tmp_path / "out", official, shard_bytes=1)
    tables = [parquet.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [len(table) for table in tables] == [2, 0, 0, 0, 3]
    assert all(table.schema.equals(tables[0].schema) for table in tables)
    assert parquet.read_table(tmp_path / "out")["sentence"].to_pylist() == [0, 0, 1, 1, 1]
