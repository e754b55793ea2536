// warpsmith filter1d_gradients_channels
// problem: filter1d signal=8192 taps=4 batch=8 mode=causal dtype=bfloat16 channels=2048 filters=2048 layout=btc
//          bias=yes activation=silu pass=backward
// config:  ahead=8 block_columns=32 block_rows=4 min_blocks=5 segment=56 store=streaming vector=2
//
// A thread walks along kSegment samples of kVector adjacent channels. It loads each sample and each gradient once,
// kAhead of them in flight, and keeps the last kTaps of both.

constexpr int kSignal = 8192;  // samples of a channel
constexpr int kOutputs = 8192;  // outputs of a channel
constexpr int kFirstLag = -3;  // sample under tap 0 of the first output
constexpr int kChannels = 2048;
constexpr int kTaps = 4;
constexpr size_t kPitch = 2048;  // elements from one sample to the next
constexpr size_t kGradientPitch = 2048;
constexpr int kVector = 2;  // channels of a thread
constexpr int kSegment = 56;  // samples of a thread
constexpr int kAhead = 8;  // samples and gradients of a channel in flight
constexpr int kColumns = 32;  // threads of a block across the channels
constexpr int kRows = 4;  // threads of a block along the signal
constexpr unsigned kChannelBlocks = 32;  // blocks across the channels
constexpr unsigned kBlocksAlong = 37;  // blocks along the signal

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

__device__ __forceinline__ void unpack_samples(unsigned vector, float* numbers) {
    numbers[0] = __uint_as_float(vector << 16);
    numbers[1] = __uint_as_float(vector & 0xffff0000u);
}

__device__ __forceinline__ void unpack_gradients(unsigned vector, float* numbers) {
    numbers[0] = __uint_as_float(vector << 16);
    numbers[1] = __uint_as_float(vector & 0xffff0000u);
}

#ifndef WARPSMITH_ON_HOST  // the host device defines this itself
__device__ __forceinline__ unsigned bfloat_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

__device__ __forceinline__ unsigned pack_samples(const float* numbers) {
    return bfloat_pair(numbers[0], numbers[1]);
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

using SampleVector = unsigned;
using GradientVector = unsigned;

__device__ __forceinline__ bool has_output(int output) { return output >= 0 && output < kOutputs; }

// A thread's channels, from sample 0 and output 0 on.
struct Channels {
    const Sample* signal;
    const Gradient* gradient;
    Sample* signal_gradient;

    // Sample `time` of each channel; zeros outside of the signal, which has it if `is_inside`.
    template <bool is_inside>
    __device__ __forceinline__ SampleVector sample(int time) const {
        if (is_inside || (time >= 0 && time < kSignal)) {
            const Sample* place = signal + time * static_cast<long long>(kPitch);
            return __ldg(reinterpret_cast<const SampleVector*>(place));
        }
        return SampleVector{};
    }

    template <bool is_inside>
    __device__ __forceinline__ GradientVector of_output(int output) const {
        if (is_inside || has_output(output)) {
            const Gradient* place = gradient + output * static_cast<long long>(kGradientPitch);
            return __ldg(reinterpret_cast<const GradientVector*>(place));
        }
        return GradientVector{};
    }
};

// What a thread keeps: the last samples and gradients, the oldest first, the taps, and its sums.
struct Walk {
    float weights[kTaps][kVector];
    float exponents[kTaps][kVector];  // taps of the exponents from which the activation's slope follows
    float exponent_biases[kVector];
    float window[kTaps + kAhead - 1][kVector];
    float sloped[kTaps + kAhead - 1][kVector];  // gradients of outputs, times the activation's slope
    float sums[5][kVector];  // of the taps, and of the bias

    // Takes the gradient of an output, zero if it does not exist, and adds its products to the sums if it counts. `at`
    // is the place of the oldest sample of its window.
    __device__ __forceinline__ void take(GradientVector gradient, int at, bool exists, bool counts) {
        float* own = sloped[at + kTaps - 1];
        unpack_gradients(gradient, own);
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
            float exponent = exponent_biases[lane];
#pragma unroll
            for (int k = 0; k < kTaps; ++k) {
                exponent = fmaf(exponents[k][lane], window[at + k][lane], exponent);
            }
            own[lane] = exists ? own[lane] * slope(exponent) : 0.0f;  // a sample may be no number
            if (exists && counts) {
#pragma unroll
                for (int k = 0; k < kTaps; ++k) {
                    sums[k][lane] = fmaf(own[lane], window[at + k][lane], sums[k][lane]);
                }
                sums[kTaps][lane] += own[lane];
            }
        }
    }

    // Gradients of the oldest sample of a window, whose last output was taken at `at`.
    __device__ __forceinline__ void store(Sample* target, int at) const {
        float numbers[kVector] = {};
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
#pragma unroll
            for (int k = 0; k < kTaps; ++k) {
                numbers[lane] = fmaf(weights[k][lane], sloped[at + kTaps - 1 - k][lane], numbers[lane]);
            }
        }
        __stcs(reinterpret_cast<SampleVector*>(target), pack_samples(numbers));
    }

    // Forgets all but the last kTaps - 1 samples and gradients, after `steps` more.
    __device__ __forceinline__ void advance(int steps) {
#pragma unroll
        for (int i = 0; i < kTaps - 1; ++i) {
#pragma unroll
            for (int lane = 0; lane < kVector; ++lane) {
                window[i][lane] = window[i + steps][lane];
                sloped[i][lane] = sloped[i + steps][lane];
            }
        }
    }
};

