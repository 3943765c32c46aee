"""Models by name, from a local server: downloaded once, resumed, verified, or a one-line error."""

import functools
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import CheckpointError, ConfigError
from elmo.models import catalog, downloads, formats
from tests.models.formats.many_langs_models import write_model
from tests.models.formats.released_layouts import pack
from tests.random_models import write_files

HOST = "/s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x1024_128_2048cnn_1xhighway"
OPTIONS = f"{HOST}/elmo_2x1024_128_2048cnn_1xhighway_options.json"
WEIGHTS = f"{HOST}/elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5"


class Server:
    """Serves some paths, optionally with truncated bodies, redirects, error statuses and delays."""

    def __init__(self):
        self.contents, self.requests = {}, []
        self.cut_at, self.moved, self.status, self.delay = {}, {}, {}, 0.0
        self.has_ranges = True
        handler = functools.partial(_Handler, self)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner, *arguments):
        self.owner = owner
        super().__init__(*arguments)

    def do_GET(self):
        owner, path = self.owner, self.path
        owner.requests.append((path, self.headers.get("Range")))
        time.sleep(owner.delay)
        if path in owner.moved:
            self.send_response(302)
            self.send_header("Location", owner.moved[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status = owner.status.get(path, 200 if path in owner.contents else 404)
        content = owner.contents.get(path, b"") if status == 200 else b""
        start = 0
        if self.headers.get("Range") and owner.has_ranges and status == 200:
            start, status = int(self.headers["Range"][6:].rstrip("-")), 206
            if start >= len(content):
                status, content = 416, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) - start))
        if status == 206:
            whole = len(content)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        self.end_headers()
        end = owner.cut_at.pop(path, None)
        self.wfile.write(content[start:end])
        if end is not None:
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, tiny_options, tiny_weights, monkeypatch):
    weights = write_files(tmp_path / "official", tiny_options, tiny_weights)
    server = Server()
    server.contents[WEIGHTS] = weights.read_bytes()
    server.contents[OPTIONS] = weights.with_name("options.json").read_bytes()
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ELMO_MIRROR", server.address)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.delenv("ELMO_OFFLINE", raising=False)
    yield server
    server.close()


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code or 0


def test_a_model_is_downloaded_at_first_use_and_only_then(server, tmp_path):
    assert Elmo.load("small").bilm.config.lstm.dim == 16
    n_requests = len(server.requests)
    assert n_requests == 2
    Elmo.load("small")
    assert len(server.requests) == n_requests
    folder = tmp_path / "home" / "models" / "small"
    names = {path.name for path in folder.iterdir()}
    assert names - {".lock"} == {
        OPTIONS.split("/")[-1],
        WEIGHTS.split("/")[-1],
        "download.json",
    }
    record = json.loads((folder / "download.json").read_text())
    digest = hashlib.sha256(server.contents[WEIGHTS]).hexdigest()
    assert record[WEIGHTS.split("/")[-1]]["sha256"] == digest


def test_a_moved_file_is_followed(server):
    server.contents["/elsewhere"] = server.contents.pop(WEIGHTS)
    server.moved[WEIGHTS] = f"{server.address}/elsewhere"
    assert Elmo.load("small").bilm.config.lstm.dim == 16


def test_an_archive_is_opened_where_it_is(server, tmp_path):
    path = pack(write_model(tmp_path / "theirs"), tmp_path / "142.zip", "142/")
    server.contents["/vectors.nlpl.eu/repository/11/142.zip"] = path.read_bytes()
    assert formats.find(downloads.fetch("many-langs:de")).kind == "many-langs"
    assert Elmo.load("many-langs:de").output_dim == 12


def test_any_model_of_an_archive_is_known_by_its_number(server, tmp_path):
    archive = pack(tmp_path / "official", tmp_path / "217.zip")
    server.contents["/vectors.nlpl.eu/repository/20/217.zip"] = archive.read_bytes()
    assert Elmo.load("nlpl:217").bilm.config.lstm.dim == 16


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_connection_that_is_cut_is_resumed(server, has_ranges, tmp_path, monkeypatch):
    server.has_ranges = has_ranges
    server.cut_at[WEIGHTS] = 20_000
    assert Elmo.load("small").bilm.config.lstm.dim == 16
    assert [path for path, _ in server.requests].count(WEIGHTS) >= 2


def test_what_an_earlier_process_left_is_resumed(server, tmp_path):
    folder = tmp_path / "home" / "models" / "small"
    folder.mkdir(parents=True)
    name = WEIGHTS.split("/")[-1]
    address = hashlib.sha256(f"{server.address}{WEIGHTS}".encode()).hexdigest()
    (folder / f".{name}.part").write_bytes(server.contents[WEIGHTS][:30_000])
    (folder / f".{name}.address").write_text(address)
    assert Elmo.load("small").bilm.config.lstm.dim == 16
    assert (WEIGHTS, "bytes=30000-") in server.requests


def test_what_was_left_of_another_address_is_not_resumed(server, tmp_path):
    folder = tmp_path / "home" / "models" / "small"
    folder.mkdir(parents=True)
    name = WEIGHTS.split("/")[-1]
    (folder / f".{name}.part").write_bytes(b"something else")
    address = hashlib.sha256(b"https://elsewhere/weights.hdf5").hexdigest()
    (folder / f".{name}.address").write_text(address)
    assert Elmo.load("small").bilm.config.lstm.dim == 16
    assert not any("bytes=" in str(sent) for _, sent in server.requests)


