// Atomics. Blocks run on several OS threads, so these use the processor's atomics, in relaxed order as in CUDA.
#pragma once

namespace warpsmith_host {

// Replaces *address by change(*address) atomically and returns the previous value.
template <typename T, typename Change> T atomically(T *address, Change change) {
    T before;
    __atomic_load(address, &before, __ATOMIC_RELAXED);
    for (;;) {
        T after = change(before);
        if (__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return before;
        }
    }
}

}  // namespace warpsmith_host

template <typename T> T atomicAdd(T *address, ::warpsmith_host::Exactly<T> value) {
    if constexpr (std::is_integral_v<T>) {
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
    } else {
        return ::warpsmith_host::atomically(address, [value](T before) { return before + value; });
    }
}

template <typename T> T atomicSub(T *address, ::warpsmith_host::Exactly<T> value) {
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}

template <typename T> T atomicMax(T *address, ::warpsmith_host::Exactly<T> value) {
    return ::warpsmith_host::atomically(address, [value](T before) { return before < value ? value : before; });
}

template <typename T> T atomicMin(T *address, ::warpsmith_host::Exactly<T> value) {
    return ::warpsmith_host::atomically(address, [value](T before) { return value < before ? value : before; });
}

template <typename T> T atomicExch(T *address, ::warpsmith_host::Exactly<T> value) {
    T before;
    __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
    return before;
}

template <typename T>
T atomicCAS(T *address, ::warpsmith_host::Exactly<T> compare, ::warpsmith_host::Exactly<T> value) {
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}

template <typename T> T atomicAnd(T *address, ::warpsmith_host::Exactly<T> value) {
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}

template <typename T> T atomicOr(T *address, ::warpsmith_host::Exactly<T> value) {
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}

template <typename T> T atomicXor(T *address, ::warpsmith_host::Exactly<T> value) {
    return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}

// Counts up to `limit`, then starts again at 0.
inline unsigned atomicInc(unsigned *address, unsigned limit) {
    return ::warpsmith_host::atomically(address, [limit](unsigned before) { return before >= limit ? 0 : before + 1; });
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
