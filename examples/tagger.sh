#!/bin/sh
# A tagger for your own data in five commands:
#   sh examples/tagger.sh train.conll dev.conll test.conll [--glove glove.6B.100d.txt]
# One token per line, its label in the last column, a blank line between sentences. Further options
# are passed to `elmo train`; the models are in ./runs.
set -eu
expected="expected three files: train.conll dev.conll test.conll"
train=${1:?$expected} dev=${2:?$expected} test=${3:?$expected}
shift 3

elmo train ner --train "$train" --dev "$dev" --out runs/ner "$@"
elmo train ner --train "$train" --dev "$dev" --out runs/plain --no-elmo "$@"
elmo evaluate runs/ner "$test"
elmo evaluate runs/plain "$test"
echo "Ada Lovelace was born in London." | elmo predict runs/ner -
