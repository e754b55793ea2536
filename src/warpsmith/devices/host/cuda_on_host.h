// Implements CUDA's keywords and functions on a CPU: a generated CUDA source, unmodified, compiles as C++17 after this
// header.
//
// Blocks run on several OS threads. The threads of a block run one after the other on one OS thread: as a plain loop if
// the source has no word by which threads cooperate, else as fibers. `compiler.py` defines these macros before this
// header:
//   WARPSMITH_HOST_COOPERATES            1 if the source has such a word (barrier, shuffle, vote), else 0. If one was
//                                        overlooked, it is an unknown name: a compile error, not a hang.
//   WARPSMITH_HOST_DYNAMIC_SHARED_BYTES  the largest dynamic shared memory of any launch of the program.
//   WARPSMITH_HOST_CLUSTER_BLOCKS        blocks of a cluster, 1 if the kernels have none.
//   WARPSMITH_HOST_SHARED_<line>         under the sanitizers: the meaning of `__shared__` on that line (see words.h).
#pragma once

// If this is defined, sources leave out what only a GPU's compiler understands; ptx.h replaces it.
#define WARPSMITH_ON_HOST 1

// A checked longjmp refuses to leave a fiber's stack for the stack of its OS thread (see `stop` in launch.h).
#undef _FORTIFY_SOURCE

// All standard headers come first: some of them use names that words.h defines (`__noinline__`).
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

// libstdc++ would add Bessel's and other functions, which cost a third of the compile time of a small kernel.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <math.h>

#include "cuda_on_host/words.h"

#include "cuda_on_host/vectors.h"

#include "cuda_on_host/position.h"

#include "cuda_on_host/arithmetic.h"
#include "cuda_on_host/atomics.h"
#include "cuda_on_host/memory.h"
#include "cuda_on_host/ptx.h"
#include "cuda_on_host/texture.h"

#if WARPSMITH_HOST_COOPERATES
#include "cuda_on_host/fibers.h"

#include "cuda_on_host/block.h"

#include "cuda_on_host/warp.h"

#include "cuda_on_host/matrix.h"
#include "cuda_on_host/pipeline.h"
#include "cuda_on_host/tensor_map.h"
#endif

#include "cuda_on_host/launch.h"
