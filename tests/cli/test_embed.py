import gzip
import json

import h5py
import numpy as np
import pytest

from elmo import Elmo
from elmo.files.atomic import is_temporary

TEXT = "I took a bow. He doesn't.\n\nShe drew her bow; the arrow flew 12.5 m.\n"
TOKENS = ["I took a bow . He does n't .", "", "She drew her bow ; the arrow flew 12.5 m ."]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def expected(official):
    """Vectors of each line, all layers."""
    return [embedded.layers for embedded in Elmo.load(official).embed(TEXT.splitlines())]


@pytest.fixture
def expected_of_tokens(official):
    """All layers of each line, read as the tokens of one sentence."""
    return [e.layers for e in Elmo.load(official).embed_tokens([line.split() for line in TOKENS])]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def no_leftovers(folder):
    return not [path for path in folder.iterdir() if is_temporary(path.name)]


def test_npz_has_the_vectors_and_tokens_of_each_line(run, text, tmp_path, official, expected):
    result = run("embed", text, "-o", tmp_path / "v.npz", "-m", official, "--layers", "all")
    assert result.code == 0
    assert result.err == ""
    assert "3 lines, 20 tokens" in result.out
    with np.load(tmp_path / "v.npz", allow_pickle=False) as file:
        assert set(file) == {"0", "1", "2", "tokens_0", "tokens_1", "tokens_2"}
        for k, layers in enumerate(expected):
            np.testing.assert_allclose(file[str(k)], layers, atol=1e-5)
            assert " ".join(file[f"tokens_{k}"]) == TOKENS[k]


def test_h5_has_the_keys_of_the_old_allennlp_command(run, tmp_path, official, expected_of_tokens):
    stdin = "\n".join(TOKENS).encode()
    out = tmp_path / "v.h5"
    run(
        "embed", "-", "--lines", "tokens", "-o", out, "-m", official, "--layers", "all", stdin=stdin
    )
    with h5py.File(out) as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        assert index == {line: str(k) for k, line in enumerate(TOKENS)}
        for k, layers in enumerate(expected_of_tokens):
            np.testing.assert_allclose(file[str(k)][...], layers, atol=1e-5)


def test_sentences_of_raw_text_in_h5_split_into_their_tokens(run, text, tmp_path, official):
    run("embed", text, "-o", tmp_path / "v.hdf5", "-m", official)
    with h5py.File(tmp_path / "v.hdf5") as file:
        for sentence, key in json.loads(file["sentence_to_index"][0]).items():
            assert len(sentence.split()) == len(file[key])


def test_jsonl_reads_back_as_the_same_numbers(run, text, tmp_path, official):
    model = "-m", official
    run("embed", text, "-o", tmp_path / "v.jsonl", *model)
    run("embed", text, "-o", tmp_path / "v.npz", *model)
    with np.load(tmp_path / "v.npz") as file:
        for k, line in enumerate(read_lines(tmp_path / "v.jsonl")):
            vectors = np.array(line["vectors"], dtype=np.float32).reshape(file[str(k)].shape)
            np.testing.assert_array_equal(vectors, file[str(k)])
            assert [line["text"][i:j] for i, j in line["offsets"]] == line["tokens"]


def test_a_record_has_what_embed_gives_for_its_line(run, text, tmp_path, official):
    run("embed", text, "-o", tmp_path / "v.jsonl", "-m", official)
    lines = read_lines(tmp_path / "v.jsonl")
    assert [line["text"] for line in lines] == TEXT.splitlines()
    for line, embedded in zip(lines, Elmo.load(official).embed(TEXT.splitlines()), strict=True):
        assert line["tokens"] == embedded.tokens
        assert [tuple(place) for place in line["offsets"]] == embedded.offsets
        assert [tuple(ends) for ends in line["sentences"]] == embedded.sentences
        vectors = np.array(line["vectors"], dtype=np.float32).reshape(embedded.vectors().shape)
        np.testing.assert_allclose(vectors, embedded.vectors(), atol=1e-5)


