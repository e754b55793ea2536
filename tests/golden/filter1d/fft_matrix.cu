// warpsmith filter1d_fft_matrix
// problem: filter1d signal=4096 taps=4096 batch=64 mode=causal dtype=bfloat16 channels=768 filters=768 precision=f16
// config:  ahead=396 fetch=1 min_blocks=3 radix=16 rows=2 warps=8 weights=global
//
// Negacyclic transforms of 4096 complex numbers on tensor cores, in float16: samples are real parts.
// An outer transform of 16 samples 256 apart goes through shared memory; along each of its
// frequencies a warp has two transforms of 16, the product with the filter's spectrum and the two back in
// registers. Factors between the outer transform and the next one are part of that one's matrices.

constexpr int kSignal = 4096;  // samples of a row
constexpr int kOutputs = 4096;  // outputs of a row
constexpr int kFirstLag = -4095;  // sample under tap 0 of the first output
constexpr int kShift = 0;  // place of the first output in the full convolution
constexpr int kRadix = 16;  // of the outer transform; k1 counts its frequencies
constexpr int kPoints = 256 * kRadix;  // complex numbers of a row
constexpr int kRows = 2;  // rows of a thread block, which share a filter
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr unsigned kFilterRows = 64;  // rows of all signals that share a filter
constexpr unsigned kGroups = 32;  // thread blocks of a filter
constexpr unsigned kAhead = 396;  // thread blocks from one to the one whose samples it prefetches
constexpr int kLoadVector = 8;  // samples of a load
constexpr int kStoreVector = 8;  // outputs of a store

constexpr int kRowTiles = kRadix / 8;  // tiles of 8 outer frequencies, real and imaginary parts
constexpr int kTimeTiles = (kRadix + 15) / 16;  // tiles of 16 samples 256 apart
constexpr int kSignalTiles = 1;  // those that have samples
constexpr float kOuterScale = 16.0f;  // the outer transform is divided by it
constexpr int kOutputTiles = 1;  // those that have outputs
constexpr int kFragment = 32;  // vectors of 16 bytes of a 16x16 matrix of a warp: one a lane
constexpr int kPlane = 512;  // bytes of 256 real or imaginary parts in shared memory
constexpr int kLine = 2 * kPlane + 16;  // bytes of an outer frequency; 8 of them meet no bank twice
constexpr int kRowBytes = kRadix * kLine;

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = float;
using Number = float;  // a sample, or a sum, in registers
using Weight = float;  // a tap in registers

// A bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<unsigned short>(value != value ? 0x7fffu : rounded >> 16);
#endif
}

__device__ __forceinline__ Number to_number(Sample bits) { return bfloat_to_float(bits); }
__device__ __forceinline__ Weight to_weight(Tap element) { return element; }
__device__ __forceinline__ Result to_result(Number sum) { return float_to_bfloat(sum); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void add(Number part, Number& sum) { sum += part; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

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

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

constexpr int kTaps = 4096;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// sums += a * b: 16x16 by 16x8 fp16 with float32 accumulators, in the register layout of mma.m16n8k16.
__device__ __forceinline__ void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, "
        "{ %8, %9 }, { %0, %1, %2, %3 };"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
using SharedAddress = unsigned;  // 32-bit byte address: takes fewer instructions than a generic pointer

__device__ __forceinline__ SharedAddress shared_address(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

// Loads four 8x8 matrices of 16-bit elements, transposed, in the fragment layout of mma. Lane l passes the address
// of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(SharedAddress row, unsigned& first, unsigned& second, unsigned& third,
                                           unsigned& fourth) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "r"(row));
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned multiply_half2(unsigned a, unsigned b) {
    unsigned products;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(products) : "r"(a), "r"(b));
    return products;
}
#endif

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// a * b + c with fp16 accumulators: two words of a thread, adjacent columns of rows lane / 4 and lane / 4 + 8.
__device__ __forceinline__ void mma_f16_f16(unsigned& d0, unsigned& d1, const unsigned (&a)[4], unsigned b0,
                                            unsigned b1, unsigned c0, unsigned c1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 { %0, %1 }, { %2, %3, %4, %5 }, { %6, %7 }, { %8, %9 };"
        : "=r"(d0), "=r"(d1)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c0), "r"(c1));
}

__device__ __forceinline__ unsigned fma_half2(unsigned a, unsigned b, unsigned c) {
    unsigned sums;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
    return sums;
}

__device__ __forceinline__ unsigned negate_half2(unsigned a) {
    unsigned negated;
    asm("neg.f16x2 %0, %1;" : "=r"(negated) : "r"(a));
    return negated;
}

