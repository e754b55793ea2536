// The meaning of CUDA's words on a CPU: a generated CUDA source, unmodified, compiles as C++17 behind this header.
//
// Blocks run on several OS threads. The threads of a block run one after the other on one OS thread: as a plain loop
// where the source has no word with which threads cooperate, as fibers where it has one. `compiler.py` defines, in
// front of this header:
//   WARPSMITH_HOST_COOPERATES            1 where the source has such a word (barrier, shuffle, vote), else 0. A word
//                                        that was overlooked is then an unknown name: a compile error, not a hang.
//   WARPSMITH_HOST_DYNAMIC_SHARED_BYTES  the most dynamic shared memory that any launch of the program asks for.
//   WARPSMITH_HOST_SHARED_<line>         under the sanitizers: what `__shared__` means on that line (see words.h).
#pragma once

// Sources leave out what only a GPU's compiler understands where this is defined; ptx.h stands in for it.
#define WARPSMITH_ON_HOST 1

// A checked longjmp refuses to leave a fiber's stack for the stack of its OS thread (see `stop` in launch.h).
#undef _FORTIFY_SOURCE

// Every standard header first: some of their texts use names that words.h defines (`__noinline__`).
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

// libstdc++ would add Bessel's and other functions, which take a third of the time of a small kernel's compilation to read.
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
