"""Files crafted to read other files, to hang or to exhaust memory: each is refused in one line."""

import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ElmoError
from elmo.models import formats, model_folder
from tests.models.formats.many_langs_models import write_model
from tests.models.formats.released_layouts import allennlp_state
from tests.models.formats.test_formats import refused
from tests.random_models import write_files

BIAS = "CNN_proj/b_proj"  # (8,)
GIGABYTE = 2**30


def replaced(path, make):
    """Replace a dataset of the official file by what `make(file)` creates."""
    with h5py.File(path, "a") as file:
        del file[BIAS]
        make(file)
    return path


def test_numbers_of_another_file_are_not_read(official, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"the secret of this machine".ljust(64))
    replaced(
        official,
        lambda file: file.create_dataset(BIAS, (8,), "f4", external=[(str(secret), 0, 32)]),
    )
    assert "is in another file" in refused(official)


def test_a_virtual_dataset_is_refused(official, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.ones(8, np.float32)
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (8,))
    replaced(official, lambda file: file.create_virtual_dataset(BIAS, layout))
    assert "is in another file" in refused(official)


@pytest.mark.parametrize(
    "link", [h5py.SoftLink("/CNN/b_cnn_2"), h5py.ExternalLink("/etc/passwd", "x")]
)
def test_links_are_refused(official, link):
    replaced(official, lambda file: file.__setitem__(BIAS, link))
    assert "CNN_proj/b_proj is a link" in refused(official)


def test_a_group_inside_itself_is_refused(official):
    with h5py.File(official, "a") as file:
        file["CNN/again"] = file["CNN"]
    assert "is a link" in refused(official)


@pytest.mark.parametrize("kind", ["i4", "c8", "S4", "u1"])
def test_other_types_than_floats_are_refused(official, kind):
    replaced(official, lambda file: file.create_dataset(BIAS, data=np.zeros(8, kind)))
    assert "expected float16, float32 or float64" in refused(official)


@pytest.mark.parametrize("kind", ["f2", "f8"])
def test_other_floats_are_read(official, kind):
    replaced(official, lambda file: file.create_dataset(BIAS, data=np.full(8, 0.5, kind)))
    bias = formats.read(official).bilm.state_dict()["char_cnn.projection.bias"]
    assert bias.tolist() == [0.5] * 8


@pytest.mark.parametrize(
    "settings",
    [
        {"chunks": (2**28,), "maxshape": (None,)},
        {"chunks": (2**28,), "maxshape": (None,), "compression": "gzip"},
    ],
)
def test_a_few_bytes_that_unpack_to_gigabytes_are_refused(official, settings):
    replaced(official, lambda file: file.create_dataset(BIAS, (8,), "f4", **settings))
    assert "bytes of" in refused(official)


def test_other_filters_than_gzip_are_refused(official):
    settings = {"chunks": (8,), "scaleoffset": 1}
    replaced(official, lambda file: file.create_dataset(BIAS, (8,), "f4", **settings))
    assert "expected gzip or none" in refused(official)


def test_numbers_that_are_not_stored_are_refused(tmp_path, tiny_options, tiny_weights):
    tiny_options["lstm"]["dim"] = 2**16
    path = write_files(tmp_path / "model", tiny_options, tiny_weights)
    with h5py.File(path, "a") as file:
        for r in range(2):
            for depth in range(2):
                cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{depth}/LSTMCell"
                for name, shape in (("W_0", (16, 2**18)), ("B", (2**18,)), ("W_P_0", (2**16, 8))):
                    del file[f"{cell}/{name}"]
                    file.create_dataset(f"{cell}/{name}", shape, "f4", chunks=True)
    assert "times the stored size; the file may be malicious" in refused(path)


def test_a_chunk_that_is_longer_than_its_size_is_refused(official):
    import zlib

    def make(file):
        made = file.create_dataset(BIAS, (8,), "f4", chunks=(8,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(bytes(10**6)))

    replaced(official, make)
    assert "longer than its size" in refused(official)


@pytest.mark.parametrize("settings", [{"compression": "gzip", "shuffle": True, "fletcher32": True}])
def test_packed_weights_are_read(tmp_path, tiny_options, tiny_weights, settings):
    path = write_files(tmp_path / "model", tiny_options, {})
    with h5py.File(path, "w") as file:
        for name, values in tiny_weights.items():
            file.create_dataset(name, data=values, chunks=True, **settings)
    assert formats.read(path).bilm.config.lstm.dim == 16


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path, tiny_options, tiny_weights, value):
    weights = {**tiny_weights, BIAS: np.full(8, value, np.float32)}
    path = write_files(tmp_path / "model", tiny_options, weights)
    assert "char_cnn.projection.bias holds NaN or Inf" in refused(path)


def test_weights_of_our_folder_that_are_no_numbers_are_refused(bilm, tmp_path):
    with torch.no_grad():
        bilm.char_cnn.projection.bias.fill_(torch.nan)
    model_folder.save(tmp_path / "ours", model_folder.Model(bilm))
    assert "holds NaN or Inf" in refused(tmp_path / "ours")


