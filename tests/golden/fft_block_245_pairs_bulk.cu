// warpsmith fft_block
// problem: fft size=245 batch=273913 kind=c2r
// config:  ahead=0 blocks=0 gaps=25 loads=bulk min_blocks=0 packing=pair signal=direct spectrum=direct stores=bulk
//          threads=192 tiles=1 transforms=5 twiddles=powers x_radices=5x7x7
//
// Inverse transforms of 245 points, 5 per tile.
// Radices 5x7x7: each radix is an in-register DFT of a thread.
// Two real signals are one complex one.
// kThreads threads compute a tile. Stages work in place in shared memory, separated by __syncthreads().

constexpr int kThreads = 192;  // threads per tile
constexpr long long kLast = 273903;  // first transform of the last tile, which may overlap the one before it
constexpr float kScale = 0.00408163265f;

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
__device__ __forceinline__ void dft5(float2& x0, float2& x1, float2& x2, float2& x3, float2& x4) {
    const float2 s1 = x1 + x4, d1 = x1 - x4;
    const float2 s2 = x2 + x3, d2 = x2 - x3;
    const float2 even1 = x0 + 0.309016994f * s1 + -0.809016994f * s2;
    const float2 odd1 = times_i(0.951056516f * d1 + 0.587785252f * d2);
    const float2 even2 = x0 + -0.809016994f * s1 + 0.309016994f * s2;
    const float2 odd2 = times_i(0.587785252f * d1 + -0.951056516f * d2);
    x0 = x0 + s1 + s2;
    x1 = even1 + odd1;
    x4 = even1 - odd1;
    x2 = even2 + odd2;
    x3 = even2 - odd2;
}
__device__ __forceinline__ void dft7(
    float2& x0, float2& x1, float2& x2, float2& x3, float2& x4, float2& x5, float2& x6) {
    const float2 s1 = x1 + x6, d1 = x1 - x6;
    const float2 s2 = x2 + x5, d2 = x2 - x5;
    const float2 s3 = x3 + x4, d3 = x3 - x4;
    const float2 even1 = x0 + 0.623489802f * s1 + -0.222520934f * s2 + -0.900968868f * s3;
    const float2 odd1 = times_i(0.781831482f * d1 + 0.974927912f * d2 + 0.433883739f * d3);
    const float2 even2 = x0 + -0.222520934f * s1 + -0.900968868f * s2 + 0.623489802f * s3;
    const float2 odd2 = times_i(0.974927912f * d1 + -0.433883739f * d2 + -0.781831482f * d3);
    const float2 even3 = x0 + -0.900968868f * s1 + 0.623489802f * s2 + -0.222520934f * s3;
    const float2 odd3 = times_i(0.433883739f * d1 + -0.781831482f * d2 + 0.974927912f * d3);
    x0 = x0 + s1 + s2 + s3;
    x1 = even1 + odd1;
    x6 = even1 - odd1;
    x2 = even2 + odd2;
    x5 = even2 - odd2;
    x3 = even3 + odd3;
    x4 = even3 - odd3;
}

// Quotient and remainder of an unsigned division by a constant. Exact if number * kDivisor < 2^32; in a tile the
// product is below 2^30.
template <unsigned kDivisor> __device__ __forceinline__ int quotient(unsigned number) {
    return static_cast<int>(__umulhi(number, 0xffffffffu / kDivisor + 1));
}

template <unsigned kDivisor> __device__ __forceinline__ int modulo(unsigned number) {
    return static_cast<int>(number) - quotient<kDivisor>(number) * static_cast<int>(kDivisor);
}

