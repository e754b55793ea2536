// warpsmith fft_block
// problem: fft size=13x13 batch=49152 kind=r2c layout=frequency
// config:  ahead=0 blocks=0 first=y gaps=25 loads=plain min_blocks=0 packing=pair shares=1 signal=direct
//          spectrum=staged stores=plain threads=224 tiles=1 transforms=16 twiddles=powers x_radices=13 y_radices=13
//
// Forward transforms of 13x13 points, 16 per tile.
// Radices 13 by 13: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 224;  // threads per tile
constexpr long long kLast = 49120;  // first transform of the last tile, which may overlap the one before it
constexpr float kHalfScale = 0.5f;

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ __forceinline__ float2 times_i(float2 a) { return make_float2(-a.y, a.x); }  // i a
__device__ __forceinline__ float2 times_minus_i(float2 a) { return make_float2(a.y, -a.x); }  // -i a
__device__ __forceinline__ float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ float2 times(float2 a, float re, float im) {
    return make_float2(a.x * re - a.y * im, a.x * im + a.y * re);
}
__device__ __forceinline__ float2 times(float2 a, float2 b) { return times(a, b.x, b.y); }

// In-register DFTs of one thread, in place and in natural order: argument k returns frequency k.
__device__ __forceinline__ void dft13(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6, float2& x7,
    float2& x8, float2& x9, float2& x10, float2& x11, float2& x12) {
    const float2 s1 = x1 + x12, d1 = x1 - x12;
    const float2 s2 = x2 + x11, d2 = x2 - x11;
    const float2 s3 = x3 + x10, d3 = x3 - x10;
    const float2 s4 = x4 + x9, d4 = x4 - x9;
    const float2 s5 = x5 + x8, d5 = x5 - x8;
    const float2 s6 = x6 + x7, d6 = x6 - x7;
    const float2 even1 = x0 + 0.885456026f * s1 + 0.568064747f * s2 + 0.12053668f * s3 + -0.354604887f * s4
        + -0.748510748f * s5 + -0.970941817f * s6;
    const float2 odd1 = times_minus_i(0.464723172f * d1 + 0.822983866f * d2 + 0.992708874f * d3 +
        0.935016243f * d4 + 0.663122658f * d5 + 0.239315664f * d6);
    const float2 even2 = x0 + 0.568064747f * s1 + -0.354604887f * s2 + -0.970941817f * s3 + -0.748510748f *
        s4 + 0.12053668f * s5 + 0.885456026f * s6;
    const float2 odd2 = times_minus_i(0.822983866f * d1 + 0.935016243f * d2 + 0.239315664f * d3 +
        -0.663122658f * d4 + -0.992708874f * d5 + -0.464723172f * d6);
    const float2 even3 = x0 + 0.12053668f * s1 + -0.970941817f * s2 + -0.354604887f * s3 + 0.885456026f * s4
        + 0.568064747f * s5 + -0.748510748f * s6;
    const float2 odd3 = times_minus_i(0.992708874f * d1 + 0.239315664f * d2 + -0.935016243f * d3 +
        -0.464723172f * d4 + 0.822983866f * d5 + 0.663122658f * d6);
    const float2 even4 = x0 + -0.354604887f * s1 + -0.748510748f * s2 + 0.885456026f * s3 + 0.12053668f * s4
        + -0.970941817f * s5 + 0.568064747f * s6;
    const float2 odd4 = times_minus_i(0.935016243f * d1 + -0.663122658f * d2 + -0.464723172f * d3 +
        0.992708874f * d4 + -0.239315664f * d5 + -0.822983866f * d6);
    const float2 even5 = x0 + -0.748510748f * s1 + 0.12053668f * s2 + 0.568064747f * s3 + -0.970941817f * s4
        + 0.885456026f * s5 + -0.354604887f * s6;
    const float2 odd5 = times_minus_i(0.663122658f * d1 + -0.992708874f * d2 + 0.822983866f * d3 +
        -0.239315664f * d4 + -0.464723172f * d5 + 0.935016243f * d6);
    const float2 even6 = x0 + -0.970941817f * s1 + 0.885456026f * s2 + -0.748510748f * s3 + 0.568064747f *
        s4 + -0.354604887f * s5 + 0.12053668f * s6;
    const float2 odd6 = times_minus_i(0.239315664f * d1 + -0.464723172f * d2 + 0.663122658f * d3 +
        -0.822983866f * d4 + 0.935016243f * d5 + -0.992708874f * d6);
    x0 = x0 + s1 + s2 + s3 + s4 + s5 + s6;
    x1 = even1 + odd1;
    x12 = even1 - odd1;
    x2 = even2 + odd2;
    x11 = even2 - odd2;
    x3 = even3 + odd3;
    x10 = even3 - odd3;
    x4 = even4 + odd4;
    x9 = even4 - odd4;
    x5 = even5 + odd5;
    x8 = even5 - odd5;
    x6 = even6 + odd6;
    x7 = even6 - odd6;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

constexpr long long kLowOffset = 32;  // fp16 numbers from a high part to its low part
constexpr long long kImaginaryOffset = 8945664;  // fp16 numbers from a real part to the imaginary part
constexpr int kSignalsPerScale = 384;  // consecutive signals that share one scale, a power of two

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned floats_to_half2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float(static_cast<unsigned>(127 + exponent) << 23);
}

