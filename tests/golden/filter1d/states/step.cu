// warpsmith filter1d_step
// problem: filter1d signal=1 taps=4 batch=256 mode=causal dtype=bfloat16 channels=10240 filters=10240
//          taps_dtype=bfloat16 bias=yes activation=silu state=carried
// config:  rows=1 store_vector=2 threads=128 vector=2 weights=global
//
// A thread filters the new samples of kVector adjacent channels of kThreadRows signals, and moves their state on. It
// reads all that it needs before it writes, so that one wait for memory is all of a call.

constexpr int kSamples = 1;  // new samples of a channel
constexpr int kBatch = 256;
constexpr int kVector = 2;  // channels of a thread
constexpr int kThreadRows = 1;  // signals of a thread
constexpr int kGroups = 5120;  // threads across the channels
constexpr int kThreads = 128;
constexpr int kStoreVector = 2;  // results per store
constexpr int kHeld = 3;  // samples of a channel that a thread reads from the state

using Sample = unsigned short;  // bfloat16 bits
using Result = unsigned short;  // bfloat16 bits
using Tap = unsigned short;  // bfloat16 bits
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
__device__ __forceinline__ Weight to_weight(Tap bits) { return bfloat_to_float(bits); }

__device__ __forceinline__ Number zero() { return 0.0f; }
__device__ __forceinline__ void multiply_add(Weight weight, Number sample, Number& sum) {
    sum = fmaf(weight, sample, sum);
}

constexpr int kTaps = 4;

struct Weights {
    const Tap* taps;  // [filters][kTaps]
};

__device__ __forceinline__ Weight tap(const Weights& weights, int f, int k) {
    return to_weight(__ldg(weights.taps + static_cast<size_t>(f) * kTaps + k));
}

using StoreVector = unsigned;

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ unsigned pack(const Number* sums) {
    return bfloat_pair(sums[0], sums[1]);
}

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
__device__ __forceinline__ float exp2_approximate(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

__device__ __forceinline__ float reciprocal_approximate(float value) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(value));
    return reciprocal;
}
#endif

// SiLU of a sum and its bias: x / (1 + exp(-x)).
__device__ __forceinline__ Number finish(Number sum, Weight bias) {
    sum += bias;
    constexpr float kLog2E = 1.44269504f;  // exp(-x) is 2^(-x log2(e)); it is infinite below x = -88.7
    return sum * reciprocal_approximate(1.0f + exp2_approximate(-kLog2E * sum));
}

constexpr int kStateWidth = 3;  // samples of a channel in a row of the state
constexpr size_t kStatePitch = 30720;  // elements from one row to the next

template <int kBytes> struct WordOf;
template <> struct WordOf<1> { using Type = unsigned char; };
template <> struct WordOf<2> { using Type = unsigned short; };
template <> struct WordOf<4> { using Type = unsigned; };
template <> struct WordOf<8> { using Type = uint2; };
template <> struct WordOf<16> { using Type = uint4; };

// Bytes of the widest accesses, up to 16, that `bytes` bytes consist of: they are aligned to as much.
__device__ __forceinline__ constexpr int widest(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }

// Reads kCount adjacent elements.
template <int kCount, typename Element>
__device__ __forceinline__ void read_run(const Element* from, Element* to) {
    constexpr int kWidth = widest(kCount * sizeof(Element));
    using Word = typename WordOf<kWidth>::Type;
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth / sizeof(Element)) {
        const Word word = *reinterpret_cast<const Word*>(from + i);
        memcpy(to + i, &word, kWidth);
    }
}

// Writes kCount adjacent elements.
template <int kCount, typename Element>
__device__ __forceinline__ void write_run(Element* to, const Element* from) {
    constexpr int kWidth = widest(kCount * sizeof(Element));
    using Word = typename WordOf<kWidth>::Type;
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth / sizeof(Element)) {
        Word word;
        memcpy(&word, from + i, kWidth);
        *reinterpret_cast<Word*>(to + i) = word;
    }
}

