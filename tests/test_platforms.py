"""The package on other systems, as far as this one can imitate them."""

import subprocess
import sys

# Hide what Windows lacks: Unix modules, and symbols of the running program. The libraries are
# imported before that, because they have their own code for Windows.
WITHOUT_UNIX = """
import ctypes, importlib, os, pkgutil, sys

import click, filelock, h5py, numpy, regex, safetensors.torch, sentencex, torch
import tqdm.contrib.logging

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # an import raises ModuleNotFoundError
for name in ("fork", "geteuid", "getuid"):
    delattr(os, name)
sys.platform = "win32"
load = ctypes.CDLL.__init__

def load_by_name(library, name, *arguments, **options):
    if name is None:
        raise TypeError("argument 1 must be str, not None")
    load(library, name, *arguments, **options)

ctypes.CDLL.__init__ = load_by_name

import elmo
from elmo.network import kernels

assert "Windows" in kernels.why_unavailable()
kernels.keep_freed_memory()
model = elmo.Elmo.load()
assert model.embed("They took a bow.").layers.shape == (model.n_layers, 5, model.output_dim)
model.save(sys.argv[1])
assert elmo.Elmo.load(sys.argv[1]).n_layers == model.n_layers
for module in pkgutil.walk_packages(elmo.__path__, "elmo."):
    if not module.name.startswith(("elmo.adapters.", "elmo.serve", "elmo.__main__")):
        importlib.import_module(module.name)
"""


def test_the_package_imports_embeds_and_saves_without_what_windows_lacks(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_UNIX, str(tmp_path / "model")]
    subprocess.run(command, check=True)