// Loads what one thread block reads once, past the L1 lines that have the tables.
__device__ __forceinline__ uint4 load_once(const uint4* address) {
    uint4 words;
    asm("ld.global.nc.L1::no_allocate.v4.u32 { %0, %1, %2, %3 }, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(address));
    return words;
}

__device__ __forceinline__ unsigned max_of_halves(unsigned a, unsigned b) { return __vmaxu2(a, b); }
#endif

// Real or imaginary parts of a 16x16 matrix, as a thread of a warp has them after mma: word w has the elements of row
// lane / 4 + w % 2 * 8 in columns lane % 4 * 2 + w / 2 * 8 and the next one.
struct Parts {
    unsigned words[4];
};

struct Complex {
    Parts re, im;
};

__device__ __forceinline__ Parts parts_of(const uint4& words) { return {{words.x, words.y, words.z, words.w}}; }

__device__ __forceinline__ Parts negated(const Parts& a) {
    Parts negative;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        negative.words[w] = a.words[w] ^ 0x80008000u;
    }
    return negative;
}

// sum = a * transposed(b). Both have the layout of results, so that products follow each other in registers.
__device__ __forceinline__ void multiply(const Parts& a, const Parts& b, Parts& sum) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        mma_f16_f16(sum.words[2 * n], sum.words[2 * n + 1], a.words, b.words[n], b.words[n + 2], 0u, 0u);
    }
}

__device__ __forceinline__ void multiply_add(const Parts& a, const Parts& b, Parts& sum) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        mma_f16_f16(sum.words[2 * n], sum.words[2 * n + 1], a.words, b.words[n], b.words[n + 2], sum.words[2 * n],
                    sum.words[2 * n + 1]);
    }
}

// (cosines + i sines) * transposed(b), where `minus` is -sines.
__device__ __forceinline__ Complex matrix_times(const Parts& cosines, const Parts& sines, const Parts& minus,
                                                const Complex& b) {
    Complex product;
    multiply(cosines, b.re, product.re);
    multiply(cosines, b.im, product.im);
    multiply_add(minus, b.im, product.re);
    multiply_add(sines, b.re, product.im);
    return product;
}

// a * transposed(cosines + i sines), where `minus` is -sines.
__device__ __forceinline__ Complex times_matrix(const Complex& a, const Parts& cosines, const Parts& sines,
                                                const Parts& minus) {
    Complex product;
    multiply(a.re, cosines, product.re);
    multiply(a.im, cosines, product.im);
    multiply_add(a.im, minus, product.re);
    multiply_add(a.re, sines, product.im);
    return product;
}

// Multiplies each element by its factor.
__device__ __forceinline__ void multiply_by(const Complex& factors, Complex& a) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const unsigned re = a.re.words[w], im = a.im.words[w];
        const unsigned c = factors.re.words[w], s = factors.im.words[w];
        a.re.words[w] = fma_half2(re, c, negate_half2(multiply_half2(im, s)));
        a.im.words[w] = fma_half2(im, c, multiply_half2(re, s));
    }
}

// Multiplies each element by the conjugate of its factor.
__device__ __forceinline__ void multiply_by_conjugate(const Complex& factors, Complex& a) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const unsigned re = a.re.words[w], im = a.im.words[w];
        const unsigned c = factors.re.words[w], s = factors.im.words[w];
        a.re.words[w] = fma_half2(re, c, multiply_half2(im, s));
        a.im.words[w] = fma_half2(im, c, negate_half2(multiply_half2(re, s)));
    }
}

__device__ __forceinline__ Complex load_complex(const uint4* fragments, int lane) {
    return {parts_of(__ldg(fragments + lane)), parts_of(__ldg(fragments + kFragment + lane))};
}

// Number of a row of a filter among the channels of all signals.
__device__ __forceinline__ size_t place_of(int filter, int row) {
    return static_cast<size_t>(row) * 768 + filter;
}

// Channel, and elements to the first sample and the first output, of a row of a filter.
struct Row {
    int channel;
    size_t signal, result;
};

__device__ __forceinline__ Row row_of(int filter, int row) {
    const size_t place = place_of(filter, row);
    return {filter, place * 4096, place * 4096};
}

// Row `number` of those that share a filter. Rows that do not exist are computed as the last one, and not stored.
__device__ __forceinline__ Row row_at(int filter, unsigned number) {
    return row_of(filter, static_cast<int>(min(number, kFilterRows - 1)));
}

