#!/usr/bin/env bash
# Install AllenNLP, the peer that `make bench` measures against, into an environment of its own.
# usage: benchmarks/peers.sh [FOLDER]; default ~/.cache/elmo-peers; prints the folder. Two minutes.
set -euo pipefail
folder=${1:-$HOME/.cache/elmo-peers}
environment=$folder/allennlp
if [ ! -e "$environment/ready" ]; then
  mkdir -p "$folder"
  python3 -m venv "$environment"
  install() { "$environment/bin/pip" install --quiet --disable-pip-version-check "$@"; }
  install torch==2.13.0 "numpy<2.3" h5py
  # Its own pins are of 2022 and no longer resolve; these are what its ELMo modules import.
  install --no-deps allennlp==2.10.1
  install torch==2.13.0 base58 cached-path dill fairscale filelock lmdb more-itertools nltk overrides \
    requests scikit-learn sentencepiece spacy tensorboardX termcolor torchmetrics tqdm traitlets \
    "transformers<5" typer
  touch "$environment/ready"
fi
echo "$folder"