@pytest.mark.parametrize(("status", "told"), [(404, "HTTP 404"), (403, "HTTP 403")])
def test_a_file_that_is_not_there_is_reported_with_where_to_put_it(server, tmp_path, status, told):
    server.status[WEIGHTS] = status
    with pytest.raises(CheckpointError, match=told) as caught:
        Elmo.load("small")
    message = str(caught.value)
    assert "\n" not in message
    assert f"put it at {tmp_path / 'home' / 'models' / 'small'}" in message
    assert "https://s3-us-west-2" in message


def test_no_network_is_reported_in_one_line(server, tmp_path):
    server.close()
    with pytest.raises(CheckpointError, match="not downloaded") as caught:
        Elmo.load("small")
    assert "\n" not in str(caught.value)


def test_offline_is_obeyed(server, monkeypatch):
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="ELMO_OFFLINE is set; download https://s3") as caught:
        Elmo.load("small")
    assert "\n" not in str(caught.value)
    assert not server.requests
    monkeypatch.delenv("ELMO_OFFLINE")
    Elmo.load("small")
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    Elmo.load("small")


def test_files_that_were_put_there_by_hand_are_used(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    folder = tmp_path / "home" / "models" / "embeddia-hr"
    with pytest.raises(CheckpointError, match=f"put its files into {folder}"):
        Elmo.load("embeddia:hr")
    folder.mkdir(parents=True)
    pack(tmp_path / "official", folder / "croatian-elmo.tar.gz", "croatian/")
    assert Elmo.load("embeddia:hr").bilm.config.lstm.dim == 16


def test_a_known_hash_is_checked(server, tmp_path):
    release = catalog.Release(
        name="known",
        about="a test",
        files=(f"https://example.com{OPTIONS}", f"https://example.com{WEIGHTS}"),
        hashes=(hashlib.sha256(server.contents[OPTIONS]).hexdigest(), "0" * 64),
    )
    for path in (OPTIONS, WEIGHTS):
        server.contents[f"/example.com{path}"] = server.contents[path]
    with pytest.raises(CheckpointError, match=f"SHA-256 .* expected {'0' * 64}"):
        downloads.fetch_release(release)
    folder = downloads.folder_of(release)
    assert (folder / OPTIONS.split("/")[-1]).is_file()
    assert not list(folder.glob("*weights*"))


def test_a_file_that_changed_is_reported(server, tmp_path):
    Elmo.load("small")
    (tmp_path / "home" / "models" / "small" / OPTIONS.split("/")[-1]).unlink()
    server.contents[OPTIONS] += b"\n"
    with pytest.warns(UserWarning, match="has changed since it was first downloaded"):
        Elmo.load("small")


def test_two_at_once_download_once(server):
    server.delay = 0.3
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(downloads.fetch("small"))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(server.requests) == 2


def test_a_model_with_its_softmax_predicts(server, tmp_path, tiny_options, tiny_weights):
    import h5py
    import numpy as np

    base = "/s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"
    stem = f"{base}elmo_2x4096_512_2048cnn_2xhighway_"
    with h5py.File(tmp_path / "softmax.hdf5", "w") as file:
        file["softmax/W"] = np.ones((4, 8), np.float32)
        file["softmax/b"] = np.zeros(4, np.float32)
    server.contents |= {
        f"{stem}options.json": server.contents[OPTIONS],
        f"{stem}weights.hdf5": server.contents[WEIGHTS],
        f"{stem}softmax_weights.hdf5": (tmp_path / "softmax.hdf5").read_bytes(),
        f"{base}vocab-2016-09-10.txt": b"</S>\n<S>\n<UNK>\nthe\n",
    }
    assert Elmo.load("original-lm").model.vocabulary.words == ("<S>", "</S>", "<UNK>", "the")
    assert Elmo.load("original").model.vocabulary is None

    own = tmp_path / "own.txt"
    own.write_text("</S>\n<S>\n<UNK>\na\n")
    with pytest.raises(ConfigError, match=r"has its own vocabulary, but .*own\.txt was given"):
        Elmo.load("original-lm", vocabulary=own)
    released = tmp_path / "home/models/original-lm" / f"{stem.split('/')[-1]}softmax_weights.hdf5"
    released.write_bytes(b"not read where another softmax is given")
    elmo = Elmo.load("original-lm", softmax=tmp_path / "softmax.hdf5", vocabulary=own)
    assert elmo.model.vocabulary.words == ("<S>", "</S>", "<UNK>", "a")


def test_unknown_names_are_reported_with_the_nearest(server):
    with pytest.raises(CheckpointError, match=r"did you mean original.*\?"):
        Elmo.load("orginal")
    with pytest.raises(ConfigError, match=r"no model of this name.*did you mean .*many-langs:de"):
        Elmo.load("many-langs:deu")
    with pytest.raises(CheckpointError, match="not downloaded"):
        Elmo.load("hf:not a/repository/name")


def test_a_folder_goes_before_a_name(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "official").rename(tmp_path / "small")
    assert Elmo.load("small").bilm.config.lstm.dim == 16
    assert not server.requests


def test_the_command_line_lists_describes_and_downloads(server, capsys):
    assert run("models") == 0
    listed = capsys.readouterr().out
    assert "  small " in listed
    assert "many-langs:zhs" in listed
    assert run("download", "small") == 0
    assert "parameters, in" in capsys.readouterr().out
    assert run("models") == 0
    assert "* small " in capsys.readouterr().out
    assert run("models", "small", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_here"]
    assert told["license"] is None
    assert run("models", "smal") == 2
    assert "did you mean small" in capsys.readouterr().err


def test_the_catalog_is_complete():
    found = catalog.releases()
    assert sum(name.startswith("many-langs:") for name in found) == 45
    for release in found.values():
        assert release.about
        assert release.files or release.page
        assert len(release.file_names()) == len(release.files)
        for name in (release.softmax, release.vocabulary):
            assert name is None or name in release.file_names()