// Walks from sample `begin` on, of which there are kSegment if `is_inside`, and all that their windows reach.
template <bool is_inside>
__device__ __forceinline__ void walk_along(const Channels& channels, int begin, Walk& walk) {
    SampleVector samples[kAhead];
    GradientVector gradients[kAhead];
    const int output = begin - kFirstLag;  // whose window begins with the segment
    // Windows of kTaps - 1 outputs begin before the segment: they count in the segment before, if there is one.
    const bool is_first = !is_inside && begin == 0;
    SampleVector early_samples[2 * (kTaps - 1)];
#pragma unroll
    for (int i = 0; i < 2 * (kTaps - 1); ++i) {
        early_samples[i] = channels.sample<is_inside>(begin - (kTaps - 1) + i);
    }
    GradientVector early_gradients[kTaps - 1];
#pragma unroll
    for (int i = 0; i < kTaps - 1; ++i) {
        early_gradients[i] = channels.of_output<is_inside>(output - (kTaps - 1) + i);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
        samples[i] = channels.sample<is_inside>(begin + kTaps - 1 + i);
        gradients[i] = channels.of_output<is_inside>(output + i);
    }
#pragma unroll
    for (int i = 0; i < kTaps - 1; ++i) {
        unpack_samples(early_samples[i], walk.window[i]);
    }
#pragma unroll
    for (int i = 0; i < kTaps - 1; ++i) {
        unpack_samples(early_samples[kTaps - 1 + i], walk.window[kTaps - 1]);
        walk.take(early_gradients[i], 0, is_inside || has_output(output - (kTaps - 1) + i), is_first);
        walk.advance(1);
    }
#pragma unroll 1
    for (int step = 0; step < kSegment; step += kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            unpack_samples(samples[i], walk.window[kTaps - 1 + i]);
            const GradientVector gradient = gradients[i];
            if (step + kAhead < kSegment) {
                samples[i] = channels.sample<is_inside>(begin + step + kAhead + kTaps - 1 + i);
                gradients[i] = channels.of_output<is_inside>(output + step + kAhead + i);
            }
            walk.take(gradient, i, is_inside || has_output(output + step + i), true);
            const int time = begin + step + i;
            if (is_inside || time < kSignal) {
                walk.store(channels.signal_gradient + time * static_cast<long long>(kPitch), i);
            }
        }
        walk.advance(kAhead);
    }
}

