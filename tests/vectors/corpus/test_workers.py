"""A corpus embedded by a Ray cluster of two workers, started here."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("ray.data", reason="needs Ray Data: pip install 'elmo-torch[ray]'")

import ray

from elmo.errors import ConfigError, ElmoError
from elmo.vectors.corpus.embed import embed_corpus
from elmo.vectors.corpus.workers import LocalWorkers, RayWorkers, check_reachable
from tests.vectors.corpus.test_chunks import write
from tests.vectors.corpus.test_embed import LINES, assert_same_rows, children, n_shards


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error"
    )
    yield
    ray.shutdown()


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "corpus" / "a.txt", LINES * 25)
    write(tmp_path / "corpus" / "sub" / "b.parquet", LINES * 10)
    return tmp_path / "corpus"


def kill_a_worker(out, killed):
    """Kill one of the two actors once there are some shards, and record their number."""
    while n_shards(out) < 3:
        time.sleep(0.002)
    for pid in [pid for raylet in children(os.getpid()) for pid in children(raylet)]:
        with suppress(OSError):  # it has ended meanwhile
            if not killed and b"MapWorker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                killed.append(n_shards(out))


@pytest.mark.usefixtures("cluster")
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, to find the workers")
def test_a_worker_killed_in_the_middle_loses_nothing_and_the_rows_are_those_of_one_machine(
    corpus, official, tmp_path
):
    out, killed = tmp_path / "out", []
    killer = threading.Thread(target=kill_a_worker, args=(out, killed), daemon=True)
    killer.start()
    counts = embed_corpus(
        corpus, f"file://{out}", official, shard_bytes=1000, workers=RayWorkers(n_workers=2)
    )
    assert 3 <= killed[0] < counts.n_shards == counts.n_new
    again = embed_corpus(corpus, out, official, shard_bytes=1000, workers=LocalWorkers())
    assert again.n_new == 0
    embed_corpus(corpus, tmp_path / "one", official, shard_bytes=1000)
    assert_same_rows(out, tmp_path / "one")


@pytest.mark.usefixtures("cluster")
def test_an_error_that_a_user_can_fix_comes_back_from_the_cluster_unchanged(
    corpus, official, tmp_path
):
    (corpus / "bad.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(ElmoError, match=r"bad\.txt:2: not UTF-8"):
        embed_corpus(corpus, tmp_path / "out", official, workers=RayWorkers())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_a_cluster_that_is_not_there_is_refused(address):
    with pytest.raises(ConfigError, match="no Ray cluster can be reached"):
        check_reachable(address)
