"""Archives: read without unpacking, whatever their kind; hostile ones are refused in one line."""

import gzip
import io
import json
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.errors import CheckpointError
from elmo.models import formats
from tests.models.formats.many_langs_models import write_model
from tests.models.formats.released_layouts import pack, tar_bytes, write_allennlp, write_tf_hub
from tests.models.formats.test_formats import refused
from tests.random_models import write_files

TRAINED = Path(__file__).parent / "bilm-training"
ENDINGS = [".zip", ".tar", ".tar.gz", ".tgz"]


def same(one, other):
    a, b = one.bilm.state_dict(), other.bilm.state_dict()
    return a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("inside", ["", "a/b/", "./a/"])
def test_official_files_are_read_from_every_kind_of_archive(official, tmp_path, ending, inside):
    path = pack(official.parent, tmp_path / f"model{ending}", inside)
    before = sorted(tmp_path.rglob("*"))
    assert same(formats.read(path), formats.read(official))
    source = formats.find(path)
    assert (source.kind, source.archive) == ("official", path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_every_family_is_read_from_archives(tmp_path, tiny_options, tiny_weights, ending):
    checkpoint = shutil.copytree(TRAINED / "characters", tmp_path / "characters")
    (checkpoint / "weights.hdf5").unlink()
    folders = {
        "tf-hub": write_tf_hub(tmp_path / "hub", tiny_weights),
        "allennlp": write_allennlp(tmp_path / "theirs", tiny_weights),
        "many-langs": write_model(tmp_path / "144"),
        "tf-checkpoint": checkpoint,
    }
    for kind, folder in folders.items():
        path = pack(folder, tmp_path / f"{kind}{ending}", "somewhere/")
        assert formats.find(path).kind == kind
        assert same(formats.read(path), formats.read(folder))


def test_the_weights_are_picked_by_their_layout_where_an_archive_has_several_files(
    official, tmp_path
):
    folder = official.parent
    with h5py.File(folder / "a_softmax.hdf5", "w") as file:
        file["softmax/W"] = np.zeros((3, 8), np.float32)
    with h5py.File(folder / "tokens.hdf5", "w") as file:
        file["embedding"] = np.zeros((3, 8), np.float32)
    path = pack(folder, tmp_path / "model.tar.gz")
    assert formats.find(path).weights.name == "weights.hdf5"
    assert same(formats.read(path), formats.read(official))


def test_two_models_in_an_archive_are_reported_by_name(official, tmp_path):
    shutil.copytree(official.parent, tmp_path / "both" / "one")
    shutil.copytree(official.parent, tmp_path / "both" / "two")
    message = refused(pack(tmp_path / "both", tmp_path / "model.tar.gz"))
    assert "2 models inside" in message
    assert "one/weights.hdf5" in message


def member(name, **changes):
    info = tarfile.TarInfo(name)
    for key, value in changes.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        (member("../up"), "'../up' points out of the archive"),
        (member("/etc/passwd"), "'/etc/passwd' points out of the archive"),
        (member("a/../../b"), "points out of the archive"),
        (member("..\\up"), "points out of the archive"),
        (member("C:/up"), "points out of the archive"),
        (member("l", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'l' is no plain file"),
        (member("l", type=tarfile.LNKTYPE, linkname="options.json"), "'l' is no plain file"),
        (member("f", type=tarfile.FIFOTYPE), "'f' is no plain file"),
        (member("d", type=tarfile.CHRTYPE, devmajor=1, devminor=5), "'d' is no plain file"),
        (member("options.json"), "two members 'options.json'"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_hostile_tar_is_refused(official, tmp_path, hostile, told):
    members = []
    for path in sorted(official.parent.iterdir()):
        content = path.read_bytes()
        members.append((member(path.name, size=len(content)), content))
    (tmp_path / "model.tar.gz").write_bytes(tar_bytes([*members, (hostile, b"")]))
    assert told in refused(tmp_path / "model.tar.gz")
    assert not (tmp_path.parent / "up").exists()


def test_a_tar_bomb_is_refused_before_it_is_unpacked(tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(member("zeros", size=200 * 2**20), io.BytesIO(bytes(200 * 2**20)))
    (tmp_path / "model.tar.gz").write_bytes(gzip.compress(content.getvalue(), 1))
    assert "unpacks to far more than its size" in refused(tmp_path / "model.tar.gz")


def test_a_tar_header_of_gigabytes_is_refused(tmp_path):
    header = member("x", type=tarfile.XHDTYPE, size=2**31).tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "model.tar.gz").write_bytes(gzip.compress(header + bytes(2**20)))
    assert "a header of 2147483648 bytes" in refused(tmp_path / "model.tar.gz")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.hdf5", bytes(200 * 2**20))
    assert "unpacks to far more than its size" in refused(tmp_path / "model.zip")


def test_a_link_in_a_zip_is_refused(official, tmp_path):
    path = pack(official.parent, tmp_path / "model.zip")
    link = zipfile.ZipInfo("vocab.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "'vocab.txt' is a link" in refused(path)


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.9])
def test_a_damaged_tar_is_reported(official, tmp_path, place):
    path = pack(official.parent, tmp_path / "model.tar.gz")
    content = path.read_bytes()
    cut = int(place * len(content))
    path.write_bytes(content[:cut] + bytes(40) + content[cut + 40 :])
    assert "model.tar.gz" in refused(path)
    path.write_bytes(content[:cut])
    assert "model.tar.gz" in refused(path)


def test_a_vocabulary_in_an_archive_is_used(tmp_path):
    path = pack(TRAINED / "words", tmp_path / "model.tgz")
    with pytest.warns(UserWarning, match=r"weights\.hdf5 is read; the checkpoint .* is not"):
        model = formats.read(path)
    assert model.bilm.word_encoder.lexicon.words is not None


def test_options_may_be_elsewhere_in_an_archive(official, tmp_path, tiny_options):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    shutil.copy(official, folder / "sub" / "weights.hdf5")
    (folder / "options.json").write_text(json.dumps(tiny_options))
    assert same(formats.read(pack(folder, tmp_path / "model.zip")), formats.read(official))


def test_info_shows_the_archive(official, tmp_path):
    from elmo.models.describe import describe

    path = pack(official.parent, tmp_path / "model.tar.gz")
    found = describe(path)
    assert (found["kind"], found["archive"]) == ("official", "model.tar.gz")
    assert found["bytes"] == path.stat().st_size


def test_a_member_that_is_missing_bytes_is_reported(tmp_path, tiny_options, tiny_weights):
    folder = write_files(tmp_path / "official", tiny_options, tiny_weights).parent
    content = gzip.decompress(pack(folder, tmp_path / "model.tar.gz").read_bytes())
    (tmp_path / "model.tar").write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"model\.tar"):
        formats.read(tmp_path / "model.tar")