// Eight adjacent samples from `place` on; zeros behind the signal.
__device__ __forceinline__ uint4 load_samples(const Sample* samples, int place) {
    unsigned words[4] = {};
    if (place + 8 <= kSignal) {
        if constexpr (kLoadVector == 8) {
            return load_once(reinterpret_cast<const uint4*>(samples + place));
        } else if constexpr (kLoadVector == 4) {
            const uint2* const halves = reinterpret_cast<const uint2*>(samples + place);
            const uint2 low = __ldg(halves), high = __ldg(halves + 1);
            return make_uint4(low.x, low.y, high.x, high.y);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (kLoadVector == 2) {
                    words[i] = __ldg(reinterpret_cast<const unsigned*>(samples + place) + i);
                } else {
                    const Sample* const pair = samples + place + 2 * i;
                    words[i] = __ldg(pair) | static_cast<unsigned>(__ldg(pair + 1)) << 16;
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (place + i < kSignal) {
                words[i / 2] |= static_cast<unsigned>(__ldg(samples + place + i)) << i % 2 * 16;
            }
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Reciprocal of a power of two that is no subnormal number, and neither is its reciprocal.
__device__ __forceinline__ float reciprocal(float power) {
    return __uint_as_float((254u << 23) - __float_as_uint(power));
}

// Power of two that brings a row's largest magnitude, given as its bits, below 1.
__device__ __forceinline__ float scale_of(unsigned peak) {
    return __uint_as_float(static_cast<unsigned>(max(253 - static_cast<int>(peak >> 7), 1)) << 23);
}

// Two adjacent samples of two places, scaled: words of float16, of the first ones and of the second ones.
__device__ __forceinline__ void convert(unsigned one, unsigned other, float scale, unsigned& first, unsigned& second) {
    first = floats_to_half2(__uint_as_float(one << 16) * scale, __uint_as_float(other << 16) * scale);
    second = floats_to_half2(__uint_as_float(one & 0xffff0000u) * scale, __uint_as_float(other & 0xffff0000u) * scale);
}

// Stores eight adjacent outputs from `place` on, as far as the row has them.
__device__ __forceinline__ void store_outputs(Result* results, int place, const unsigned (&words)[4]) {
    if (place + 8 <= kOutputs) {
        if constexpr (kStoreVector == 8) {
            __stcs(reinterpret_cast<uint4*>(results + place), make_uint4(words[0], words[1], words[2], words[3]));
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (kStoreVector == 2) {
                    __stcs(reinterpret_cast<unsigned*>(results + place) + i, words[i]);
                } else {
                    results[place + 2 * i] = static_cast<Result>(words[i]);
                    results[place + 2 * i + 1] = static_cast<Result>(words[i] >> 16);
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (place + i < kOutputs) {
                results[place + i] = static_cast<Result>(words[i / 2] >> i % 2 * 16);
            }
        }
    }
}

// Sample `at` of a channel; 0 outside of it.
__device__ __forceinline__ Number sample_at(const Sample* samples, int at) {
    // Converted behind the condition: ptxas would keep a predicate for each load until its conversion, and wait.
    const bool is_inside = static_cast<unsigned>(at) < kSignal;
    return to_number(is_inside ? __ldg(samples + at) : Sample{});
}

// True if a stored output is finite, and thus unaffected by samples outside its window.
__device__ __forceinline__ bool is_settled(Result stored) {
    return (stored & 0x7f80) != 0x7f80;
}

// Sum of the window at sample `lag` by its taps alone.
__device__ __forceinline__ Number sum_of_window(const Sample* samples, const Weights& weights, int f, int lag) {
    const int first = lag < 0 ? static_cast<int>(-lag) : 0;
    const int end = kSignal - lag < kTaps ? static_cast<int>(kSignal - lag) : kTaps;
    Number sum = zero();
    constexpr int kChain = 256;  // taps added in sequence; longer sums are sums of such partial sums
    for (int start = first; start < end; start += kChain) {
        Number part = zero();
        for (int k = start; k < min(start + kChain, end); ++k) {
            multiply_add(tap(weights, f, k), sample_at(samples, lag + k), part);
        }
        add(part, sum);
    }
    return sum;
}

// Places in the tables, in vectors of 16 bytes. A matrix is a fragment, a vector a lane; a complex one is two of them.
constexpr int kOuter = 0;  // outer transform forward: [kRowTiles][kTimeTiles]
constexpr int kOuterBack = kRowTiles * kTimeTiles * kFragment;  // and back: [kTimeTiles][kRowTiles]
constexpr int kInner = 2 * kOuterBack;  // transform of 16 points
constexpr int kFrequencies = kInner + 2 * kFragment;  // of each outer frequency: first transform, factors before and
                                                      // after the product, last transform
constexpr int kWords = 4 * (kFrequencies + kRadix * 8 * kFragment);

// exp(2 pi i numerator / denominator).
__device__ __forceinline__ float2 root(int numerator, int denominator) {
    float2 value;
    sincospif(2.0f * static_cast<float>(numerator % denominator) / static_cast<float>(denominator), &value.y, &value.x);
    return value;
}

// Column of number p of a row in shared memory, and frequency of a row or column of spectra.
__device__ __forceinline__ int column_of(int p) { return p % 2 * 8 + p / 2; }

// Element of a table of an outer frequency.
__device__ __forceinline__ float2 factor(int table, int k1, int row, int column) {
    const int shifted = 4 * k1 - 1;  // frequencies of negacyclic transforms are a quarter before those of cyclic ones
    switch (table) {
        case 0:  // rows: frequencies; columns: samples
            return root(column * (4 * kRadix * row + shifted), 64 * kRadix);
        case 1:  // rows: frequencies; columns: samples in the order of shared memory
            return root(column_of(column) * (4 * kRadix * row + shifted), 4 * kPoints);
        case 2:
            return root(column_of(row) * (4 * kRadix * column + shifted), 4 * kPoints);
        default:
            return root(row * (4 * kRadix * column + shifted), 64 * kRadix);
    }
}

// Element (row, column) of a fragment.
__device__ float element_of(int fragment, int row, int column) {
    if (fragment < 2 * kRowTiles * kTimeTiles) {
        const bool is_back = fragment >= kRowTiles * kTimeTiles;
        const int number = fragment % (kRowTiles * kTimeTiles);
        const int frequency = is_back ? number % kRowTiles : number / kTimeTiles;
        const int time = 16 * (is_back ? number / kRowTiles : number % kTimeTiles) + (is_back ? row : column);
        const int part = is_back ? column : row;
        const float2 value = root(time * (4 * (8 * frequency + part % 8) - 1), 4 * kRadix);
        const float scale = is_back ? 1.0f : 1.0f / kOuterScale;
        return time >= kRadix ? 0.0f : scale * (part < 8 ? value.x : -value.y);
    }
    fragment -= 2 * kRowTiles * kTimeTiles;
    const int table = fragment < 2 ? 0 : (fragment - 2) / 2 % 4, k1 = fragment < 2 ? 0 : (fragment - 2) / 8;
    const float2 value = fragment < 2 ? root(column_of(row) * column_of(column), 16) : factor(table, k1, row, column);
    const float scale = fragment >= 2 && table == 0 ? 1.0f / 16.0f : 1.0f;
    return scale * (fragment % 2 ? value.y : value.x);
}

// Computes the tables, a word a thread.
__device__ __forceinline__ void fill_tables(unsigned* tables, int first, int threads) {
    for (int i = first; i < kWords; i += threads) {
        const int lane = i / 4 % 32, word = i % 4;
        const int row = lane / 4 + word % 2 * 8, column = lane % 4 * 2 + word / 2 * 8;
        tables[i] = floats_to_half2(element_of(i / 128, row, column), element_of(i / 128, row, column + 1));
    }
}

// Tap at place `n` of a filter as the factor of a convolution; 0 outside of it.
__device__ __forceinline__ float tap_at(const Weights& weights, int filter, int n) {
    const int k = kTaps - 1 - (n + kShift);
    return k >= 0 && k < kTaps ? tap(weights, filter, k) : 0.0f;
}

// Number n of a filter in its negacyclic form: places kPoints apart are real and imaginary, with a sign beyond.
__device__ __forceinline__ float2 folded(const Weights& weights, int filter, int n) {
    return make_float2(tap_at(weights, filter, n) - tap_at(weights, filter, n - 2 * kPoints),
                       tap_at(weights, filter, n + kPoints) - tap_at(weights, filter, n - kPoints));
}

__device__ __forceinline__ void add_product(float2 a, float2 b, float2& sum) {
    sum.x = fmaf(a.x, b.x, fmaf(-a.y, b.y, sum.x));
    sum.y = fmaf(a.x, b.y, fmaf(a.y, b.x, sum.y));
}

__device__ __forceinline__ float2 times(float2 a, float2 b) {
    return make_float2(fmaf(a.x, b.x, -a.y * b.y), fmaf(a.x, b.y, a.y * b.x));
}

// Largest value, or sum, of all threads of a block.
template <bool kIsSum> __device__ __forceinline__ float reduce(float value, float* shared) {
#pragma unroll
    for (int distance = 16; distance; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = kIsSum ? value + other : fmaxf(value, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = shared[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) {
        value = kIsSum ? value + shared[i] : fmaxf(value, shared[i]);
    }
    return value;
}

// Power of two that brings the Euclidean norm of a filter below 1, to a half at least. Zeros and NaN have 1.
__device__ __forceinline__ float gain_scale(const Weights& weights, int filter, float* shared) {
    float peak = 0.0f, sum = 0.0f;
    for (int k = threadIdx.x; k < kTaps; k += 256) {
        peak = fmaxf(peak, fabsf(tap(weights, filter, k)));
    }
    peak = reduce<false>(peak, shared);
    if (!(peak > 0.0f && peak < __uint_as_float(0x7f800000u))) {
        return 1.0f;
    }
    const int exponent = static_cast<int>(__float_as_uint(peak) >> 23) - 126;
    const float scale = __uint_as_float(static_cast<unsigned>(min(max(127 - exponent, 1), 253)) << 23);
    for (int k = threadIdx.x; k < kTaps; k += 256) {
        const float scaled = tap(weights, filter, k) * scale;
        sum = fmaf(scaled, scaled, sum);
    }
    sum = sqrtf(reduce<true>(sum, shared));
    const int more = static_cast<int>(__float_as_uint(sum) >> 23) - 126;
    return __uint_as_float(static_cast<unsigned>(min(max(127 - exponent - more, 1), 253)) << 23);
}

// Spectra of the filters in float32, a block for 8 outer frequencies of a filter, scaled and rounded to float16 in the
// order in which the filtering kernel reads them; and the tables, by all blocks.
extern "C" __global__ void __launch_bounds__(256)
filter1d_fft_matrix_spectrum(unsigned* __restrict__ tables, unsigned* __restrict__ spectra,
                             float* __restrict__ scales, const Weights weights, Tap* __restrict__ taps) {
    __shared__ float2 roots[4 * kRadix], small[16], numbers[8][256];
    __shared__ float shared[8];
    const int m2 = threadIdx.x, filter = blockIdx.x / kRowTiles, k0 = blockIdx.x % kRowTiles * 8;
    fill_tables(tables, blockIdx.x * 256 + m2, gridDim.x * 256);
    for (size_t i = blockIdx.x * 256u + m2; i < 3145728ull; i += gridDim.x * 256u) {
        taps[i] = weights.taps[i];
    }
    for (int i = m2; i < 4 * kRadix; i += 256) {
        roots[i] = root(4 * kRadix - i, 4 * kRadix);
    }
    if (m2 < 16) {
        small[m2] = root(16 - m2, 16);
    }
    const float scale = gain_scale(weights, filter, shared);
    if (m2 == 0 && k0 == 0) {
        scales[filter] = 1.0f / scale;
    }
    float2 sums[8] = {};
    int turn[8] = {};
    for (int m1 = 0; m1 < kRadix; ++m1) {
        const float2 value = folded(weights, filter, 256 * m1 + m2);
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            add_product(value, roots[turn[q]], sums[q]);
            turn[q] += 4 * (k0 + q) - 1;
            turn[q] += turn[q] < 0 ? 4 * kRadix : turn[q] >= 4 * kRadix ? -4 * kRadix : 0;
        }
    }
    constexpr float kGain = kOuterScale / (16.0f * kRadix);  // what the transforms' scales leave of 1 / kPoints
#pragma unroll
    for (int q = 0; q < 8; ++q) {
        float2 w = root(m2 * (4 * (k0 + q) - 1), 4 * kPoints);
        w = make_float2(w.x * scale * kGain, -w.y * scale * kGain);
        numbers[q][m2] = times(sums[q], w);
    }
    __syncthreads();
    const int k2 = m2 / 16, b = m2 % 16;
    const float2 twiddle = root(256 - k2 * b, 256);
#pragma unroll
    for (int q = 0; q < 8; ++q) {
        sums[q] = make_float2(0.0f, 0.0f);
    }
    for (int a = 0; a < 16; ++a) {
        const float2 w = small[a * k2 % 16];
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            add_product(numbers[q][16 * a + b], w, sums[q]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 8; ++q) {
        numbers[q][m2] = times(sums[q], twiddle);
    }
    __syncthreads();
    const int word = m2 % 4, own = m2 / 128, row = m2 % 128 / 16 + word % 2 * 8, column = m2 / 4 % 4 * 2 + word / 2 * 8;
    float2 pairs[4][2] = {};  // of every other outer frequency, in columns `column` and the next one
    for (int n = 0; n < 16; ++n) {
        const float2 low = small[n * column_of(column) % 16], high = small[n * column_of(column + 1) % 16];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 number = numbers[2 * i + own][16 * row + n];
            add_product(number, low, pairs[i][0]);
            add_product(number, high, pairs[i][1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned* const target = spectra + (static_cast<size_t>(filter) * kRadix + k0 + 2 * i + own) * 256 + m2 % 128;
        target[0] = floats_to_half2(pairs[i][0].x, pairs[i][1].x);
        target[128] = floats_to_half2(pairs[i][0].y, pairs[i][1].y);
    }
}

#ifndef WARPSMITH_ON_HOST  // the host device has its own
// Prefetches the cache line at `address` into L2.
__device__ __forceinline__ void fetch_line(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}
#endif

// Brings the samples of a later thread block into L2: its loads then wait for L2 and not for memory.
__device__ __forceinline__ void prefetch(const Sample* __restrict__ signal) {
    const unsigned later = blockIdx.x + kAhead;
    if (later < gridDim.x) {
        constexpr int kLines = (2 * kSignal + 127) / 128;  // of a row
        for (int i = threadIdx.x; i < kRows * kLines; i += kThreads) {
            const Row own = row_at(static_cast<int>(later / kGroups), later % kGroups * kRows + i / kLines);
            fetch_line(signal + own.signal + i % kLines * 64);
        }
    }
}

constexpr int kItems = 4 * kRows;  // groups of 64 columns of all rows
constexpr int kShares = kWarps > kItems ? kWarps / kItems : 1;  // warps that share one
static_assert(kWarps % kItems == 0 || kItems % kWarps == 0);

// Largest magnitude of a warp's samples, as bits.
__device__ __forceinline__ unsigned largest(unsigned peak, const uint4& samples) {
    constexpr unsigned kMagnitudes = 0x7fff7fffu;
    peak = max_of_halves(max_of_halves(peak, samples.x & kMagnitudes), samples.y & kMagnitudes);
    return max_of_halves(max_of_halves(peak, samples.z & kMagnitudes), samples.w & kMagnitudes);
}

// First place of the vectors of a lane: 8 samples at four of the 16 times of a tile.
__device__ __forceinline__ int sample_place(int tile, int i, int group, int lane) {
    return 256 * (16 * tile + lane % 4 * 2 + i % 2 + i / 2 * 8) + 64 * group + lane / 4 * 8;
}

// Scale of the row of an item.
__device__ __forceinline__ float row_scale(const unsigned* peaks, int item) {
    const uint4 all = *reinterpret_cast<const uint4*>(peaks + item / 4 * 4);
    return scale_of(max(max(all.x, all.y), max(all.z, all.w)));
}

// Outer transforms of the samples, to shared memory: along each outer frequency its 256 numbers, 16 rows of 16. Of row
// a, number 2 j + h is that of column 16 a + 8 h + j.
__device__ __forceinline__ void forward(const Sample* __restrict__ signal, const uint4* __restrict__ tables,
                                        unsigned char* tile, unsigned* peaks, int filter, unsigned first) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    constexpr bool kIsKept = kItems <= kWarps && kSignalTiles <= 2;  // samples wait in registers for the scale
    constexpr int kPasses = kSignalTiles > 4 ? 2 : 1, kColumns = 8 / kPasses;  // so that operands fit the registers
    uint4 kept[kIsKept ? kSignalTiles : 1][4];
    for (int item = warp / kShares; item < kItems; item += kWarps / kShares) {
        const Sample* const samples = signal + row_at(filter, first + item / 4).signal;
        unsigned peak = 0;
#pragma unroll
        for (int k = 0; k < kSignalTiles; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint4 loaded = load_samples(samples, sample_place(k, i, item % 4, lane));
                if constexpr (kIsKept) {
                    kept[k][i] = loaded;
                }
                peak = largest(peak, loaded);
            }
        }
        peak = __reduce_max_sync(0xffffffffu, max(peak & 0xffffu, peak >> 16));
        if (lane == 0) {
            peaks[item] = peak;
        }
    }
    prefetch(signal);
    __syncthreads();
    for (int item = warp / kShares; item < kItems; item += kWarps / kShares) {
        const Sample* const samples = signal + row_at(filter, first + item / 4).signal;
        const float scale = row_scale(peaks, item);
        const int a = item % 4 * 4 + t;
        unsigned char* const to = tile + item / 4 * kRowBytes + g * kLine + a * 32;
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            unsigned columns[kSignalTiles][kColumns][2];
#pragma unroll
            for (int k = 0; k < kSignalTiles; ++k) {
                uint4 loaded[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if constexpr (kIsKept) {
                        loaded[i] = kept[k][i];
                    } else {
                        loaded[i] = load_samples(samples, sample_place(k, i, item % 4, lane));
                    }
                }
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint4 one = loaded[2 * i], other = loaded[2 * i + 1];
                    const unsigned ones[4] = {one.x, one.y, one.z, one.w};
                    const unsigned others[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
                    for (int j = 0; j < kColumns; j += 2) {
                        const int word = pass * kColumns / 2 + j / 2;
                        convert(ones[word], others[word], scale, columns[k][j][i], columns[k][j + 1][i]);
                    }
                }
            }
            for (int row_tile = warp % kShares; row_tile < kRowTiles; row_tile += kShares) {
                float sums[kColumns][4] = {};
#pragma unroll
                for (int k = 0; k < kSignalTiles; ++k) {
                    const uint4* const fragment = tables + kOuter + (row_tile * kTimeTiles + k) * kFragment;
                    const Parts roots = parts_of(__ldg(fragment + lane));
#pragma unroll
                    for (int j = 0; j < kColumns; ++j) {
                        mma_f16(sums[j], roots.words, columns[k][j]);
                    }
                }
#pragma unroll
                for (int i = 0; i < kColumns / 2; ++i) {  // four words of real parts, or of imaginary parts
                    const int plane = i % 2, j = i / 2 * 4;
                    const uint4 words = make_uint4(floats_to_half2(sums[j][2 * plane], sums[j][2 * plane + 1]),
                                                   floats_to_half2(sums[j + 1][2 * plane], sums[j + 1][2 * plane + 1]),
                                                   floats_to_half2(sums[j + 2][2 * plane], sums[j + 2][2 * plane + 1]),
                                                   floats_to_half2(sums[j + 3][2 * plane], sums[j + 3][2 * plane + 1]));
                    const int half = (pass * kColumns / 4 + i / 2) ^ a / 4 % 2;
                    *reinterpret_cast<uint4*>(to + row_tile * 8 * kLine + plane * kPlane + half * 16) = words;
                }
            }
        }
    }
}

// What a warp loads ahead: the first matrix of an outer frequency.
struct Ahead {
    Complex first;
};

__device__ __forceinline__ Ahead load_ahead(const uint4* __restrict__ tables, const uint4* __restrict__ spectrum,
                                            int k1) {
    const int lane = threadIdx.x % 32;
    return {load_complex(tables + kFrequencies + k1 * 8 * kFragment, lane)};
}

// Transforms of 256 points along each outer frequency, the product with the filter's spectrum, and the transforms
// back. A warp takes one frequency of all rows at a time, in registers.
__device__ __forceinline__ void multiply(const uint4* __restrict__ tables, const uint4* __restrict__ spectrum,
                                         const Complex& roots, Ahead ahead, unsigned char* tile) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, a = lane % 16;
    const Parts minus = negated(roots.im);
    const SharedAddress from = shared_address(tile) + a * 32 + ((lane / 16 ^ a / 4 % 2) << 4);
    unsigned char* const to = tile + (g / 4 * 32 + 4 * t + 16 * (g / 4) + g % 4) * 4;
    for (int k1 = threadIdx.x / 32; k1 < kRadix; k1 += kWarps) {
        const uint4* const own = tables + kFrequencies + k1 * 8 * kFragment;
        const Complex first = ahead.first;
        const Complex twiddles = load_complex(own + 2 * kFragment, lane);
        const Complex twiddles_back = load_complex(own + 4 * kFragment, lane);
        const Complex last = load_complex(own + 6 * kFragment, lane);
        const Complex gains = load_complex(spectrum + k1 * 2 * kFragment, lane);
        if (k1 + kWarps < kRadix) {
            ahead = load_ahead(tables, spectrum, k1 + kWarps);
        }
        const Parts first_minus = negated(first.im), last_minus = negated(last.im);
        constexpr int kSteps = kRows > 2 ? 2 : kRows;  // rows at a time
#pragma unroll 1
        for (int start = 0; start < kRows; start += kSteps) {
            Complex z[kSteps];
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                const SharedAddress line = from + (start + r) * kRowBytes + k1 * kLine;
                Parts &re = z[r].re, &im = z[r].im;
                ldmatrix_x4_trans(line, re.words[0], re.words[2], re.words[1], re.words[3]);
                ldmatrix_x4_trans(line + kPlane, im.words[0], im.words[2], im.words[1], im.words[3]);
            }
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                z[r] = matrix_times(first.re, first_minus, first.im, z[r]);
                multiply_by_conjugate(twiddles, z[r]);
            }
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                z[r] = times_matrix(z[r], roots.re, minus, roots.im);
                multiply_by(gains, z[r]);
            }
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                z[r] = matrix_times(roots.re, roots.im, minus, z[r]);
                multiply_by(twiddles_back, z[r]);
            }
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                z[r] = matrix_times(last.re, last.im, last_minus, z[r]);
            }
            __syncwarp();
#pragma unroll
            for (int r = 0; r < kSteps; ++r) {
                unsigned char* const target = to + (start + r) * kRowBytes + k1 * kLine;
#pragma unroll
                for (int w = 0; w < 4; ++w) {  // w / 2 is the half of the columns, w % 2 of the rows
                    const int place = w % 2 * 256 + (w / 2 == 0 ? 0 : g / 4 == 0 ? 64 : -64);
                    *reinterpret_cast<unsigned*>(target + place) = z[r].re.words[w];
                    *reinterpret_cast<unsigned*>(target + place + kPlane) = z[r].im.words[w];
                }
            }
        }
    }
}