def test_huge_weights_whose_sum_overflows_are_read(bilm, tmp_path):
    with torch.no_grad():
        bilm.char_cnn.projection.bias.fill_(3e38)
    model_folder.save(tmp_path / "ours", model_folder.Model(bilm))
    opened = model_folder.load(tmp_path / "ours").bilm
    assert torch.equal(opened.char_cnn.projection.bias, bilm.char_cnn.projection.bias)


SIZES = [
    ("lstm", "n_layers", None),
    ("lstm", "dim", None),
    ("lstm", "projection_dim", None),
    ("char_cnn", "n_highway", None),
    ("char_cnn", "max_characters_per_token", None),
    ("char_cnn", "embedding", lambda n: {"dim": n}),
    ("char_cnn", "filters", lambda n: [[1, n]]),
    ("char_cnn", "filters", lambda n: [[n, 1]]),
    ("char_cnn", "filters", lambda n: [[1, 1]] * min(n, 10**6)),
]


@pytest.mark.parametrize(("group", "key", "make"), SIZES)
@pytest.mark.parametrize("n", [10**6 + 1, 10**18, 10**400], ids=["1e6", "1e18", "1e400"])
def test_absurd_sizes_are_refused_at_once(official, tiny_options, group, key, make, n):
    tiny_options["lstm"]["cell_clip"] = n if n > 10**300 else 3  # smaller clips may be intended
    tiny_options[group][key] = n if make is None else make(n)
    official.with_name("options.json").write_text(json.dumps(tiny_options))
    message = refused(official, kind=ElmoError)
    assert len(message) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"lstm": ' * 50_000,
        '{"lstm": ' + "9" * 10_000 + "}",
        '{"lstm": {"dim": NaN}}',
    ],
    ids=["deep list", "deep group", "long number", "no number"],
)
def test_json_that_breaks_parsers_is_refused(official, bilm, tmp_path, text):
    official.with_name("options.json").write_text(text)
    assert "options.json" in refused(official, kind=ElmoError)
    model_folder.save(tmp_path / "ours", model_folder.Model(bilm))
    (tmp_path / "ours" / "config.json").write_text(text)
    assert "config.json" in refused(tmp_path / "ours", kind=ElmoError)


def test_pipes_and_devices_in_a_folder_are_refused(tmp_path, official):
    """Read in a separate process, because an endless read could not be interrupted otherwise."""
    names = ["options.json", "weights.hdf5", "vocab.txt", "encoder.pkl", "model.ckpt-4.index"]
    paths = []
    for name in names:
        for target in ("pipe", "/dev/zero"):
            folder = shutil.copytree(official.parent, tmp_path / f"{name} {Path(target).name}")
            (folder / name).unlink(missing_ok=True)
            if target == "pipe":
                os.mkfifo(folder / name)
            else:
                (folder / name).symlink_to(target)
            paths += [str(folder), str(folder / name)]
    script = (
        "import sys; from pathlib import Path; from elmo.models import formats\n"
        "from elmo.errors import ElmoError\n"
        "for path in map(Path, sys.argv[1:]):\n"
        "    try: formats.read(path)\n"
        "    except ElmoError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *paths],
        timeout=300,
        capture_output=True,
        text=True,
        # macOS has no limit of the address space.
        preexec_fn=_limit_memory if sys.platform == "linux" else None,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(names) * 2


def _limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (8 * GIGABYTE, 8 * GIGABYTE))


def test_given_files_that_are_no_files_are_refused(official, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: not a plain file" in refused(tmp_path / "pipe")
    assert "pipe: no such file" in refused(official, options=tmp_path / "pipe")
    assert "zero: not a plain file" in refused(Path("/dev/zero"))
    with pytest.raises(ElmoError, match="pipe: no such file"):
        formats.attach_softmax(formats.read(official), official, tmp_path / "pipe")


def test_a_torch_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.th", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"")
        archive.writestr("archive/data/0", bytes(200 * 2**20))
    assert "do not trust it" in refused(tmp_path / "weights.th")


@pytest.fixture(scope="session")
def pickled(tmp_path_factory, tiny_weights):
    folder = write_model(tmp_path_factory.mktemp("pickles") / "theirs")
    path = folder.parent / "weights.th"
    torch.save(allennlp_state(tiny_weights), path, _use_new_zipfile_serialization=False)
    return [path.read_bytes(), (folder / "encoder.pkl").read_bytes()]


@given(st.data())
def test_no_damage_to_a_pickle_gives_anything_but_tensors_or_one_line(
    tmp_path_factory, pickled, data
):
    content = bytearray(pickled[data.draw(st.integers(0, 1))])
    places = st.integers(0, len(content) - 1) | st.integers(0, 3000)
    for place in data.draw(st.lists(places, min_size=1, max_size=8)):
        content[place % len(content)] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "weights.th"
    path.write_bytes(content)
    message = ""
    try:
        formats.read(path)
    except ElmoError as error:
        message = str(error)
    assert "\n" not in message


def test_a_duplicate_or_blank_word_of_our_own_folder_is_reported(scoring_model, tmp_path):
    folder = shutil.copytree(scoring_model, tmp_path / "model")
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    for change, told in [
        (lines[4], "vocab.txt:6: .* is also line 5"),
        ("", "vocab.txt:6: a blank"),
    ]:
        (folder / "vocab.txt").write_text("\n".join([*lines[:5], change, *lines[6:]]))
        with pytest.raises(ElmoError, match=told):
            formats.read(folder)
