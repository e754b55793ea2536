#!/usr/bin/env bash
# Tunes image filters on this machine's GPU and times the winners beside cuDNN (PyTorch), CuPy and NPP.
#   usage: benchmarks/filter2d.sh FOLDER [TRIALS]
# Writes FOLDER/store.db, and for each workload a table (.md), its numbers (.json) and, for the paper's, a plot (.svg).
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
folder=${1:?usage: benchmarks/filter2d.sh FOLDER [TRIALS]}
trials=${2:-300}
mkdir -p "$folder"
export WARPSMITH_STORE="$folder/store.db"

tune() { warpsmith tune filter2d --device cuda:0 --trials "$trials" "$@"; }
bench() {  # NAME OPTION...
  local name=$1
  shift
  warpsmith bench filter2d --device cuda:0 --save "$folder/$name.json" "$@" | tee "$folder/$name.md"
}

python "$here/fp32_rate.py" cuda:0 | tee "$folder/fp32_rate.txt"

sizes=(2x2 3x3 4x4 5x5 6x6 7x7 9x9 11x11 15x15)
for size in "${sizes[@]}"; do tune --image 9216x9216 --filter "$size"; done
bench paper "${sizes[@]/#/--filter=}" --plot "$folder/filter-sizes.svg"

python - "$folder/gaussian.npy" <<'PYTHON'
import sys
import numpy as np
bell = np.exp(-(np.arange(-7, 8) ** 2) / (2 * 3.0**2))  # sigma 3
np.save(sys.argv[1], np.outer(bell, bell).astype(np.float32) / bell.sum() ** 2)
PYTHON
tune --image 9216x9216 --filter 15x15 --weights "$folder/gaussian.npy"
bench gaussian --filter 15x15 --weights "$folder/gaussian.npy"

for dtype in uint8 float16; do
  for image in 1080x1920 2160x3840 4320x7680; do
    for size in 3x3 5x5; do tune --dtype "$dtype" --image "$image" --filter "$size"; done
    bench "$dtype-$image" --dtype "$dtype" --image "$image" --filter 3x3 --filter 5x5
  done
done

warpsmith bench filter2d --device cuda:0 --sweep --filter 3x3 --trials 900 --out "$folder/sweep-3x3"