// Pointer to spectra in split fp16 format: a scaled real number is the sum of a high and a low fp16 part. The scale is
// a
// power of two, one for each group of kSignalsPerScale signals.
struct Spectra {
    unsigned short* parts;
    const int* exponents;  // exponents of the scales
    long long number;  // complex number that it points to
    int first;  // first signal of the tile
};

__device__ __forceinline__ Spectra operator+(Spectra spectra, long long further) {
    spectra.number += further;
    return spectra;
}

// Spectra of the tile that begins with signal `first`.
__device__ __forceinline__ Spectra of_tile(Spectra spectra, long long first) {
    return {spectra.parts, spectra.exponents, spectra.number + first, static_cast<int>(first)};
}

// Scale of a signal of the tile. Two signals of one complex transform are in the same group.
__device__ __forceinline__ float scale_of(Spectra spectra, int signal) {
    return power_of_two(__ldg(spectra.exponents + (spectra.first + signal) / kSignalsPerScale));
}

__device__ __forceinline__ unsigned short* high_part(Spectra spectra) {
    const long long number = spectra.number;
    return spectra.parts + (number + (number & ~31ll));
}

__device__ __forceinline__ void store_split(unsigned short* target, float number) {
    const unsigned short high = float_to_half(number);
    target[0] = high;
    target[kLowOffset] = float_to_half(number - half_to_float(high));
}

__device__ __forceinline__ void store(Spectra target, float scale, float2 value) {
    unsigned short* const high = high_part(target);
    const float2 scaled = scale * value;
    store_split(high, scaled.x);
    store_split(high + kImaginaryOffset, scaled.y);
}

// Stores two neighbouring numbers as 32-bit words of two fp16 parts; the first number has an even index.
__device__ __forceinline__ void store_split_pair(unsigned short* target, float one, float other) {
    const unsigned high = floats_to_half2(one, other);
    *reinterpret_cast<unsigned*>(target) = high;
    *reinterpret_cast<unsigned*>(target + kLowOffset) =
        floats_to_half2(one - half_to_float(high & 0xffff), other - half_to_float(high >> 16));
}

__device__ __forceinline__ void store_pair(Spectra target, float scale, float2 one, float2 other) {
    unsigned short* const high = high_part(target);
    one = scale * one;
    other = scale * other;
    store_split_pair(high, one.x, other.x);
    store_split_pair(high + kImaginaryOffset, one.y, other.y);
}

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Loads element (t, y, x) of the tile: of two consecutive real signals, as real and imaginary part.
__device__ __forceinline__ float2 load_signal(const float* signal, int t, int y, int x) {
    const float* const element = signal + 2 * t * 169 + y * 13 + x;
    return make_float2(element[0], element[169]);
}

// Offset of frequency (y, x) from the start of the tile's spectra.
__device__ __forceinline__ long long spectrum_offset(int transform, int y, int x) {
    return static_cast<long long>(y * 7 + x) * 49152 + transform;
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float* __restrict__ source,
    Spectra target,
    float2* tile, unsigned thread) {
    // Pass 1: 13 points along y.
    if (const unsigned i = thread; i < 208) {
        const int x = modulo<13>(i);
        const int t = quotient<13>(i);
        float2 v[13];
        float2* const element = tile + t * 173 + x;
#pragma unroll
        for (int j = 0; j < 13; ++j) {
            v[j] = load_signal(source, t, j, x);
        }
        dft13(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]);
#pragma unroll
        for (int j = 0; j < 13; ++j) {
            element[j * 13] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 13 points along x.
    if (const unsigned i = thread; i < 208) {
        const int t = i % 16u;
        const int y = i / 16u;
        float2 v[13];
        float2* const element = tile + t * 173 + y * 13;
#pragma unroll
        for (int j = 0; j < 13; ++j) {
            v[j] = element[j];
        }
        dft13(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]);
#pragma unroll
        for (int j = 0; j < 13; ++j) {
            element[j] = v[j];
        }
    }
    __syncthreads();

    // Splits the spectrum of the complex signal into the half spectra of the real signals.
#pragma unroll
    for (int step = 0; step < 7; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 6 && i >= 1456) {
            break;
        }
        const int t = i % 16u;
        const int x = modulo<7>(i / 16u);
        const int y = quotient<112>(i);
        const int mirrored_y = y == 0 ? 0 : 13 - y;
        const int mirrored_x = x == 0 ? 0 : 13 - x;

        const float2 z = tile[t * 173 + y * 13 + x],
                     m = conjugate(tile[t * 173 + mirrored_y * 13 + mirrored_x]);
        store_pair(target + spectrum_offset(2 * t, y, x), scale_of(target, 2 * t), kHalfScale * (z + m),
                   kHalfScale * times_minus_i(z - m));
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float* __restrict__ source,
          const int* __restrict__ exponents, unsigned short* __restrict__ parts) {
    const Spectra target{parts, exponents, 0, 0};
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const tile = shared;
    const long long number = blockIdx.x;
    const long long start = number * 32, first = min(start, kLast);
    transform(source + first * 169, of_tile(target, first),
              tile, thread);
}
