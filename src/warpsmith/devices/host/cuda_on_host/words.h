// Qualifiers, and the storage of shared memory.
#pragma once

#if defined(__SANITIZE_ADDRESS__)  // g++
#define WARPSMITH_HOST_SANITIZED 1
#elif defined(__has_feature)  // clang++
#if __has_feature(address_sanitizer)
#define WARPSMITH_HOST_SANITIZED 1
#endif
#endif
#ifndef WARPSMITH_HOST_SANITIZED
#define WARPSMITH_HOST_SANITIZED 0
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
// C++ forbids the standard spelling right after `__shared__`, where CUDA sources write it, but allows this one.
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))

// Shared memory belongs to a block, and a block to one OS thread. `thread_local` implies `static` inside a function and
// may be declared `extern`, so it fits both `__shared__ T a[N]` and `extern __shared__ T a[]`.
//
// AddressSanitizer puts no redzones around thread-local objects. So its builds run blocks on one OS thread, with static
// storage instead: `static` for the first form, nothing for the second, because no single word fits both.
// compiler.py decides line by line.
#if WARPSMITH_HOST_SANITIZED
#define WARPSMITH_HOST_SHARED_ON_LINE(line) WARPSMITH_HOST_SHARED_##line
#define WARPSMITH_HOST_SHARED_ON(line) WARPSMITH_HOST_SHARED_ON_LINE(line)
#define __shared__ WARPSMITH_HOST_SHARED_ON(__LINE__)
#define WARPSMITH_HOST_SHARED_STORAGE
#else
#if defined(__clang__) || __GNUC__ < 10
#define __shared__ thread_local
#else
// Without `__constinit` g++ checks at each access to an `extern` variable whether it must be initialised.
#define __shared__ __constinit thread_local
#endif
#define WARPSMITH_HOST_SHARED_STORAGE thread_local
#endif

namespace warpsmith_host {

constexpr bool sanitized = WARPSMITH_HOST_SANITIZED;

// Ends the launch, which returns `stopped`: the device is in a state from which the kernel cannot continue. A sanitized
// build ends its process.
[[noreturn]] void stop(const char *message);

template <typename T> struct Identity {
    using type = T;
};
// A parameter that does not deduce T, so that atomicAdd(unsigned *, 1) converts the 1 as CUDA's overloads do.
template <typename T> using Exactly = typename Identity<T>::type;

}  // namespace warpsmith_host

#define __trap() ::warpsmith_host::stop("__trap()")