extern "C" __global__ void __launch_bounds__(kColumns * kRows, 5)
filter1d_gradients_channels(
    const Sample* __restrict__ signal,
    const Tap* __restrict__ weights,
    const Tap* __restrict__ bias,
    const Gradient* __restrict__ gradient,
    Sample* __restrict__ signal_gradient,
    float* __restrict__ partial_sums) {
    const int block_channel = blockIdx.x % kChannelBlocks * (kColumns * kVector);
    const int channel = block_channel + threadIdx.x * kVector;
    const unsigned block = blockIdx.x / kChannelBlocks % kBlocksAlong;
    const unsigned batch = blockIdx.x / kChannelBlocks / kBlocksAlong;
    signal += batch * 16777216ull;
    gradient += batch * 16777216ull;
    signal_gradient += batch * 16777216ull;
    const int begin = (static_cast<int>(block) * kRows + threadIdx.y) * kSegment;
    Walk walk = {};
    if (begin < kSignal) {
#pragma unroll
        for (int k = 0; k < kTaps; ++k) {
#pragma unroll
            for (int lane = 0; lane < kVector; ++lane) {
                const int filter = channel + lane;
                walk.weights[k][lane] = to_weight(__ldg(weights + filter * static_cast<size_t>(kTaps) + k));
                walk.exponents[k][lane] = -kLog2E * walk.weights[k][lane];
            }
        }
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
            walk.exponent_biases[lane] = -kLog2E * to_weight(__ldg(bias + channel + lane));
        }
        const Channels channels{signal + channel, gradient + channel, signal_gradient + channel};
        const bool is_inside = begin >= kTaps - 1 && begin + kSegment + kTaps - 1 <= kSignal &&
                               begin - kFirstLag >= kTaps - 1 && begin - kFirstLag + kSegment <= kOutputs;
        if (is_inside) {
            walk_along<true>(channels, begin, walk);
        } else {
            walk_along<false>(channels, begin, walk);
        }
    }
    // One partial sum of the block for each tap and the bias of its channels.
    __shared__ float of_rows[kRows][5][kColumns * kVector];
#pragma unroll
    for (int item = 0; item < 5; ++item) {
#pragma unroll
        for (int lane = 0; lane < kVector; ++lane) {
            of_rows[threadIdx.y][item][threadIdx.x * kVector + lane] = walk.sums[item][lane];
        }
    }
    __syncthreads();
    constexpr int kBlockChannels = kColumns * kVector;
    for (int i = threadIdx.y * kColumns + threadIdx.x; i < 5 * kBlockChannels; i += kColumns * kRows) {
        const int item = i / kBlockChannels, own_channel = i % kBlockChannels;
        float sum = 0.0f;
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            sum += of_rows[row][item][own_channel];
        }
        if (true) {
            const size_t part = batch * static_cast<size_t>(kBlocksAlong) + block;
            partial_sums[(part * 5 + item) * kChannels + block_channel + own_channel] = sum;
        }
    }
}

constexpr int kParts = 296;  // of each signal, and of each block along it
constexpr size_t kPartPitch = 10240;  // sums of a part: of each channel for each tap, then for the bias
constexpr unsigned kWeights = 8192;  // elements of their gradient
constexpr int kLanes = 16;  // threads that add up an element
constexpr int kFoldThreads = 256;

__device__ __forceinline__ Tap to_tap(float value) { return value; }

// Adds up a sum of so many adjacent channels in each part, of which every kLanes-th is the lane's.
template <int channels>
__device__ __forceinline__ float add_up(const float* sums, int lane) {
    float sum = 0.0f;
#pragma unroll 8
    for (int term = lane; term < channels * kParts; term += kLanes) {
        sum += __ldg(sums + term / channels * kPartPitch + term % channels);
    }
    return sum;
}

// kLanes threads add up an element of a gradient: tap by tap of all filters, then the biases.
extern "C" __global__ void __launch_bounds__(kFoldThreads)
filter1d_gradients_channels_fold(
    const float* __restrict__ sums,
    Tap* __restrict__ weights_gradient,
    Tap* __restrict__ bias_gradient) {
    constexpr int kElements = kFoldThreads / kLanes;  // of a block; adjacent threads have adjacent ones
    const unsigned element = blockIdx.x * kElements + threadIdx.x % kElements;
    const int lane = threadIdx.x / kElements;
    const unsigned tap = element / 2048, filter = element % 2048;
    float sum = 0.0f;
    if (element < kWeights) {
        sum = add_up<1>(sums + tap * static_cast<size_t>(kChannels) + filter * 1, lane);
    } else if (element < kWeights + kChannels) {
        sum = add_up<1>(sums + kTaps * static_cast<size_t>(kChannels) + (element - kWeights), lane);
    }
    __shared__ float tree[kFoldThreads];
    tree[threadIdx.x] = sum;
    for (int half = kLanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
            tree[threadIdx.x] += tree[threadIdx.x + half * kElements];
        }
    }
    if (lane > 0) {
        return;
    }
    sum = tree[threadIdx.x];  // written by this thread last
    if (element < kWeights) {
        weights_gradient[filter * static_cast<size_t>(kTaps) + tap] = to_tap(sum);
    } else if (element < kWeights + kChannels) {
        bias_gradient[element - kWeights] = to_tap(sum);
    }
}
