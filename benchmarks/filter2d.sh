#!/usr/bin/env bash
# Tunes image filters on this machine's GPU and times the winners beside cuDNN (PyTorch), CuPy and NPP.
#   usage: benchmarks/filter2d.sh FOLDER
# Writes FOLDER/store.db, and for each workload a table (.md), its numbers (.json) and, for the paper's, a plot (.svg).
# Takes about 20 minutes on an H200.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
folder=${1:?usage: benchmarks/filter2d.sh FOLDER}
mkdir -p "$folder"
export WARPSMITH_STORE="$folder/store.db"

tune() {  # SECONDS OPTION...
  local seconds=$1
  shift
  warpsmith tune filter2d --device cuda:0 --trials 4000 --time-limit "${seconds}s" "$@"
}
bench() {  # NAME OPTION...
  local name=$1
  shift
  warpsmith bench filter2d --device cuda:0 --save "$folder/$name.json" "$@" | tee "$folder/$name.md"
}

python "$here/fp32_rate.py" cuda:0 | tee "$folder/fp32_rate.txt"

# Larger filters have larger spaces, and their float64 reference takes part of the time.
paper=()
for size in 2x2:10 3x3:10 4x4:18 5x5:18 6x6:22 7x7:45 9x9:60 11x11:75 15x15:100; do
  tune "${size#*:}" --image 9216x9216 --filter "${size%:*}"
  paper+=(--filter "${size%:*}")
done
bench paper "${paper[@]}" --plot "$folder/filter-sizes.svg"

python - "$folder/gaussian.npy" <<'PYTHON'
import sys
import numpy as np
bell = np.exp(-(np.arange(-7, 8) ** 2) / (2 * 3.0**2))  # sigma 3
np.save(sys.argv[1], np.outer(bell, bell).astype(np.float32) / bell.sum() ** 2)
PYTHON
tune 60 --image 9216x9216 --filter 15x15 --weights "$folder/gaussian.npy"
bench gaussian --filter 15x15 --weights "$folder/gaussian.npy"

tune 60 --image 9216x9216 --filter 15x15 --accuracy normwise
bench normwise --filter 15x15 --accuracy normwise

for dtype in uint8 float16; do
  for image in 1080x1920 2160x3840 4320x7680; do
    for size in 3x3 5x5; do tune 12 --dtype "$dtype" --image "$image" --filter "$size"; done
    bench "$dtype-$image" --dtype "$dtype" --image "$image" --filter 3x3 --filter 5x5
  done
done

warpsmith bench filter2d --device cuda:0 --sweep --filter 3x3 --trials 900 --out "$folder/sweep-3x3"
