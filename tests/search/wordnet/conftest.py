"""A WordNet of a few lines, in the format of the real one."""

import pytest

FILES = {
    "data.noun": """\
  1 This is where the license stands.
00000100 06 n 01 bow 1 000 | a weapon for shooting arrows; "he drew his bows"
00000200 10 n 02 bow 0 curtain_call 0 001 @ 00000100 n 0000 | an appearance; "I took a bow"; "a bow"
00000300 17 n 03 Earth 0 earth 2 globe 0 000 | the 3rd planet; "the Earth moves around the sun"
""",
    "data.verb": """\
00000400 32 v 02 run 3 lead a 001 @ 00000500 v 0000 01 + 08 00 | go; "the road was running or led"
00000500 38 v 01 run 0 000 01 + 02 00 | move fast; "don't run"; "she ran [fast] home"; "He ran home"
""",
    "data.adj": """\
00000600 00 a 01 abundant 0 001 & 00000700 a 0000 | plentiful
00000700 00 s 01 galore(ip) 0 001 & 00000600 a 0000 | in great numbers; "daffodils galore here"
""",
    "data.adv": "00000800 02 r 01 fast 0 000 | quickly\n",
    "index.noun": """\
  1 This is where the license stands.
bow n 2 1 @ 2 0 00000200 00000100
curtain_call n 1 1 @ 1 0 00000200
earth n 1 0 1 0 00000300
globe n 1 0 1 0 00000300
""",
    "index.verb": "lead v 1 1 @ 1 0 00000400\nrun v 2 1 @ 2 0 00000500 00000400\n",
    "index.adj": "abundant a 1 1 & 1 0 00000600\ngalore a 1 1 & 1 0 00000700\n",
    "index.adv": "fast r 1 0 1 0 00000800\n",
    "noun.exc": "",
    "verb.exc": "ran run\nled lead\nrunning run\n",
    "adj.exc": "",
    "adv.exc": "",
}


@pytest.fixture
def wordnet_folder(tmp_path):
    folder = tmp_path / "wordnet"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    return folder
