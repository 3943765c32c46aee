"""`elmo embed --ray HOST:PORT`: joins a cluster that `ray start` started here, with a token."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("ray.data", reason="needs Ray Data: pip install 'elmo-torch[ray]'")

from tests.vectors.corpus.test_chunks import write
from tests.vectors.corpus.test_embed import LINES

TOKEN = secrets.token_hex(32)


def environment(home, token=None):
    settings = {"HOME": str(home), "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    settings["ELMO_KERNELS"] = "off"  # nothing is built for this home
    settings["RAY_worker_niceness"] = "0"  # else workers starve on a busy machine
    return os.environ | settings | ({} if token is None else {"RAY_AUTH_TOKEN": token})


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster; all of its processes end with the command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp())  # a short path, because sockets are put there
    ray = Path(sys.executable).with_name("ray")
    words = [ray, "start", "--head", "--block", "--port", port, "--num-cpus", 2]
    words += ["--include-dashboard", "false", "--temp-dir", folder / "ray"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, words)), env=environment(folder, TOKEN), stdout=log, stderr=log
        )
    while "Ray runtime started" not in (folder / "log").read_text():
        assert process.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def embed(corpus, out, model, address, env):
    words = ["embed", corpus, "-o", out, "-m", model, "--format", "parquet", "--ray", address]
    command = [sys.executable, "-m", "elmo", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="starts a cluster")
def test_a_cluster_is_joined_with_its_token_and_the_lack_of_one_is_reported(
    cluster, official, tmp_path
):
    write(tmp_path / "corpus" / "a.txt", LINES)
    out = tmp_path / "out"
    refused = embed(tmp_path / "corpus", out, official, cluster, environment(tmp_path))
    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"error: {cluster}: cannot be joined (Token authentication is enabled")
    assert "no authentication token was found" in last
    assert "RAY_AUTH_TOKEN" in last
    assert not out.exists()
    joined = embed(tmp_path / "corpus", out, official, cluster, environment(tmp_path, TOKEN))
    assert joined.returncode == 0, joined.stderr
    assert [path.name for path in out.glob("*.parquet")] == ["a.txt-00000.parquet"]
