// Arithmetic functions that <math.h> lacks, rounded as CUDA rounds them.
#pragma once

namespace warpsmith_host {

// Keeps the compiler from contracting the operation of `value` and the next one into a fused multiply-add.
inline float rounded(float value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#else
    volatile float kept = value;
    value = kept;
#endif
    return value;
}

template <typename To, typename From> To reinterpreted(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    memcpy(&result, &value, sizeof(To));
    return result;
}

// Converts to an integer of type T as the hardware does: NaN becomes 0, and values beyond the range become its ends.
template <typename T> T saturated(float value) {
    static_assert(sizeof(T) == 4);
    constexpr double lowest = std::is_signed_v<T> ? -2147483648.0 : 0.0;
    constexpr double highest = lowest + 4294967295.0;
    if (value != value) return 0;
    const double wide = value;
    return static_cast<T>(wide < lowest ? lowest : wide > highest ? highest : wide);
}

}  // namespace warpsmith_host

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return ::warpsmith_host::rounded(a + b); }
inline float __fsub_rn(float a, float b) { return ::warpsmith_host::rounded(a - b); }
inline float __fmul_rn(float a, float b) { return ::warpsmith_host::rounded(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }  // NaN is 0
inline float rsqrtf(float a) { return static_cast<float>(1.0 / sqrt(static_cast<double>(a))); }

// sin(pi a) and cos(pi a). The reduction to [-1, 1] is exact, so large arguments keep their accuracy.
inline void sincospif(float a, float *sine, float *cosine) {
    const double angle = M_PI * remainder(static_cast<double>(a), 2.0);
    *sine = a == truncf(a) ? copysignf(0.0f, a) : static_cast<float>(sin(angle));
    *cosine = a - floorf(a) == 0.5f ? 0.0f : static_cast<float>(cos(angle));
}
inline float sinpif(float a) {
    float sine, cosine;
    sincospif(a, &sine, &cosine);
    return sine;
}
inline float cospif(float a) {
    float sine, cosine;
    sincospif(a, &sine, &cosine);
    return cosine;
}

inline int __float2int_rn(float a) { return ::warpsmith_host::saturated<int>(rintf(a)); }
inline int __float2int_rz(float a) { return ::warpsmith_host::saturated<int>(truncf(a)); }
inline int __float2int_rd(float a) { return ::warpsmith_host::saturated<int>(floorf(a)); }
inline int __float2int_ru(float a) { return ::warpsmith_host::saturated<int>(ceilf(a)); }
inline unsigned __float2uint_rn(float a) { return ::warpsmith_host::saturated<unsigned>(rintf(a)); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }

inline int __float_as_int(float a) { return ::warpsmith_host::reinterpreted<int>(a); }
inline unsigned __float_as_uint(float a) { return ::warpsmith_host::reinterpreted<unsigned>(a); }
inline float __int_as_float(int a) { return ::warpsmith_host::reinterpreted<float>(a); }
inline float __uint_as_float(unsigned a) { return ::warpsmith_host::reinterpreted<float>(a); }
inline long long __double_as_longlong(double a) { return ::warpsmith_host::reinterpreted<long long>(a); }
inline double __longlong_as_double(long long a) { return ::warpsmith_host::reinterpreted<double>(a); }

// Like CUDA's overloads: floating point ignores a NaN operand, and integers of mixed sign compare as unsigned.
template <typename A, typename B, typename C = std::common_type_t<A, B>> constexpr C min(A a, B b) {
    static_assert(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>);
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    return y < x || x != x ? y : x;
}
template <typename A, typename B, typename C = std::common_type_t<A, B>> constexpr C max(A a, B b) {
    static_assert(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>);
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    return x < y || x != x ? y : x;
}

inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline unsigned __brev(unsigned a) {
    unsigned result = 0;
    for (int bit = 0; bit < 32; ++bit) result |= (a >> bit & 1u) << (31 - bit);
    return result;
}
inline int __clz(int a) { return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return a == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(a)); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }

inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }

// Four bytes chosen from the eight of b:a by the lower three bits of the selector's nibbles.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned chosen = selector >> (4 * i) & 7;
        result |= static_cast<unsigned>(bytes >> (8 * chosen) & 0xff) << (8 * i);
    }
    return result;
}
