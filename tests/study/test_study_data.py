"""The study's data: files that are split for it, and the biLMs of earlier commits."""

import json
import lzma
import subprocess

import pytest

from benchmarks.finetune import read_wnut
from benchmarks.study.data import RECORD, describe_data, differences
from benchmarks.study.parts import check_overlap, known_articles, squad_parts, wikigold_part
from benchmarks.study.plan import Run
from benchmarks.study.runner import StudyPaths, run_all
from benchmarks.study.weights import MODEL, find_weights
from elmo.errors import CheckpointError, DataError
from elmo.tasks.nli.data import read_pairs
from elmo.tasks.tagging.data import read_columns


def git(folder, *words):
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


SICK_ROWS = [
    ("NEUTRAL", "TRAIN"),
    ("NEUTRAL", "TRIAL"),
    ("CONTRADICTION", "TEST"),
    ("ENTAILMENT", "TRAIN"),
]


def test_sick_is_split_by_its_column(tmp_path):
    source = tmp_path / "data" / "research-only" / "sick" / "SICK.txt"
    source.parent.mkdir(parents=True)
    header = "sentence_A\tsentence_B\tentailment_label\tSemEval_set"
    rows = [f"A dog .\tA cat .\t{label}\t{part}" for label, part in SICK_ROWS]
    source.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    paths = StudyPaths(tmp_path / "data", tmp_path / "out", tmp_path)
    labels = {
        part: [pair.label for pair in read_pairs(paths.find(f"sick/{part}.tsv"), is_training=True)]
        for part in ("train", "dev", "test")
    }
    assert labels == {
        "train": ["neutral", "entailment"],
        "dev": ["neutral"],
        "test": ["contradiction"],
    }


def test_sick_without_its_column_fails_with_one_line(tmp_path, caplog):
    source = tmp_path / "data" / "research-only" / "sick" / "SICK.txt"
    source.parent.mkdir(parents=True)
    source.write_text("sentence_A\tsentence_B\n", encoding="utf-8")
    run = Run("sick", "baseline", 0, 1)
    paths = StudyPaths(tmp_path / "data", tmp_path / "out", tmp_path)
    assert run_all(paths, plan=lambda choices: [run]) == ["sick-baseline-0-1"]
    assert "SICK.txt:1: the columns sentence_A, sentence_B, expected SemEval_set" in caplog.text


def test_squads_dev_data_is_split_by_articles_without_those_that_the_bilm_knows(tmp_path):
    articles = [{"title": f"article {k}", "paragraphs": []} for k in range(7)]
    parts = squad_parts(articles, ["article 4", "article 5"])
    assert parts["dev"] == [articles[2]]
    assert parts["test"] == [articles[k] for k in (0, 1, 3, 6)]
    overlap = tmp_path / "overlap.json"
    with pytest.raises(DataError, match="no such file"):
        known_articles(overlap)
    overlap.write_text(json.dumps({"parts": {"squad/dev": {"names": ["article 4"]}}}))
    assert known_articles(overlap) == ["article 4"]


@pytest.mark.parametrize("measured", [None, "another"])
def test_an_overlap_with_the_text_of_another_bilm_is_refused(tmp_path, measured):
    overlap = tmp_path / "overlap.json"
    overlap.write_text(json.dumps({"bilm_sha256": measured}))
    with pytest.raises(DataError, match="expected this"):
        check_overlap("this", overlap)
    overlap.write_text(json.dumps({"bilm_sha256": "this"}))
    check_overlap("this", overlap)


def test_the_text_of_wnut_has_the_sentences_of_the_tagger(tmp_path):
    path = tmp_path / "ner" / "wnut17" / "train.conll"
    path.parent.mkdir(parents=True)
    path.write_text("a\tO\nb\tO\n\t\nc\tO\n\nd\tB-x\n", encoding="utf-8")
    assert list(read_wnut(tmp_path, "train")) == ["a b", "c", "d"]


@pytest.mark.parametrize("text", ["[]", "{}", "{"])
def test_squads_dev_data_in_another_form_fails_with_one_line(tmp_path, text):
    source = tmp_path / "data" / "squad" / "dev.json.xz"
    source.parent.mkdir(parents=True)
    source.write_bytes(lzma.compress(text.encode()))
    paths = StudyPaths(tmp_path / "data", tmp_path / "out", tmp_path)
    with pytest.raises(DataError, match=r"dev\.json\.xz: not SQuAD's JSON"):
        paths.find("squad-dev/dev.json")


def test_every_article_of_wikigold_is_tested_in_one_fold(tmp_path):
    articles = [f"word{k} O\n\nin B-LOC\n" for k in range(20)]
    source = tmp_path / "data" / "ner" / "wikigold.conll"
    source.parent.mkdir(parents=True)
    source.write_text("\n-DOCSTART- O\n\n".join(articles), encoding="utf-8")
    paths = StudyPaths(tmp_path / "data", tmp_path / "out", tmp_path)
    tested = []
    for fold in range(5):
        words = {}
        for part in ("train", "dev", "test"):
            path = paths.find(f"wikigold/{{fold}}/{part}.conll", fold)
            words[part] = {tokens[0].fields[0] for tokens in read_columns(path)} - {"in"}
            assert words[part] == {f"word{k}" for k in range(20) if wikigold_part(k, fold) == part}
        assert [len(each) for each in words.values()] == [14, 2, 4]
        assert len(set.union(*words.values())) == 20
        tested += words["test"]
    assert sorted(tested) == sorted(f"word{k}" for k in range(20))


def test_the_weights_of_a_commit_are_as_they_were_then(tmp_path):
    repository, model = tmp_path / "project", tmp_path / "project" / MODEL
    model.mkdir(parents=True)
    git(repository, "init")
    for text in ("first", "second"):
        (model / "config.json").write_text(text)
        git(repository, "add", ".")
        git(repository, "commit", "-m", text)
    found = find_weights("HEAD~1", tmp_path / "weights", repository)
    assert (found / "config.json").read_text() == "first"
    assert find_weights("HEAD~1", tmp_path / "weights", tmp_path / "gone") == found
    assert [path.name for path in (tmp_path / "weights").iterdir()] == ["HEAD~1"]


def test_weights_that_the_history_lacks_fail_with_one_line(tmp_path):
    git(tmp_path, "init")
    with pytest.raises(CheckpointError, match="expected a clone with the full history"):
        find_weights("bfe9e0f", tmp_path / "weights", tmp_path)
    assert not (tmp_path / "weights").exists()


def test_the_recorded_data_and_splits_are_those_of_the_files(shared):
    assert differences(describe_data(shared / "data"), json.loads(RECORD.read_text())) == []


def test_data_that_differs_from_the_recorded_is_named():
    recorded = json.loads(RECORD.read_text())
    name = "ner/wnut17/dev.conll"
    files = recorded["files"] | {
        name: {"lines": 1, "sha256": "ab" * 32},
        "new": {"lines": 2, "sha256": "cd" * 32},
    }
    splits = recorded["splits"] | {"squad": {"dev": []}}
    known = recorded["files"][name]
    assert differences({"files": files, "splits": splits}, recorded) == [
        f"{name}: 1 lines with hash abababababab, expected {known['lines']} with "
        f"{known['sha256'][:12]}",
        "new: 2 lines with hash cdcdcdcdcdcd, expected 0 with none",
        "the split of squad differs",
    ]
