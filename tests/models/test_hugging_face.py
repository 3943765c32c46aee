"""`hf:owner/name`, from a server on this machine that answers as huggingface.co does."""

import functools
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np
import pytest

from elmo.api import Elmo

SHA = "0123456789abcdef" * 2 + "01234567"
# huggingface_hub reads its endpoint when it is imported, so the script has its own process.
SCRIPT = """\
import sys
import numpy as np
from elmo import Elmo
elmo = Elmo.load(sys.argv[1])
np.save(sys.argv[2], elmo.embed("I took a bow.").layers)
"""


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, files, requests, *arguments):
        self.files, self.requests = files, requests
        super().__init__(*arguments)

    def do_GET(self):
        path = urlsplit(self.path).path
        self.requests.append(f"{self.command} {path}")
        headers = {"Content-Type": "application/json"}
        if path.startswith("/api/models/owner/elmo/revision/"):
            siblings = [{"rfilename": name} for name in self.files]
            content = json.dumps({"id": "owner/elmo", "sha": SHA, "siblings": siblings}).encode()
        elif path == f"/api/models/owner/elmo/tree/{SHA}":
            rows = [
                {"type": "file", "path": name, "size": len(content), "oid": name}
                for name, content in self.files.items()
            ]
            content = json.dumps(rows).encode()
        elif path.startswith(f"/owner/elmo/resolve/{SHA}/"):
            name = path.rpartition("/")[2]
            content = self.files[name]
            headers = {"ETag": f'"{name}"', "X-Repo-Commit": SHA}
        else:
            content = b""
        self.send_response(200 if content else 404)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(scoring_model, tmp_path):
    """Return a function that runs the script with a name, against a hub that has a model."""
    files = {path.name: path.read_bytes() for path in scoring_model.iterdir() if path.is_file()}
    files |= {"README.md": b"a card", "pytorch_model.onnx": b"not to be downloaded"}
    requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Hub, files, requests))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
        "HF_HOME": str(tmp_path / "hf"),
    }
    environment.pop("ELMO_OFFLINE", None)

    def load(name, **more):
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, name, tmp_path / "layers.npy"],
            env={**environment, **more},
            capture_output=True,
            text=True,
        )

    load.requests = requests
    yield load
    server.shutdown()
    server.server_close()


def test_a_model_of_a_repository_is_opened_and_kept(hub, scoring_model, tmp_path):
    done = hub("hf:owner/elmo@main")
    assert done.returncode == 0, done.stderr
    expected = Elmo.load(scoring_model).embed("I took a bow.").layers
    np.testing.assert_allclose(np.load(tmp_path / "layers.npy"), expected, atol=1e-6)
    assert any(request.endswith("model.safetensors") for request in hub.requests)
    assert not any(request.endswith(".onnx") for request in hub.requests)
    hub.requests.clear()
    offline = hub("hf:owner/elmo@main", ELMO_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert [request for request in hub.requests if "owner" in request] == []


def test_a_repository_that_is_not_there_is_one_line(hub):
    done = hub("hf:owner/none")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "hf:owner/none: not downloaded" in last
    assert "expected a public repository owner/name" in last
