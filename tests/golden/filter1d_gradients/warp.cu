// warpsmith filter1d_gradients_warp
// problem: filter1d signal=8192 taps=4 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=2048 bias=yes
//          activation=silu pass=backward
// config:  min_blocks=0 samples=8 store=streaming threads=32 tiles=32 vector=8
//
// Each lane of a warp has kSamples adjacent samples of a channel, and as many outputs. It takes the gradients of other
// outputs from the lanes beside it. A block keeps to one channel of one signal.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kChannels = 2048;
constexpr int kTaps = 4;
constexpr int kSamples = 8;  // adjacent samples of a lane
constexpr int kVector = 8;  // samples per load and store
constexpr int kGradientVector = 8;  // gradients per load
constexpr int kWarps = 1;  // of a block
constexpr int kTiles = 17;  // tiles of a warp, one after the other
constexpr int kUseful = 31;  // lanes of a warp with samples of their own; others help these
constexpr unsigned kBlocksAlong = 2;  // blocks of a channel of a signal
constexpr int kFirstGroup = 0;  // first group of kSamples samples
constexpr int kShift = 0;  // the lane of sample s has output s + kShift
constexpr int kLanesBefore = 0;  // lanes before a lane whose gradients it takes
constexpr int kEarliest = 0;  // first output whose window has the lane's first sample, from its own first on
constexpr int kBefore = 1;  // groups before its own, and after it, that the windows of a lane reach
constexpr int kAfter = 0;
constexpr int kFirst = 5;  // sample under tap 0 of a lane's first output, from the first sample loaded on

using Sample = unsigned short;  // bfloat16 bits
using Gradient = unsigned short;  // bfloat16 bits
using Tap = float;

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

__device__ __forceinline__ float to_weight(Tap bits) { return bits; }

__device__ __forceinline__ void unpack_samples(uint4 vector, float* numbers) {
    numbers[0] = __uint_as_float(vector.x << 16);
    numbers[1] = __uint_as_float(vector.x & 0xffff0000u);
    numbers[2] = __uint_as_float(vector.y << 16);
    numbers[3] = __uint_as_float(vector.y & 0xffff0000u);
    numbers[4] = __uint_as_float(vector.z << 16);
    numbers[5] = __uint_as_float(vector.z & 0xffff0000u);
    numbers[6] = __uint_as_float(vector.w << 16);
    numbers[7] = __uint_as_float(vector.w & 0xffff0000u);
}