def test_a_line_may_be_one_sentence(run, text, tmp_path, official, expected_of_tokens):
    run("embed", text, "--lines", "sentences", "-o", tmp_path / "v.npz", "-m", official)
    with np.load(tmp_path / "v.npz") as file:
        for k, layers in enumerate(expected_of_tokens):
            np.testing.assert_allclose(file[str(k)], layers.mean(0), atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "choose"),
    [
        ("top", lambda all_layers: all_layers[-1]),
        ("average", lambda all_layers: all_layers.mean(0)),
        ("1", lambda all_layers: all_layers[1]),
        ("0,2", lambda all_layers: all_layers[[0, 2]]),
    ],
)
def test_chosen_layers_are_written(run, text, tmp_path, official, expected, layers, choose):
    run("embed", text, "-o", tmp_path / "v.npz", "-m", official, "--layers", layers)
    with np.load(tmp_path / "v.npz") as file:
        np.testing.assert_allclose(file["0"], choose(expected[0]), atol=1e-5)


def test_float16_is_written_within_its_precision(run, text, tmp_path, official, expected):
    run("embed", text, "-o", tmp_path / "v.h5", "-m", official, "--dtype", "float16")
    with h5py.File(tmp_path / "v.h5") as file:
        assert file["0"].dtype == np.float16
        np.testing.assert_allclose(file["0"][...], expected[0].mean(0), rtol=1e-2, atol=1e-3)


def test_a_very_long_line_gets_the_vectors_it_would_get_alone(run, tmp_path, official):
    tokens = [f"word{k % 50}" for k in range(5000)]
    stdin = f"a b\n{' '.join(tokens)}\nc\n".encode()
    run("embed", "-", "--lines", "tokens", "-o", tmp_path / "v.npz", "-m", official, stdin=stdin)
    alone = Elmo.load(official).embed_tokens([tokens])[0].vectors()
    with np.load(tmp_path / "v.npz") as file:
        np.testing.assert_allclose(file["1"], alone, atol=1e-5)
        assert len(file["0"]) == 2
        assert len(file["2"]) == 1


def test_compressed_text_is_read(run, text, tmp_path, official):
    with gzip.open(tmp_path / "text.gz", "wb") as file:
        file.write(TEXT.encode())
    for source, out in [(text, "a.jsonl"), (tmp_path / "text.gz", "b.jsonl")]:
        run("embed", source, "-o", tmp_path / out, "-m", official)
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


def test_long_words_are_reported_once_in_one_line(run, tmp_path, official):
    stdin = (b"x" * 60 + b"\n") * 3
    result = run("embed", "-", "-o", tmp_path / "v.npz", "-m", official, stdin=stdin)
    assert result.code == 0
    assert result.err.startswith("warning: 3 words are longer than 48 bytes")
    assert result.err.count("\n") == 1


def test_text_that_is_not_utf_8_is_refused_by_file_and_line(refused, tmp_path, official):
    (tmp_path / "latin.txt").write_bytes(b"fine\n\ncaf\xe9\n")
    out = tmp_path / "v.npz"
    message = refused("embed", tmp_path / "latin.txt", "-o", out, "-m", official)
    assert f"{tmp_path / 'latin.txt'}:3" in message
    assert not out.exists()
    assert no_leftovers(tmp_path)


def test_bad_standard_input_leaves_an_older_output_alone(refused, tmp_path, official):
    out = tmp_path / "v.jsonl"
    out.write_text("older\n")
    assert "-:2" in refused("embed", "-", "-o", out, "-m", official, stdin=b"a\n\xff\n")
    assert out.read_text() == "older\n"
    assert no_leftovers(tmp_path)


@pytest.mark.parametrize("place", ["absent/v.npz", "text.txt/v.npz", "folder.npz"])
def test_a_place_that_cannot_be_written_is_refused_before_the_model_is_read(
    refused, text, tmp_path, place
):
    (tmp_path / "folder.npz").mkdir()
    message = refused("embed", text, "-o", tmp_path / place, "-m", tmp_path / "no-model")
    assert place in message
    assert "no-model" not in message


