#!/usr/bin/env bash
# Run the kernels under AddressSanitizer with UBSan, and under ThreadSanitizer, for every vector width
# that a processor may have. The native builds, the last two, also multiply in bfloat16 if the processor can.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra compiler <<<"${CXX:-c++}"
mkdir -p build
for width in -DLANES=4 -DLANES=8 -DLANES=16 -DNO_AMX ""; do
  for sanitizer in address,undefined thread; do
    "${compiler[@]}" -std=c++17 -O1 -g -march=native $width -fsanitize=$sanitizer -fno-sanitize-recover=all \
      -pthread -Isrc/elmo/network/kernels tests/network/kernels/sanitize.cpp -o build/sanitize -ldl
    echo -n "$sanitizer: "
    build/sanitize
  done
done