// exp(2 pi i j later / 245) for j = 1, 2, 4, later = 0 to 48.
__device__ const float2 kTwiddles5x49[147] = {
{ 1.0f, 0.0f }, { 0.999671168f, 0.0256428432f }, { 0.998684889f, 0.0512688221f },
{ 0.997041811f, 0.0768610833f }, { 0.994743016f, 0.102402796f }, { 0.991790014f, 0.127877162f },
{ 0.988184748f, 0.153267427f }, { 0.983929589f, 0.178556895f }, { 0.979027335f, 0.203728932f },
{ 0.97348121f, 0.228766984f }, { 0.967294863f, 0.253654584f }, { 0.960472361f, 0.278375365f },
{ 0.953018191f, 0.302913068f }, { 0.944937256f, 0.327251557f }, { 0.936234871f, 0.351374824f },
{ 0.926916757f, 0.375267005f }, { 0.916989045f, 0.398912386f }, { 0.906458262f, 0.422295417f },
{ 0.895331334f, 0.44540072f }, { 0.88361558f, 0.4682131f }, { 0.871318704f, 0.490717552f },
{ 0.858448794f, 0.512899277f }, { 0.845014313f, 0.534743688f }, { 0.831024097f, 0.556236416f },
{ 0.816487346f, 0.577363329f }, { 0.801413622f, 0.59811053f }, { 0.785812837f, 0.618464377f },
{ 0.769695252f, 0.638411481f }, { 0.753071466f, 0.657938726f }, { 0.735952413f, 0.677033268f },
{ 0.71834935f, 0.695682551f }, { 0.700273855f, 0.713874308f }, { 0.681737816f, 0.731596576f },
{ 0.662753423f, 0.7488377f }, { 0.643333161f, 0.76558634f }, { 0.623489802f, 0.781831482f },
{ 0.603236396f, 0.797562443f }, { 0.582586265f, 0.812768875f }, { 0.561552987f, 0.827440779f },
{ 0.540150396f, 0.841568506f }, { 0.518392568f, 0.855142763f }, { 0.496293813f, 0.868154624f },
{ 0.473868662f, 0.880595532f }, { 0.451131866f, 0.892457304f }, { 0.428098377f, 0.903732139f },
{ 0.404783343f, 0.914412623f }, { 0.381202098f, 0.924491731f }, { 0.35737015f, 0.933962834f },
{ 0.333303173f, 0.942819704f }, { 1.0f, 0.0f }, { 0.998684889f, 0.0512688221f },
{ 0.994743016f, 0.102402796f }, { 0.988184748f, 0.153267427f }, { 0.979027335f, 0.203728932f },
{ 0.967294863f, 0.253654584f }, { 0.953018191f, 0.302913068f }, { 0.936234871f, 0.351374824f },
{ 0.916989045f, 0.398912386f }, { 0.895331334f, 0.44540072f }, { 0.871318704f, 0.490717552f },
{ 0.845014313f, 0.534743688f }, { 0.816487346f, 0.577363329f }, { 0.785812837f, 0.618464377f },
{ 0.753071466f, 0.657938726f }, { 0.71834935f, 0.695682551f }, { 0.681737816f, 0.731596576f },
{ 0.643333161f, 0.76558634f }, { 0.603236396f, 0.797562443f }, { 0.561552987f, 0.827440779f },
{ 0.518392568f, 0.855142763f }, { 0.473868662f, 0.880595532f }, { 0.428098377f, 0.903732139f },
{ 0.381202098f, 0.924491731f }, { 0.333303173f, 0.942819704f }, { 0.284527587f, 0.958667853f },
{ 0.23500363f, 0.971994493f }, { 0.184861561f, 0.982764572f }, { 0.134233266f, 0.990949762f },
{ 0.0832519072f, 0.996528534f }, { 0.0320515776f, 0.999486216f }, { -0.0192330548f, 0.999815028f },
{ -0.0704671f, 0.997514104f }, { -0.121515801f, 0.992589497f }, { -0.172244889f, 0.98505416f },
{ -0.222520934f, 0.974927912f }, { -0.2722117f, 0.962237388f }, { -0.321186489f, 0.947015966f },
{ -0.369316486f, 0.929303682f }, { -0.416475099f, 0.909147123f }, { -0.46253829f, 0.886599306f },
{ -0.507384903f, 0.861719537f }, { -0.550896981f, 0.834573254f }, { -0.592960079f, 0.805231858f },
{ -0.633463559f, 0.773772524f }, { -0.67230089f, 0.740277997f }, { -0.709369921f, 0.704836375f },
{ -0.744573152f, 0.667540877f }, { -0.77781799f, 0.628489598f }, { 1.0f, 0.0f },
{ 0.994743016f, 0.102402796f }, { 0.979027335f, 0.203728932f }, { 0.953018191f, 0.302913068f },
{ 0.916989045f, 0.398912386f }, { 0.871318704f, 0.490717552f }, { 0.816487346f, 0.577363329f },
{ 0.753071466f, 0.657938726f }, { 0.681737816f, 0.731596576f }, { 0.603236396f, 0.797562443f },
{ 0.518392568f, 0.855142763f }, { 0.428098377f, 0.903732139f }, { 0.333303173f, 0.942819704f },
{ 0.23500363f, 0.971994493f }, { 0.134233266f, 0.990949762f }, { 0.0320515776f, 0.999486216f },
{ -0.0704671f, 0.997514104f }, { -0.172244889f, 0.98505416f }, { -0.2722117f, 0.962237388f },
{ -0.369316486f, 0.929303682f }, { -0.46253829f, 0.886599306f }, { -0.550896981f, 0.834573254f },
{ -0.633463559f, 0.773772524f }, { -0.709369921f, 0.704836375f }, { -0.77781799f, 0.628489598f },
{ -0.838088105f, 0.545534901f }, { -0.889546588f, 0.456844468f }, { -0.931652406f, 0.363350786f },
{ -0.963962861f, 0.266036846f }, { -0.98613824f, 0.165925802f }, { -0.997945393f, 0.06407022f },
{ -0.999260179f, -0.0384589944f }, { -0.990068776f, -0.140583852f }, { -0.97046782f, -0.241230616f },
{ -0.940663397f, -0.339341088f }, { -0.900968868f, -0.433883739f }, { -0.851801581f, -0.52386455f },
{ -0.793678479f, -0.608337466f }, { -0.727210666f, -0.68641434f }, { -0.653096984f, -0.757274276f },
{ -0.57211666f, -0.820172255f }, { -0.48512112f, -0.874446967f }, { -0.393025032f, -0.919527773f },
{ -0.296796691f, -0.954940692f }, { -0.197447838f, -0.980313394f }, { -0.0960230259f, -0.995379113f },
{ 0.00641136965f, -0.999979447f }, { 0.108778356f, -0.994066029f }, { 0.210001651f, -0.977701031f },
};