def test_an_unknown_ending_is_refused(refused, text, tmp_path, official):
    assert ".npz" in refused("embed", text, "-o", tmp_path / "v.txt", "-m", official)


def test_unknown_layers_are_refused_and_leave_nothing(refused, text, tmp_path, official):
    assert "-3 to 2" in refused(
        "embed", text, "-o", tmp_path / "v.npz", "-m", official, "--layers", "7"
    )
    assert not (tmp_path / "v.npz").exists()
    assert no_leftovers(tmp_path)


def test_an_unknown_format_of_lines_is_refused(refused, text, tmp_path, official):
    out = tmp_path / "v.npz"
    assert "paragraphs" in refused("embed", text, "-o", out, "-m", official, "--lines", "words")


def test_a_text_that_is_absent_is_refused(refused, tmp_path, official):
    assert "absent.txt" in refused(
        "embed", tmp_path / "absent.txt", "-o", tmp_path / "v.npz", "-m", official
    )


@pytest.fixture
def folder(tmp_path, text):
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'elmo-torch[parquet]'")
    (tmp_path / "corpus").mkdir()
    text.rename(tmp_path / "corpus" / "text.txt")
    return tmp_path / "corpus"


def test_a_folder_becomes_shards_and_the_same_command_resumes(run, folder, tmp_path, official):
    words = "embed", folder, "-o", tmp_path / "v", "--format", "parquet", "-m", official
    assert "v: 1 shards (1 new), 3 sentences, 20 tokens" in run(*words).out
    assert "v: 1 shards (0 new), 3 sentences, 20 tokens" in run(*words).out
    assert [path.name for path in (tmp_path / "v").glob("*.parquet")] == ["text.txt-00000.parquet"]


def test_one_file_becomes_shards_if_asked(run, folder, tmp_path, official):
    out = tmp_path / "v"
    result = run("embed", folder / "text.txt", "-o", out, "--format", "parquet", "-m", official)
    assert result.code == 0
    assert [path.name for path in out.glob("*.parquet")] == ["text.txt-00000.parquet"]


def test_shards_of_another_choice_are_refused(run, refused, folder, tmp_path, official):
    words = "embed", folder, "-o", tmp_path / "v", "-m", official
    run(*words)
    assert "another layers (average there, top here)" in refused(*words, "--layers", "top")
    assert "another format of lines" in refused(*words, "--lines", "tokens")


def test_a_corpus_with_a_bad_line_is_refused_before_anything_is_written(
    refused, folder, tmp_path, official
):
    (folder / "bad.txt").write_bytes(b"fine\ncaf\xe9\n")
    assert "bad.txt:2: not UTF-8" in refused("embed", folder, "-o", tmp_path / "v", "-m", official)
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("option", [("--workers", "2"), ("--ray",)])
def test_workers_are_for_shards(refused, text, tmp_path, official, option):
    message = refused("embed", text, "-o", tmp_path / "v.npz", "-m", official, *option)
    assert "--format parquet" in message


@pytest.mark.parametrize(
    ("option", "files"),
    [
        ("--id-column", "--column and --id-column are for .csv, .tsv and .parquet files"),
        ("--column", "--column and --id-column are for .csv, .tsv and .parquet files"),
        ("--id-field", "--id-field is for FASTA files"),
    ],
)
def test_options_for_other_kinds_of_files_are_refused(
    refused, text, tmp_path, official, option, files
):
    assert files in refused("embed", text, "-o", tmp_path / "v.npz", "-m", official, option, "1")
    assert files in refused("embed", "-", "-o", tmp_path / "v.npz", "-m", official, option, "1")
    shards = ("-o", tmp_path / "shards", "--format", "parquet")
    assert files in refused("embed", text, *shards, "-m", official, option, "1")
    assert not (tmp_path / "v.npz").exists()
    assert not (tmp_path / "shards").exists()