// Outer transforms back, and the outputs. Returns NaN if a row has an output that is not finite.
__device__ __forceinline__ float backward(Result* __restrict__ result, const uint4* __restrict__ tables,
                                          const unsigned char* tile, const unsigned* peaks, int filter, unsigned first,
                                          float filter_scale) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    constexpr int kTogether = kOutputTiles > 1 ? 2 : 1;  // tiles of 16 outputs 256 apart that a warp computes at once
    const uint4* const back = tables + kOuterBack + lane;
    float check = 0.0f;
    for (int item = warp / kShares; item < kItems; item += kWarps / kShares) {
        const int group = item % 4;
        const Row own = row_at(filter, first + item / 4);
        const float scale = filter_scale * reciprocal(row_scale(peaks, item));
        const SharedAddress row = shared_address(tile) + item / 4 * kRowBytes + group * 128;
        const SharedAddress from = row + lane % 8 * kLine + lane / 8 % 2 * kPlane + (lane / 16 << 4);
        const int swap = group % 2 ? 64 : 0;
        for (int time = warp % kShares * kTogether; time < kOutputTiles; time += kShares * kTogether) {
            float sums[kTogether][8][4] = {};
            for (int k = 0; k < kRowTiles; ++k) {
                unsigned columns[8][2];
#pragma unroll
                for (int j = 0; j < 8; j += 2) {
                    ldmatrix_x4_trans(from + k * 8 * kLine + (j * 16 ^ swap), columns[j][0], columns[j][1],
                                      columns[j + 1][0], columns[j + 1][1]);
                }
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    const int row_tile = min(time + i, kTimeTiles - 1);
                    const Parts roots = parts_of(__ldg(back + (row_tile * kRowTiles + k) * kFragment));
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        mma_f16(sums[i][j], roots.words, columns[j]);
                    }
                }
            }
            if (first + item / 4 >= kFilterRows) {
                continue;
            }
            Result* const results = result + own.result;
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                check = fmaf(0.0f, sums[i][0][0] * scale, check);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    unsigned pieces[2][4];
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
#pragma unroll
                        for (int j = 0; j < 8; j += 2) {
                            const float low = sums[i][j][2 * half + e] * scale;
                            const float high = sums[i][j + 1][2 * half + e] * scale;
                            pieces[e][j / 2] = bfloat_pair(low, high);
                        }
                    }
                    // Threads of rows four apart exchange pieces, so that a store of the warp fills lines of 128 bytes.
                    const bool is_upper = g >= 4;