// exp(2 pi i j later / 49) for j = 1, 2, 4, later = 0 to 6.
__device__ const float2 kTwiddles7x7[21] = {
{ 1.0f, 0.0f }, { 0.991790014f, 0.127877162f }, { 0.967294863f, 0.253654584f },
{ 0.926916757f, 0.375267005f }, { 0.871318704f, 0.490717552f }, { 0.801413622f, 0.59811053f },
{ 0.71834935f, 0.695682551f }, { 1.0f, 0.0f }, { 0.967294863f, 0.253654584f },
{ 0.871318704f, 0.490717552f }, { 0.71834935f, 0.695682551f }, { 0.518392568f, 0.855142763f },
{ 0.284527587f, 0.958667853f }, { 0.0320515776f, 0.999486216f }, { 1.0f, 0.0f },
{ 0.871318704f, 0.490717552f }, { 0.518392568f, 0.855142763f }, { 0.0320515776f, 0.999486216f },
{ -0.46253829f, 0.886599306f }, { -0.838088105f, 0.545534901f }, { -0.997945393f, 0.06407022f },
};

template <typename T> __device__ __forceinline__ void store(T* target, T value) {
    *target = value;
}

// Stores element (t, x) of the tile: of two consecutive real signals, as real and imaginary part.
__device__ __forceinline__ void store_signal(float* signal, int t, int x, float2 value) {
    float* const element = signal + 2 * t * 245 + x;
    store(element, value.x);
    store(element + 245, value.y);
}

// Offset of frequency (x) from the start of the tile's spectra.
__device__ __forceinline__ int spectrum_offset(int transform, int x) {
    return transform * 123 + x;
}

// Loads frequency x of complex signal t from the half spectra of two real signals.
__device__ __forceinline__ float2 load_spectrum(const float2* spectrum, int t, int x) {
    const bool is_conjugate = 2 * x > 245, is_real = x == 0;
    const int column = is_conjugate ? 245 - x : x;
    float2 a = spectrum[spectrum_offset(2 * t, column)], b = spectrum[spectrum_offset(2 * t + 1, column)];
    a.y = is_real ? 0.0f : is_conjugate ? -a.y : a.y;
    b.y = is_real ? 0.0f : is_conjugate ? -b.y : b.y;
    return kScale * (a + times_i(b));
}

// The transforms of one tile. `source` and `target` are those of its first transform.
__device__ __forceinline__ void transform(
    const float2* source,
    float* target,
    float2* tile, unsigned thread) {
    // Pass 1: 5 points along x.
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const unsigned i = thread + step * kThreads;
        if (step == 1 && i >= 245) {
            break;
        }
        const int later = modulo<49>(i);
        const int t = quotient<49>(i);
        float2 v[5];
        float2* const element = tile + t * 269 + later;
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            v[j] = load_spectrum(source, t, later + j * 49);
        }
        dft5(v[0], v[1], v[2], v[3], v[4]);
        const float2 w1 = kTwiddles5x49[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles5x49[49 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles5x49[98 + later];
        v[4] = times(v[4], w4);
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            element[j * 53] = v[j];
        }
    }
    __syncthreads();

    // Pass 2: 7 points along x.
    if (const unsigned i = thread; i < 175) {
        const int t = modulo<5>(i);
        const int later = modulo<7>(quotient<5>(i));
        const int earlier = quotient<35>(i);
        float2 v[7];
        float2* const element = tile + t * 269 + later + earlier * 53;
#pragma unroll
        for (int j = 0; j < 7; ++j) {
            v[j] = element[j * 7];
        }
        dft7(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
        const float2 w1 = kTwiddles7x7[later];
        v[1] = times(v[1], w1);
        const float2 w2 = kTwiddles7x7[7 + later];
        v[2] = times(v[2], w2);
        const float2 w3 = times(w2, w1);
        v[3] = times(v[3], w3);
        const float2 w4 = kTwiddles7x7[14 + later];
        v[4] = times(v[4], w4);
        const float2 w5 = times(w4, w1);
        v[5] = times(v[5], w5);
        const float2 w6 = times(w4, w2);
        v[6] = times(v[6], w6);
#pragma unroll
        for (int j = 0; j < 7; ++j) {
            element[j * 7] = v[j];
        }
    }
    __syncthreads();

    // Pass 3: 7 points along x.
    if (const unsigned i = thread; i < 175) {
        const int earlier = modulo<35>(i);
        const int t = quotient<35>(i);
        float2 v[7];
        float2* const element = tile + t * 269 + modulo<5>(earlier) * 53 + quotient<5>(earlier) * 7;
#pragma unroll
        for (int j = 0; j < 7; ++j) {
            v[j] = element[j];
        }
        dft7(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
#pragma unroll
        for (int j = 0; j < 7; ++j) {
            store_signal(target, t, earlier + j * 35, v[j]);
        }
    }
}

// Address in shared memory with the same offset from a multiple of 16 bytes as `global`.
template <typename T> __device__ __forceinline__ T* aligned_like(const T* global, float2* memory) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(memory) + reinterpret_cast<size_t>(global) % 16);
}