__device__ __forceinline__ void unpack_gradients(uint4 vector, float* numbers) {
    numbers[0] = __uint_as_float(vector.x << 16);
    numbers[1] = __uint_as_float(vector.x & 0xffff0000u);
    numbers[2] = __uint_as_float(vector.y << 16);
    numbers[3] = __uint_as_float(vector.y & 0xffff0000u);
    numbers[4] = __uint_as_float(vector.z << 16);
    numbers[5] = __uint_as_float(vector.z & 0xffff0000u);
    numbers[6] = __uint_as_float(vector.w << 16);
    numbers[7] = __uint_as_float(vector.w & 0xffff0000u);
}

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ uint4 pack_samples(const float* numbers) {
    return make_uint4(bfloat_pair(numbers[0], numbers[1]),
                      bfloat_pair(numbers[2], numbers[3]),
                      bfloat_pair(numbers[4], numbers[5]),
                      bfloat_pair(numbers[6], numbers[7]));
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

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Slope of SiLU at x: s + x * s * (1 - s), where s = 1 / (1 + exp(-x)). `exponent` is -x * log2(e), which is what
// exp(-x) is a power of 2 of: taps and bias are multiplied by -log2(e) once, and not each sum.
__device__ __forceinline__ float slope(float exponent) {
    const float s = reciprocal_approximate(1.0f + exp2_approximate(exponent));  // 0 if the power is infinite
    return s * fmaf(exponent, fmaf(kLn2, s, -kLn2), 1.0f);
}

using SampleVector = uint4;
using GradientVector = uint4;

// Loads the vectors of kSamples samples from `start` on; zeros before the first and after the last of them.
__device__ __forceinline__ void load_samples(const Sample* channel, int start, SampleVector* loaded) {
#pragma unroll
    for (int i = 0; i < kSamples / kVector; ++i) {
        const int place = start + i * kVector;
        loaded[i] = SampleVector{};
        if (place >= 0 && place < kSignal) {
            loaded[i] = __ldg(reinterpret_cast<const SampleVector*>(channel + place));
        }
    }
}

// Loads the vectors of kSamples gradients from `start` on; zeros before the first and after the last of them.
__device__ __forceinline__ void load_gradients(const Gradient* channel, int start, GradientVector* loaded) {
#pragma unroll
    for (int i = 0; i < kSamples / kGradientVector; ++i) {
        const int place = start + i * kGradientVector;
        loaded[i] = GradientVector{};
        if (place >= 0 && place < kOutputs) {
            loaded[i] = __ldg(reinterpret_cast<const GradientVector*>(channel + place));
        }
    }
}

// Vectors in flight: those of a lane's samples, of the groups beside them, and of its gradients.
struct Loaded {
    SampleVector samples[(kBefore + 1 + kAfter) * kSamples / kVector];
    GradientVector gradients[kSamples / kGradientVector];

    // Loads what belongs to the group that begins at `sample`.
    __device__ __forceinline__ void load(const Sample* signal, const Gradient* gradient, int sample) {
#pragma unroll
        for (int group = 0; group <= kBefore + kAfter; ++group) {
            const int start = sample + (group - kBefore) * kSamples;
            load_samples(signal, start, samples + group * (kSamples / kVector));
        }
        load_gradients(gradient, sample + kShift, gradients);
    }
};

extern "C" __global__ void __launch_bounds__(kWarps * 32)
filter1d_gradients_warp(
    const Sample* __restrict__ signal,
    const Tap* __restrict__ weights,
    const Tap* __restrict__ bias,
    const Gradient* __restrict__ gradient,
    Sample* __restrict__ signal_gradient,
    float* __restrict__ partial_sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned block = blockIdx.x % kBlocksAlong;
    const unsigned row = blockIdx.x / kBlocksAlong;  // a channel of a signal
    const int channel = row % kChannels;
    signal += row * 8192ull;
    gradient += row * 8192ull;
    signal_gradient += row * 8192ull;
    float weights_of_filter[kTaps];
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
        weights_of_filter[k] = to_weight(__ldg(weights + channel * static_cast<size_t>(kTaps) + k));
    }
    float exponents[kTaps];  // taps of the exponents from which the activation's slope follows
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
        exponents[k] = -kLog2E * weights_of_filter[k];
    }
    const float exponent_bias = -kLog2E * to_weight(__ldg(bias + channel));
    float sums[5] = {};  // of the taps, and of the bias
    const bool has_samples = lane < kUseful;
    const int first_tile = static_cast<int>(block) * kTiles * kWarps + warp;
    const int first_group = kFirstGroup + first_tile * kUseful + lane;
    int sample = first_group * kSamples;  // the lane's first one
    Loaded loaded;
    loaded.load(signal, gradient, sample);
