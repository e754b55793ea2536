// Functions that generated sources write with PTX instructions on a GPU, where WARPSMITH_ON_HOST is not defined:
// conversions of 16-bit floats, given as their bits, and asynchronous copies.
#pragma once

// Only ptxas needs this function; here it returns its argument.
template <typename T> const T *kept(const T *address) { return address; }

// The conversion is exact: every 16-bit float is a 32-bit one. A NaN keeps its payload.
inline float half_to_float(unsigned short bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    uint32_t wide;
    if (magnitude < 0x0400u) {  // zero and subnormals count steps of 2^-24
        wide = __float_as_uint(static_cast<float>(magnitude) * 0x1p-24f);
    } else if (magnitude < 0x7c00u) {
        wide = (magnitude << 13) + ((127u - 15u) << 23);
    } else {
        wide = 0x7f800000u | magnitude << 13;
    }
    return __uint_as_float(sign | wide);
}

// Rounds to nearest, ties to even; 65520 and beyond becomes infinity, NaN a quiet NaN.
inline unsigned short float_to_half(float value) {
    const uint32_t bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    uint32_t narrow;
    if (magnitude > 0x7f800000u) {
        narrow = 0x7e00u;
    } else if (magnitude >= 0x47800000u) {  // 65536
        narrow = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14; from 0.5 on floats are 2^-24 apart, so the sum is rounded
        narrow = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        narrow = (magnitude - ((127u - 15u) << 23) + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
    }
    return static_cast<unsigned short>((bits >> 16 & 0x8000u) | narrow);
}

// Packs two converted values, with `low` in the lower 16 bits.
inline unsigned floats_to_half2(float low, float high) {
    return static_cast<unsigned>(float_to_half(low)) | static_cast<unsigned>(float_to_half(high)) << 16;
}

// Rounds two values to bfloat16, to nearest even, with `low` in the lower 16 bits. A NaN becomes the quiet NaN 0x7fff.
inline unsigned bfloat_pair(float low, float high) {
    const auto rounded = [](float value) {
        const uint32_t bits = __float_as_uint(value);
        return value != value ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    };
    return rounded(low) | rounded(high) << 16;
}

// Products of two 16-bit floats at once, each rounded to nearest even: float32 holds them exactly.
inline unsigned multiply_half2(unsigned a, unsigned b) {
    const auto product = [](unsigned one, unsigned other) {
        return half_to_float(static_cast<unsigned short>(one)) * half_to_float(static_cast<unsigned short>(other));
    };
    return floats_to_half2(product(a & 0xffffu, b & 0xffffu), product(a >> 16, b >> 16));
}
// Float32 holds the product exactly; the sum is rounded once, if its bits fit a double.
inline unsigned fma_half2(unsigned a, unsigned b, unsigned c) {
    const auto sum = [&](int place) {
        const auto number = [&](unsigned word) {
            return static_cast<double>(half_to_float(static_cast<unsigned short>(word >> place)));
        };
        return static_cast<float>(number(a) * number(b) + number(c));
    };
    return floats_to_half2(sum(0), sum(16));
}
inline unsigned negate_half2(unsigned a) { return a ^ 0x80008000u; }

// The larger one of two unsigned 16-bit numbers, in both halves of a word.
inline unsigned max_of_halves(unsigned a, unsigned b) {
    const auto larger = [](unsigned one, unsigned other) { return one > other ? one : other; };
    return larger(a & 0xffff0000u, b & 0xffff0000u) | larger(a & 0xffffu, b & 0xffffu);
}

// A load that only differs in what the caches of a GPU keep.
inline uint4 load_once(const uint4 *address) { return *address; }
inline unsigned multiply_bfloat2(unsigned a, unsigned b) {
    const auto product = [](unsigned one, unsigned other) { return __uint_as_float(one) * __uint_as_float(other); };
    return bfloat_pair(product(a << 16, b << 16), product(a & 0xffff0000u, b & 0xffff0000u));
}

// ex2.approx and rcp.approx, which are off by 2 units in the last place.
inline float exp2_approximate(float value) { return exp2f(value); }
inline float reciprocal_approximate(float value) { return 1.0f / value; }

// cp.async: the copy completes at once, which is one of the orders that PTX allows.
template <int kBytes> void cp_async(void *shared, const void *global) {
    static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "the instruction copies 4, 8 or 16 bytes");
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % kBytes != 0) {
        ::warpsmith_host::stop("cp_async: an address is not aligned to the size of the copy");
    }
    memcpy(shared, global, kBytes);
}
template <int kBytes> void cp_async_if(bool wanted, void *shared, const void *global) {
    if (wanted) cp_async<kBytes>(shared, global);
}
template <int kBytes> void cp_async_or_zero(bool wanted, bool has_source, void *shared, const void *global) {
    if (wanted && has_source) cp_async<kBytes>(shared, global);
    if (wanted && !has_source) memset(shared, 0, kBytes);
}
// cp.async.bulk and the fence before it also complete at once. A barrier whose copy has begun is 1.
inline void copy_bulk(void *target, const void *source, unsigned bytes) {
    if (bytes == 0) {  // a tile so small that it contains no aligned 16 bytes
        return;
    }
    if ((reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source) | bytes) % 16 != 0) {
        ::warpsmith_host::stop("a bulk copy has a multiple of 16 bytes, between multiples of 16");
    }
    memcpy(target, source, bytes);
}
inline void bulk_load_begin(void *shared, const void *global, unsigned bytes, void *barrier) {
    copy_bulk(shared, global, bytes);
    *static_cast<uint64_t *>(barrier) = 1;
}
inline void bulk_load_wait(const void *barrier) {
    if (*static_cast<const volatile uint64_t *>(barrier) != 1) {
        ::warpsmith_host::stop("bulk_load_wait: no copy has begun, or no barrier of the threads lies between");
    }
}
inline void bulk_store(void *global, const void *shared, unsigned bytes) {
    if (bytes == 0) ::warpsmith_host::stop("bulk_store copies some bytes");
    copy_bulk(global, shared, bytes);
}
inline void fence_proxy_async() {}
inline void cp_async_commit_group() {}
template <int kPending> void cp_async_wait_group() {}

// Launches run one after the other.
inline void let_next_launch_begin() {}
inline void wait_for_launch_before() {}