#pragma unroll
                    for (int w = 0; w < 4; ++w) {
                        const unsigned sent = is_upper ? pieces[0][w] : pieces[1][w];
                        const unsigned got = __shfl_xor_sync(0xffffffffu, sent, 16);
                        pieces[0][w] = is_upper ? got : pieces[0][w];
                        pieces[1][w] = is_upper ? pieces[1][w] : got;
                    }
                    const int place = 256 * (16 * (time + i) + 8 * half + g % 4) + 64 * group + 16 * t + 8 * is_upper;
                    store_outputs(results, place, pieces[0]);
                    store_outputs(results, place + 4 * 256, pieces[1]);
                }
            }
        }
    }
    return check;
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
filter1d_fft_matrix(const Sample* __restrict__ signal, Result* __restrict__ result, const uint4* __restrict__ tables,
                    const uint4* __restrict__ spectra, const float* __restrict__ scales,
                    const Weights weights) {
    extern __shared__ __align__(16) unsigned char tile[];
    __shared__ __align__(16) unsigned peaks[4 * kRows];
    const int filter = static_cast<int>(blockIdx.x / kGroups);
    const unsigned first = blockIdx.x % kGroups * kRows;  // first row of this block among those of its filter
    forward(signal, tables, tile, peaks, filter, first);
    const uint4* const spectrum = spectra + static_cast<size_t>(filter) * kRadix * 2 * kFragment;
    const Complex roots = load_complex(tables + kInner, threadIdx.x % 32);
    const Ahead ahead = load_ahead(tables, spectrum, threadIdx.x / 32 % kRadix);
    __syncthreads();
    multiply(tables, spectrum, roots, ahead, tile);
    __syncthreads();
    const float scale = __ldg(scales + filter);
    const float check = backward(result, tables, tile, peaks, filter, first, scale);
    if (!__syncthreads_or(check != 0.0f)) {
        return;
    }
    // A NaN or an infinity spreads over its whole row: these outputs are summed again from their windows.
    for (int r = 0; r < kRows && first + r < kFilterRows; ++r) {
        const Row own = row_at(filter, first + r);
        const Sample* const samples = signal + own.signal;
        Result* const results = result + own.result;
        for (int n = threadIdx.x; n < kOutputs; n += kThreads) {
            if (!is_settled(results[n])) {
                const Number sum = sum_of_window(samples, weights, filter, kFirstLag + n);
                results[n] = to_result(sum);
            }
        }
    }
}
