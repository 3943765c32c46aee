"""The documentation site: it builds without warnings, and needs no other host."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, as `make docs` builds it: a warning is an error."""
    pytest.importorskip("furo", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run([*words, ROOT / "docs", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """The text of a page, and the addresses that a browser fetches by itself when it opens it."""

    def __init__(self):
        super().__init__()
        self.addresses = []
        self.text = ""

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "link" and named.get("rel") not in ("canonical", "author"):
            self.addresses.append(named["href"])
        self.addresses += [named[name] for name in ("src", "srcset", "data") if named.get(name)]


def test_a_browser_asks_no_other_host_for_anything(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        reader = Loaded()
        reader.feed(page.read_text(encoding="utf-8"))
        assert reader.addresses
        assert not [address for address in reader.addresses if re.match(r"(\w+:)?//", address)]
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text())


def test_the_reference_has_the_public_names_and_the_verbs(site):
    import elmo
    from elmo.cli.main import VERBS

    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert [name for name in elmo.__all__ if f'id="elmo.{name}"' not in python] == []
    adapters = (site / "reference" / "adapters.html").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src/elmo/adapters").glob("[!_]*.py")} - {"onnx_graph"}
    assert [name for name in modules if f'id="elmo.adapters.{name}.' not in adapters] == []
    command_line = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f'id="elmo-{verb}"' not in command_line] == []


def test_pages_show_no_remarks_for_the_tests(site):
    for page in site.rglob("*.html"):
        reader = Loaded()
        reader.feed(page.read_text(encoding="utf-8"))
        assert "not run in the tests: " not in reader.text.replace("not run in the tests: why", "")


def test_pages_can_be_edited_and_name_the_copyright_holder(site):
    for name in ("index", "tutorial", "models/english"):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert f"/edit/main/docs/{name}.md" in text
        assert "Copyright" in text
        assert "elmo-torch authors" in text
