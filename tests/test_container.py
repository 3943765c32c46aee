"""The container files fit the repository and the command line; no daemon is needed."""

import re
import shlex

import pytest

from elmo.cli.main import VERBS, cli
from tests.conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_the_image_copies_exists_and_is_sent_to_the_build():
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert set(copied) == sent
    assert all((ROOT / name).exists() for name in copied)


def test_the_server_runs_as_an_ordinary_user_with_a_health_check():
    instructions = re.findall(r"^([A-Z]+) ", DOCKERFILE.rpartition("FROM ")[2], re.MULTILINE)
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    assert "HEALTHCHECK" in instructions
    assert "/health" in DOCKERFILE


def test_the_commands_of_both_files_are_commands_of_elmo():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    entry = shlex.split(re.findall(r"^ENTRYPOINT \[(.*)\]", DOCKERFILE, re.MULTILINE)[0])
    words = [word.rstrip(",") for word in entry] + compose["services"]["elmo"]["command"]
    assert words[:2] == ["elmo", "serve"]
    assert words[1] in VERBS
    verb = cli.get_command(None, "serve")
    verb.make_context("serve", words[2:])
    volumes = compose["services"]["prometheus"]["volumes"]
    assert all((ROOT / volume.split(":")[0]).is_file() for volume in volumes)
