// Barriers, shuffles and votes.
#pragma once

inline void __syncthreads() { ::warpsmith_host::running_block->barrier(false); }
inline int __syncthreads_count(int predicate) {
    return static_cast<int>(::warpsmith_host::running_block->barrier(predicate != 0));
}
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }

inline void __syncwarp(unsigned mask = 0xffffffffu) {
    ::warpsmith_host::running_block->exchange(::warpsmith_host::Wait::syncwarp, mask, 0, 0);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return static_cast<unsigned>(
        ::warpsmith_host::running_block->exchange(::warpsmith_host::Wait::ballot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) {
    return ::warpsmith_host::running_block->exchange(::warpsmith_host::Wait::any, mask, predicate != 0, 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return ::warpsmith_host::running_block->exchange(::warpsmith_host::Wait::all, mask, predicate == 0, 0) == 0;
}

#define __activemask() ::warpsmith_host::running_block->converged(__COUNTER__)

namespace warpsmith_host {

template <typename T> T shuffle(Wait wait, unsigned mask, T value, int source) {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "CUDA shuffles 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = running_block->exchange(wait, mask, bits, source);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// Lanes shuffle within segments of `width`. A lane that would read beyond its segment keeps its own value.
inline int segment_width(int width) {
    const bool possible = width >= 1 && width <= warpSize && (width & (width - 1)) == 0;
    if (!possible) stop("a shuffle's width must be 1, 2, 4, 8, 16 or 32");
    return width;
}
inline int lane() { return static_cast<int>(running_block->lane()); }

}  // namespace warpsmith_host

template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    const int first = ::warpsmith_host::lane() & -::warpsmith_host::segment_width(width);
    return ::warpsmith_host::shuffle(::warpsmith_host::Wait::shfl, mask, value, first + (source & (width - 1)));
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int lane = ::warpsmith_host::lane(), first = lane & -::warpsmith_host::segment_width(width);
    const bool inside = delta <= static_cast<unsigned>(lane - first);
    const int source = inside ? lane - static_cast<int>(delta) : lane;
    return ::warpsmith_host::shuffle(::warpsmith_host::Wait::shfl_up, mask, value, source);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int lane = ::warpsmith_host::lane(), first = lane & -::warpsmith_host::segment_width(width);
    const bool inside = delta < static_cast<unsigned>(first + width - lane);
    const int source = inside ? lane + static_cast<int>(delta) : lane;
    return ::warpsmith_host::shuffle(::warpsmith_host::Wait::shfl_down, mask, value, source);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
    const int lane = ::warpsmith_host::lane(), first = lane & -::warpsmith_host::segment_width(width);
    // Earlier segments may be read, later ones not (PTX ISA, shfl.sync.bfly).
    const int other = lane ^ (lane_mask & (warpSize - 1));
    const int source = other < first + width ? other : lane;
    return ::warpsmith_host::shuffle(::warpsmith_host::Wait::shfl_xor, mask, value, source);
}

// Largest value of a whole warp. CUDA also supports fewer lanes.
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    if (mask != 0xffffffffu) ::warpsmith_host::stop("__reduce_max_sync is here for whole warps alone");
    for (int step = 1; step < warpSize; step *= 2) value = max(value, __shfl_xor_sync(mask, value, step));
    return value;
}
