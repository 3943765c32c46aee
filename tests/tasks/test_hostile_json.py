"""JSON that is deep, or has numbers of thousands of digits, in data files of tasks and probes."""

import pytest

from elmo.errors import ElmoError
from elmo.probes.pairs import read_pairs
from elmo.tasks import find_task


def read_task(name):
    task = find_task(name)
    return lambda path: task.read(path, task.defaults(), is_training=True)


@pytest.mark.parametrize("content", ["[" * 100_000, "1" * 10_000], ids=["deep", "long"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.json", read_task("squad")),
        ("a.jsonl", read_task("nli")),
        ("a.jsonl", lambda path: read_pairs(path, "phenomenon")),
    ],
    ids=["squad", "nli", "pairs"],
)
def test_json_that_python_does_not_read_is_an_error_of_the_file(tmp_path, name, read, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ElmoError, match=r"a\.json.*not JSON"):
        read(tmp_path / name)
