#!/usr/bin/env bash
# Build the wheel and the sdist, and check what a user gets: contents, size, the platform tag, and an
# installation without a compiler that gives the same vectors. Writes to build/wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
rm -rf build/wheel && mkdir -p build/wheel/raw
"$bin/python" -m build --outdir build/wheel/raw . >build/wheel/build.log 2>&1

# The tag that says how old a Linux may be.
raw=$(ls build/wheel/raw/*.whl)
if [[ $raw == *linux_* ]]; then
  "$bin/auditwheel" show "$raw"
  PATH="$bin:$PATH" "$bin/auditwheel" repair --wheel-dir build/wheel "$raw"
else
  cp "$raw" build/wheel
fi
wheel=$(ls build/wheel/*.whl)
ls -lh "$wheel" build/wheel/raw/*.tar.gz

# Installed into an empty environment, run without a compiler on the PATH.
python3 -m venv build/wheel/env
build/wheel/env/bin/pip install --quiet --constraint constraints.txt "$wheel"
cat >build/wheel/try.py <<'PYTHON'
import sys
import numpy as np
from elmo import Elmo
from elmo.network.kernels import describe

vectors = Elmo.load().embed("I took a bow.").layers
print(describe())
if len(sys.argv) > 2:
    difference = float(np.abs(vectors - np.load(sys.argv[2])).max())
    print(f"largest difference {difference:.1e}")
    assert difference < 1e-5
np.save(sys.argv[1], vectors)
PYTHON
cd build/wheel
empty=$(mktemp -d)
run() { env -u PYTHONPATH PATH="$empty" HOME="$empty" "$@"; }
run ELMO_KERNELS=off ./env/bin/python -W ignore try.py plain.npy
run ELMO_KERNELS=prebuilt ./env/bin/python try.py prebuilt.npy plain.npy

# The sdist without a compiler: a pure wheel that works.
run ./env/bin/pip install --quiet --no-deps --force-reinstall --constraint ../../constraints.txt raw/*.tar.gz
run ./env/bin/python -W ignore try.py sdist.npy plain.npy
rm -rf "$empty"
echo "wheel and sdist work without a compiler"