// The 16-byte aligned part of `count` elements from `global` on: `whole` elements after the first `head`.
struct Span {
    unsigned head, whole;
    template <typename T>
    __device__ __forceinline__ Span(const T* global, unsigned count)
        : head(min(count, static_cast<unsigned>(-reinterpret_cast<size_t>(global) % 16 / sizeof(T)))),
          whole((count - head) * sizeof(T) / 16 * 16 / sizeof(T)) {}
};

#ifndef WARPSMITH_ON_HOST  // the host device defines these itself
// Makes this thread's writes to shared memory visible to bulk copies.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
#endif

#ifndef WARPSMITH_ON_HOST
// Starts a copy of `bytes`, a multiple of 16, between 16-byte aligned addresses. bulk_load_wait() waits for it, after
// __syncthreads() has made the mbarrier visible.
__device__ __forceinline__ void bulk_load_begin(void* shared, const void* global, unsigned bytes, void* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    fence_proxy_async();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
    if (bytes > 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
    }
}

__device__ __forceinline__ void bulk_load_wait(const void* barrier) {
    unsigned is_done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done) : "r"(shared_address(barrier)) : "memory");
    } while (!is_done);
}
#endif

// Starts to load a tile: thread 0 issues the bulk copy of the aligned part, other threads load the elements before and
// after it.
template <typename T>
__device__ __forceinline__ void bulk_read_begin(T* shared, const T* global, unsigned count, void* barrier,
                                                unsigned thread) {
    const Span span(global, count);
    if (thread == 0) {
        bulk_load_begin(shared + span.head, global + span.head, span.whole * sizeof(T), barrier);
    }
    if (thread < count - span.whole) {
        const unsigned i = thread < span.head ? thread : thread + span.whole;
        shared[i] = global[i];
    }
}

#ifndef WARPSMITH_ON_HOST
// Copies `bytes`, a multiple of 16, between 16-byte aligned addresses, and waits until shared memory has been read.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
#endif

// Stores a tile: thread 0 issues the bulk copy of the aligned part, other threads store the elements before and after
// it.
template <typename T>
__device__ __forceinline__ void bulk_write(T* global, const T* shared, unsigned count, unsigned thread) {
    const Span span(global, count);
    if (thread == 0 && span.whole > 0) {
        bulk_store(global + span.head, shared + span.head, span.whole * sizeof(T));
    }
    if (thread < count - span.whole) {
        const unsigned i = thread < span.head ? thread : thread + span.whole;
        global[i] = shared[i];
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
fft_block(const float2* __restrict__ source,
          float* __restrict__ target) {
    extern __shared__ __align__(16) float2 shared[];
    const unsigned thread = threadIdx.x;
    float2* const memory = shared;
    float2* const tile = memory + 1234;
    const long long number = blockIdx.x;
    const long long start = number * 10, first = min(start, kLast);
    const int overlap = static_cast<int>(min(start, 273913LL) - first);  // transforms that the tile before stores
    float2* const staged_source = aligned_like(source + first * 123, memory + 2);
    bulk_read_begin(staged_source, source + first * 123, 1230, memory, thread);
    __syncthreads();
    bulk_load_wait(memory);
    float* const staged_target = aligned_like(target + first * 245, memory + 2);
    transform(staged_source, staged_target,
              tile, thread);
    fence_proxy_async();
    __syncthreads();
    bulk_write(target + first * 245 + overlap * 245, staged_target + overlap * 245,
               (10 - overlap) * 245, thread);
}