#pragma unroll 1
    for (int tile = 0; tile < kTiles; ++tile, sample += kWarps * kUseful * kSamples) {
        float window[(kBefore + 1 + kAfter) * kSamples];
#pragma unroll
        for (int i = 0; i < (kBefore + 1 + kAfter) * kSamples / kVector; ++i) {
            unpack_samples(loaded.samples[i], window + i * kVector);
        }
        float sloped[kSamples];  // gradients, then times the activation's slope
#pragma unroll
        for (int i = 0; i < kSamples / kGradientVector; ++i) {
            unpack_gradients(loaded.gradients[i], sloped + i * kGradientVector);
        }
        if (tile + 1 < kTiles) {
            loaded.load(signal, gradient, sample + kWarps * kUseful * kSamples);
        }
#pragma unroll
        for (int i = 0; i < kSamples; ++i) {
            float exponent = exponent_bias;
#pragma unroll
            for (int k = 0; k < kTaps; ++k) {
                exponent = fmaf(exponents[k], window[kFirst + i + k], exponent);
            }
            sloped[i] *= slope(exponent);
        }
#pragma unroll
        for (int start = 0; start < kSamples; start += kGradientVector) {
            const int output = sample + kShift + start;
            // Others add nothing: zero times a sample that is not finite is no number.
            const bool exists = output >= 0 && output < kOutputs;
            if (exists && has_samples) {
#pragma unroll
                for (int i = start; i < start + kGradientVector; ++i) {
#pragma unroll
                    for (int k = 0; k < kTaps; ++k) {
                        sums[k] = fmaf(sloped[i], window[kFirst + i + k], sums[k]);
                    }
                    sums[kTaps] += sloped[i];
                }
            }
        }
        // Gradients of the outputs whose windows have the lane's samples, from the last tap of its first sample on.
        float reaching[kSamples + kTaps - 1];
#pragma unroll
        for (int i = 0; i < kSamples + kTaps - 1; ++i) {
            // Output kEarliest + i of the lane, counted from the first lane that it takes gradients from.
            const int place = kLanesBefore * kSamples + kEarliest + i, from = place / kSamples - kLanesBefore;
            const float there = sloped[place % kSamples];
            reaching[i] = from == 0 ? there : __shfl_sync(0xffffffffu, there, (lane + from) & 31);
        }
        float own[kSamples] = {};
#pragma unroll
        for (int i = 0; i < kSamples; ++i) {
#pragma unroll
            for (int k = 0; k < kTaps; ++k) {
                own[i] = fmaf(weights_of_filter[k], reaching[kTaps - 1 + i - k], own[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < kSamples; i += kVector) {
            const int place = sample + i;
            if (has_samples && place >= 0 && place < kSignal) {
                __stcs(reinterpret_cast<SampleVector*>(signal_gradient + place), pack_samples(own + i));
            }
        }
    }
    // One partial sum of the block for each tap and the bias.
    __shared__ float of_warps[kWarps][5];
#pragma unroll
    for (int item = 0; item < 5; ++item) {
        float sum = sums[item];
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        }
        if (lane == 0) {
            of_warps[warp][item] = sum;
        }
    }
    __syncthreads();
    for (int item = threadIdx.x; item < 5; item += kWarps * 32) {
        float sum = 0.0f;
        for (int i = 0; i < kWarps; ++i) {
            sum += of_warps[i][item];
        }
        const size_t part = row / kChannels * static_cast<size_t>(kBlocksAlong) + block;
        partial_sums[(part * 5 + item) * kChannels + channel] = sum;
    }
}

constexpr int kParts = 16;  // of each signal, and of each block along it
constexpr size_t kPartPitch = 10240;  // sums of a part: of each channel for each tap, then for the bias
constexpr unsigned kWeights = 8192;  // elements of their gradient
constexpr int kFoldThreads = 256;

__device__ __forceinline__ Tap to_tap(float value) { return value; }

// Adds up a sum of so many adjacent channels in each part.
template <int channels>
__device__ __forceinline__ float add_up(const float* sums) {
    float sum = 0.0f;
#pragma unroll 8
    for (int term = 0; term < channels * kParts; term += 1) {
        sum += __ldg(sums + term / channels * kPartPitch + term % channels);
    }
    return sum;
}

// Each thread adds up an element of a gradient: tap by tap of all filters, then the biases.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
filter1d_gradients_warp_fold(
    const float* __restrict__ sums,
    Tap* __restrict__ weights_gradient,
    Tap* __restrict__ bias_gradient) {
    const unsigned element = blockIdx.x * kFoldThreads + threadIdx.x;
    const unsigned tap = element / 2048, filter = element % 2048;
    float sum = 0.0f;
    if (element < kWeights) {
        sum = add_up<1>(sums + tap * static_cast<size_t>(kChannels) + filter * 1);
    } else if (element < kWeights + kChannels) {
        sum = add_up<1>(sums + kTaps * static_cast<size_t>(kChannels) + (element - kWeights));
    }
    if (element < kWeights) {
        weights_gradient[filter * static_cast<size_t>(kTaps) + tap] = to_tap(sum);
    } else if (element < kWeights + kChannels) {
        bias_gradient[element - kWeights] = to_tap(sum);
    }
}
