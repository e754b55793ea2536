// Loads and stores with cache hints, which a CPU ignores, and asynchronous copies.
#pragma once

template <typename T> T __ldg(const T *address) { return *address; }
template <typename T> T __ldcs(const T *address) { return *address; }
template <typename T> T __ldcg(const T *address) { return *address; }
template <typename T> T __ldca(const T *address) { return *address; }
template <typename T> void __stcs(T *address, ::warpsmith_host::Exactly<T> value) { *address = value; }
template <typename T> void __stcg(T *address, ::warpsmith_host::Exactly<T> value) { *address = value; }
template <typename T> void __stwt(T *address, ::warpsmith_host::Exactly<T> value) { *address = value; }
template <typename T> void __stwb(T *address, ::warpsmith_host::Exactly<T> value) { *address = value; }

// A CPU prefetches by itself; reading the line detects an invalid address.
inline void fetch_line(const void *address) { static_cast<void>(*static_cast<const volatile char *>(address)); }

// <cuda_pipeline.h>: the copy completes at once, which is one of the orders that CUDA allows. The last `zero_fill`
// bytes are set to 0 instead of read. Sizes and alignments are those of the hardware's instruction.
inline void __pipeline_memcpy_async(void *target, const void *source, size_t size, size_t zero_fill = 0) {
    if (size != 4 && size != 8 && size != 16) {
        ::warpsmith_host::stop("__pipeline_memcpy_async copies 4, 8 or 16 bytes");
    }
    if (zero_fill > size) {
        ::warpsmith_host::stop("__pipeline_memcpy_async: more bytes to zero than to copy");
    }
    if ((reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source)) % size != 0) {
        ::warpsmith_host::stop("__pipeline_memcpy_async: an address is not aligned to the size of the copy");
    }
    memcpy(target, source, size - zero_fill);
    memset(static_cast<char *>(target) + size - zero_fill, 0, zero_fill);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
