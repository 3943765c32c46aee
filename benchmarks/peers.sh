#!/usr/bin/env bash
# Install the packages that `make bench` and `make bench-train` measure against, each into an
# environment of its own. Installs nothing where they are.
# usage: benchmarks/peers.sh [allennlp] [bilm]; into ~/.cache/elmo-peers. Two minutes each.
set -euo pipefail
folder=$HOME/.cache/elmo-peers
mkdir -p "$folder"

install_allennlp() {
  install torch==2.13.0 "numpy<2.3" h5py
  # Its own pins are of 2022 and no longer resolve; these are what its ELMo modules import.
  install --no-deps allennlp==2.10.1
  install torch==2.13.0 base58 cached-path dill fairscale filelock lmdb more-itertools nltk overrides \
    requests scikit-learn sentencepiece spacy tensorboardX termcolor torchmetrics tqdm traitlets \
    "transformers<5" typer
}

install_bilm() {
  install tensorflow-cpu==2.15.1 "numpy<2" h5py # the last TensorFlow that its trainer runs on
  install --no-deps bilm==0.1.post5
}

for peer in "$@"; do
  environment=$folder/$peer
  [ -e "$environment/ready" ] && continue
  python3 -m venv "$environment"
  install() { "$environment/bin/pip" install --quiet --disable-pip-version-check "$@"; }
  "install_$peer"
  touch "$environment/ready"
done