// Place of sample i of a channel among the `samples` of all channels of a thread.
__device__ __forceinline__ constexpr int place_of(int lane, int i, int samples) { return lane * samples + i; }

// What a thread has read of one signal.
struct Row {
    int state_row;
    Sample samples[kVector * kSamples];
    Sample held[kVector * kHeld];  // the newest ones of the state
};

__device__ __forceinline__ void read_row(
    const Sample* signal, const Sample* state, int batch, int channel, Row& row) {
    row.state_row = batch;
    read_run<kVector * kSamples>(signal + batch * 10240ll + channel, row.samples);
    const Sample* own = state + row.state_row * kStatePitch + channel * 3ll;
    read_run<kVector * kHeld>(own, row.held);
}

// Moves the state of a signal on by its new samples.
__device__ __forceinline__ void write_state(Sample* state, int channel, const Row& row) {
    Sample* own = state + row.state_row * kStatePitch + channel * 3ll;
    Sample moved[kVector * kStateWidth];
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
#pragma unroll
        for (int i = 0; i < kStateWidth; ++i) {
            const int from = i + kSamples;  // in the state and the new samples behind it
            moved[place_of(lane, i, kStateWidth)] = from < kStateWidth
                ? row.held[place_of(lane, from, kHeld)]
                : row.samples[place_of(lane, from - kStateWidth, kSamples)];
        }
    }
    write_run<kVector * kStateWidth>(own, moved);
}

extern "C" __global__ void __launch_bounds__(kThreads)
filter1d_step(
    const Sample* __restrict__ signal, Result* __restrict__ result, const Weights weights,
    const Tap* __restrict__ bias,
    Sample* __restrict__ state) {
    const unsigned item = blockIdx.x * kThreads + threadIdx.x;
    const int channel = static_cast<int>(item % kGroups) * kVector;
    const int first = static_cast<int>(item / kGroups) * kThreadRows;
    if (first >= kBatch) {
        return;
    }
    Tap taps[kVector * kTaps];
    read_run<kVector * kTaps>(weights.taps + channel * static_cast<size_t>(kTaps), taps);
    Tap biases[kVector];
    read_run<kVector>(bias + channel, biases);
    Row rows[kThreadRows];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        if (first + i < kBatch) {
            read_row(signal, state, first + i, channel, rows[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        const int batch = first + i;
        if (batch >= kBatch) {
            return;
        }
        const Row& row = rows[i];
        Number sums[kVector * kSamples] = {};
        {
#pragma unroll
            for (int lane = 0; lane < kVector; ++lane) {
                Number window[kTaps - 1 + kSamples];
#pragma unroll
                for (int k = 0; k < kTaps - 1; ++k) {
                    window[k] = to_number(row.held[place_of(lane, kHeld - (kTaps - 1) + k, kHeld)]);
                }
#pragma unroll
                for (int t = 0; t < kSamples; ++t) {
                    window[kTaps - 1 + t] = to_number(row.samples[place_of(lane, t, kSamples)]);
                }
#pragma unroll
                for (int k = 0; k < kTaps; ++k) {
                    const Weight weight = to_weight(taps[lane * kTaps + k]);
#pragma unroll
                    for (int t = 0; t < kSamples; ++t) {
                        multiply_add(weight, window[k + t], sums[place_of(lane, t, kSamples)]);
                    }
                }
#pragma unroll
                for (int t = 0; t < kSamples; ++t) {
                    Number& sum = sums[place_of(lane, t, kSamples)];
                    sum = finish(sum, to_weight(biases[lane]));
                }
            }
            write_state(state, channel, row);
        }
        Result* target = result + batch * 10240ll + channel;
#pragma unroll
        for (int place = 0; place < kVector * kSamples; place += kStoreVector) {
            *reinterpret_cast<StoreVector*>(target + place) = pack(sums + place);
        }
    }
}
