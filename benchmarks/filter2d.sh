#!/usr/bin/env bash
# Tunes the paper's image filters on this machine's GPU and times the winners beside cuDNN (PyTorch) and CuPy.
#   usage: benchmarks/filter2d.sh FOLDER [TRIALS]
# Writes FOLDER/store.db, FOLDER/filter2d.md and FOLDER/filter2d.json.
set -euo pipefail
folder=${1:?usage: benchmarks/filter2d.sh FOLDER [TRIALS]}
trials=${2:-150}
mkdir -p "$folder"
export WARPSMITH_STORE="$folder/store.db"

for size in 2x2 3x3 4x4 5x5 6x6 7x7; do
  warpsmith tune filter2d --device cuda:0 --image 9216x9216 --filter "$size" --trials "$trials"
done
warpsmith bench filter2d --device cuda:0 --save "$folder/filter2d.json" | tee "$folder/filter2d.md"
