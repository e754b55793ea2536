// Micro-kernels of `warpsmith bench memory`.

constexpr int kThreads = 256, kChains = 16;
constexpr float kNever = 12345.0f;

// The host may write to them, so the compiler knows none of them.
__constant__ __align__(16) float constants[512] = {
    0.775537f, 0.706364f, 0.436457f, 0.307133f, 0.50902f, 0.423947f, 0.727039f, 0.34265f,
    0.481278f, 0.566706f, 0.82649f, 0.503749f, 0.32547f, 0.704643f, 0.594695f, 0.300405f,
    0.827797f, 0.886228f, 0.748174f, 0.821733f, 0.348118f, 0.683865f, 0.819071f, 0.647187f,
    0.477714f, 0.180561f, 0.447337f, 0.58871f, 0.830409f, 0.873285f, 0.481608f, 0.792248f,
    0.308394f, 0.744022f, 0.538959f, 0.111233f, 0.675764f, 0.419059f, 0.759876f, 0.634523f,
    0.100914f, 0.494862f, 0.794082f, 0.295129f, 0.360163f, 0.796377f, 0.252854f, 0.554009f,
    0.290893f, 0.874032f, 0.742544f, 0.458376f, 0.164357f, 0.356044f, 0.506353f, 0.846267f,
    0.187246f, 0.541014f, 0.665249f, 0.537953f, 0.751573f, 0.532227f, 0.871071f, 0.582549f,
    0.570094f, 0.455991f, 0.577029f, 0.407921f, 0.560521f, 0.332264f, 0.251513f, 0.249384f,
    0.590219f, 0.625328f, 0.481225f, 0.171859f, 0.706083f, 0.801416f, 0.838705f, 0.773968f,
    0.818538f, 0.838466f, 0.53248f, 0.413037f, 0.664227f, 0.320507f, 0.749303f, 0.779589f,
    0.816031f, 0.571841f, 0.859812f, 0.563756f, 0.46045f, 0.628196f, 0.897006f, 0.833553f,
    0.73466f, 0.165898f, 0.590226f, 0.489155f, 0.604118f, 0.776062f, 0.294428f, 0.685191f,
    0.193707f, 0.276368f, 0.735666f, 0.366029f, 0.75273f, 0.180486f, 0.217087f, 0.658137f,
    0.136187f, 0.559093f, 0.828013f, 0.527358f, 0.644471f, 0.121357f, 0.608f, 0.585071f,
    0.560762f, 0.412968f, 0.396112f, 0.884413f, 0.129114f, 0.117309f, 0.868825f, 0.247978f,
    0.199116f, 0.268461f, 0.740597f, 0.849575f, 0.118226f, 0.440495f, 0.1812f, 0.307936f,
    0.276663f, 0.617541f, 0.380235f, 0.244254f, 0.502909f, 0.131503f, 0.180737f, 0.890588f,
    0.259485f, 0.386844f, 0.685279f, 0.770661f, 0.834786f, 0.23554f, 0.638112f, 0.873239f,
    0.146441f, 0.640961f, 0.77634f, 0.37385f, 0.30055f, 0.577433f, 0.453851f, 0.239856f,
    0.4773f, 0.427924f, 0.55529f, 0.50688f, 0.349157f, 0.385721f, 0.770129f, 0.300746f,
    0.54848f, 0.109949f, 0.69326f, 0.368733f, 0.136557f, 0.324707f, 0.292104f, 0.862503f,
    0.38178f, 0.330302f, 0.387361f, 0.857525f, 0.606998f, 0.596861f, 0.672495f, 0.410414f,
    0.431534f, 0.620666f, 0.101219f, 0.253848f, 0.367521f, 0.291533f, 0.60992f, 0.402918f,
    0.800339f, 0.554521f, 0.431525f, 0.421814f, 0.661464f, 0.434581f, 0.629757f, 0.137424f,
    0.456282f, 0.307382f, 0.226149f, 0.522059f, 0.489812f, 0.549124f, 0.704388f, 0.8071f,
    0.495666f, 0.349647f, 0.473514f, 0.747237f, 0.800013f, 0.749932f, 0.250401f, 0.899536f,
    0.606471f, 0.166774f, 0.680443f, 0.889457f, 0.421453f, 0.642812f, 0.352942f, 0.27082f,
    0.673859f, 0.101886f, 0.758185f, 0.522677f, 0.178227f, 0.195123f, 0.619412f, 0.798923f,
    0.323986f, 0.882812f, 0.180145f, 0.78315f, 0.417357f, 0.165076f, 0.319771f, 0.462383f,
    0.733873f, 0.789088f, 0.206736f, 0.516692f, 0.620627f, 0.377642f, 0.797491f, 0.322728f,
    0.114859f, 0.132531f, 0.644797f, 0.546685f, 0.857202f, 0.850751f, 0.827881f, 0.133604f,
    0.699308f, 0.66106f, 0.624289f, 0.669886f, 0.822168f, 0.612113f, 0.397959f, 0.530343f,
    0.266275f, 0.5697f, 0.107118f, 0.220819f, 0.366727f, 0.731699f, 0.6748f, 0.370605f,
    0.59643f, 0.132962f, 0.231088f, 0.885531f, 0.331625f, 0.415834f, 0.538787f, 0.334726f,
    0.482452f, 0.291765f, 0.138605f, 0.243669f, 0.51844f, 0.15669f, 0.422535f, 0.362817f,
    0.431777f, 0.17952f, 0.826926f, 0.479204f, 0.772679f, 0.880984f, 0.374921f, 0.483269f,
    0.659676f, 0.441228f, 0.341522f, 0.687801f, 0.81552f, 0.835751f, 0.601394f, 0.400457f,
    0.879648f, 0.611103f, 0.152668f, 0.167736f, 0.699896f, 0.148925f, 0.106281f, 0.415046f,
    0.515203f, 0.458835f, 0.490895f, 0.567911f, 0.643442f, 0.43843f, 0.394665f, 0.890767f,
    0.308733f, 0.72168f, 0.444977f, 0.386816f, 0.151086f, 0.790863f, 0.661603f, 0.822409f,
    0.461289f, 0.641537f, 0.195128f, 0.418363f, 0.265786f, 0.133681f, 0.858369f, 0.272715f,
    0.217084f, 0.258376f, 0.402426f, 0.537113f, 0.221067f, 0.890952f, 0.886391f, 0.218722f,
    0.424726f, 0.643944f, 0.802125f, 0.496325f, 0.833637f, 0.357968f, 0.498753f, 0.498917f,
    0.636055f, 0.261593f, 0.587816f, 0.275018f, 0.372176f, 0.870053f, 0.819206f, 0.754495f,
    0.128375f, 0.218694f, 0.305506f, 0.727333f, 0.773867f, 0.566359f, 0.674505f, 0.745644f,
    0.153087f, 0.167715f, 0.795116f, 0.131533f, 0.280073f, 0.132506f, 0.112228f, 0.775164f,
    0.364475f, 0.228552f, 0.219056f, 0.624867f, 0.874879f, 0.504f, 0.820872f, 0.501943f,
    0.559098f, 0.642857f, 0.744088f, 0.706277f, 0.892426f, 0.697572f, 0.824625f, 0.264884f,
    0.528333f, 0.578891f, 0.760557f, 0.485771f, 0.732832f, 0.410855f, 0.569111f, 0.781053f,
    0.738448f, 0.625588f, 0.100193f, 0.245575f, 0.505486f, 0.303568f, 0.152497f, 0.787907f,
    0.854358f, 0.342244f, 0.426459f, 0.74803f, 0.149807f, 0.612788f, 0.201857f, 0.329671f,
    0.763953f, 0.144422f, 0.128747f, 0.434293f, 0.493465f, 0.79066f, 0.673751f, 0.638835f,
    0.221099f, 0.889365f, 0.428912f, 0.589417f, 0.409346f, 0.137626f, 0.476711f, 0.221094f,
    0.125972f, 0.59392f, 0.603973f, 0.184234f, 0.539315f, 0.377334f, 0.406731f, 0.721136f,
    0.492256f, 0.805021f, 0.588096f, 0.473751f, 0.60585f, 0.370292f, 0.199459f, 0.646024f,
    0.59763f, 0.730853f, 0.201687f, 0.829427f, 0.739473f, 0.83351f, 0.798028f, 0.644805f,
    0.748201f, 0.515206f, 0.728391f, 0.251302f, 0.725691f, 0.455664f, 0.705293f, 0.464376f,
    0.731647f, 0.160272f, 0.135713f, 0.847432f, 0.488932f, 0.820857f, 0.855827f, 0.633209f,
    0.557437f, 0.272784f, 0.174781f, 0.755515f, 0.811018f, 0.723517f, 0.658802f, 0.436089f,
    0.344249f, 0.190756f, 0.440776f, 0.55281f, 0.838304f, 0.848604f, 0.432513f, 0.179369f,
    0.719055f, 0.687423f, 0.124561f, 0.457375f, 0.649134f, 0.124107f, 0.835426f, 0.869794f,
    0.678034f, 0.162831f, 0.156264f, 0.387403f, 0.123502f, 0.378302f, 0.107971f, 0.879459f,
    0.755205f, 0.156414f, 0.814748f, 0.266382f, 0.263833f, 0.639007f, 0.85061f, 0.19855f,
};

__device__ __forceinline__ float sum_of(float read) {
    return read;
}
__device__ __forceinline__ float sum_of(float2 read) {
    return read.x + read.y;
}
__device__ __forceinline__ float sum_of(float4 read) {
    return read.x + read.y + read.z + read.w;
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_4(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float* __restrict__ source = reinterpret_cast<const float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 116; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_8(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float2* __restrict__ source = reinterpret_cast<const float2*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_16(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float4* __restrict__ source = reinterpret_cast<const float4*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn) {
#pragma unroll
        for (int i = 0; i < 4; ++i, place += threads) {
            total += sum_of(source[place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_write_4(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    float* target = reinterpret_cast<float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = target[place + i * threads];
    }
#pragma unroll 1
    for (int turn = 0; turn < 116; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            target[place] = numbers[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_write_8(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    float2* target = reinterpret_cast<float2*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float2 numbers[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        numbers[i] = target[place + i * threads];
    }
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            target[place] = numbers[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_write_16(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    float4* target = reinterpret_cast<float4*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float4 numbers[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        numbers[i] = target[place + i * threads];
    }
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn) {
#pragma unroll
        for (int i = 0; i < 4; ++i, place += threads) {
            target[place] = numbers[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_copy_4(const float* __restrict__ source, float* __restrict__ target) {
    constexpr int kLoads = 8;  // in flight for each thread
    const unsigned threads = gridDim.x * kThreads;
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn, place += kLoads * threads) {
        float read[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            read[i] = source[place + i * threads];
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            target[place + i * threads] = read[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_copy_8(const float2* __restrict__ source, float2* __restrict__ target) {
    constexpr int kLoads = 8;  // in flight for each thread
    const unsigned threads = gridDim.x * kThreads;
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
#pragma unroll 1
    for (int turn = 0; turn < 29; ++turn, place += kLoads * threads) {
        float2 read[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            read[i] = source[place + i * threads];
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            target[place + i * threads] = read[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_copy_16(const float4* __restrict__ source, float4* __restrict__ target) {
    constexpr int kLoads = 4;  // in flight for each thread
    const unsigned threads = gridDim.x * kThreads;
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
#pragma unroll 1
    for (int turn = 0; turn < 29; ++turn, place += kLoads * threads) {
        float4 read[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            read[i] = source[place + i * threads];
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            target[place + i * threads] = read[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_4_stride_2(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float* __restrict__ source = reinterpret_cast<const float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 58; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[2 * place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_4_stride_4(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float* __restrict__ source = reinterpret_cast<const float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 29; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[4 * place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_4_stride_8(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float* __restrict__ source = reinterpret_cast<const float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 14; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[8 * place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_read_4_stride_32(float* data) {
    const unsigned threads = gridDim.x * kThreads;
    const float* __restrict__ source = reinterpret_cast<const float*>(data);
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            total += sum_of(source[32 * place]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_l2_16(float4* data) {
    constexpr unsigned kCount = 524288;  // a power of two
    const unsigned threads = gridDim.x * kThreads;
    unsigned place = blockIdx.x * kThreads + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i, place += threads) {
            const float4 read = __ldcg(data + place % kCount);
            total += read.x + read.y + read.z + read.w;
        }
    }
    if (total == kNever) {
        data[0].x = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_l1_4(float* data) {
    const float* source = reinterpret_cast<const float*>(data) + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 512; ++turn) {
        const float* from = source + turn % 2 * 512;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(__ldca(from + i * 32));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_l1_16(float* data) {
    const float4* source = reinterpret_cast<const float4*>(data) + threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 512; ++turn) {
        const float4* from = source + turn % 2 * 128;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(__ldca(from + i * 8));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_texture_line_4(float* data, cudaTextureObject_t texture) {
    const int first = threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const int from = first + turn % 2 * 512;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(tex1Dfetch<float>(texture, from + i * 32));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_texture_line_16(float* data, cudaTextureObject_t texture) {
    const int first = threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const int from = first + turn % 2 * 128;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(tex1Dfetch<float4>(texture, from + i * 8));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_texture_rows_4(float* data, cudaTextureObject_t texture) {
    const float column = threadIdx.x % 32 + 0.5f;
    const int row = threadIdx.x / 32;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const float from = row + turn % 2 * 16 + 0.5f;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(tex2D<float>(texture, column, from + i));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_texture_rows_16(float* data, cudaTextureObject_t texture) {
    const float column = threadIdx.x % 32 + 0.5f;
    const int row = threadIdx.x / 32;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const float from = row + turn % 2 * 16 + 0.5f;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(tex2D<float4>(texture, column, from + i));
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_shared_4(float* data) {
    __shared__ float numbers[288];
    for (int i = threadIdx.x; i < 288; i += kThreads) {
        numbers[i] = reinterpret_cast<const float*>(data)[i];
    }
    __syncthreads();
    const int first = threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 512; ++turn) {
        const float* from = numbers + first + turn % 2;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[2 * i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_shared_16(float* data) {
    __shared__ float4 numbers[288];
    for (int i = threadIdx.x; i < 288; i += kThreads) {
        numbers[i] = reinterpret_cast<const float4*>(data)[i];
    }
    __syncthreads();
    const int first = threadIdx.x;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 512; ++turn) {
        const float4* from = numbers + first + turn % 2;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[2 * i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_shared_4_stride_2(float* data) {
    __shared__ float numbers[96];
    for (int i = threadIdx.x; i < 96; i += kThreads) {
        numbers[i] = reinterpret_cast<const float*>(data)[i];
    }
    __syncthreads();
    const int first = threadIdx.x % 32 * 2;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 512; ++turn) {
        const float* from = numbers + first + turn % 2;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[2 * i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_shared_4_stride_32(float* data) {
    __shared__ float numbers[1056];
    for (int i = threadIdx.x; i < 1056; i += kThreads) {
        numbers[i] = reinterpret_cast<const float*>(data)[i];
    }
    __syncthreads();
    const int first = threadIdx.x % 32 * 32;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 64; ++turn) {
        const float* from = numbers + first + turn % 2;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[2 * i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_constant_load_4(float* data) {
    const int first = data[0] > 1.0f;  // 0, which the compiler does not know
    const float* source = reinterpret_cast<const float*>(constants) + first;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const float* from = source + turn % 2 * 16;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
memory_constant_load_8(float* data) {
    const int first = data[0] > 1.0f;  // 0, which the compiler does not know
    const float2* source = reinterpret_cast<const float2*>(constants) + first;
    float total = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < 128; ++turn) {
        const float2* from = source + turn % 2 * 16;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            total += sum_of(from[i]);
        }
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
memory_constant_4(float* data) {
    float sums[kChains], factors[kChains];
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
        const float* mine = data + threadIdx.x + 3 * i;
        sums[i] = mine[0];
        factors[i] = -copysignf(1.0f, mine[1]);  // -1, which the compiler does not know, so that no sum grows
    }
#pragma unroll 1
    for (int turn = 0; turn < 256; ++turn) {
#pragma unroll
        for (int i = 0; i < 512; ++i) {
            const float addend = constants[i];
            sums[i % kChains] = fmaf(sums[i % kChains], factors[i % kChains], addend);
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
        total += sums[i];
    }
    if (total == kNever) {
        data[0] = total;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
memory_registers_16(float* data) {
    float sums[kChains], factors[kChains], addends[kChains];
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
        const float* mine = data + threadIdx.x + 3 * i;
        sums[i] = mine[0];
        factors[i] = -copysignf(1.0f, mine[1]);  // -1, which the compiler does not know, so that no sum grows
        addends[i] = mine[2];
    }
#pragma unroll 1
    for (int turn = 0; turn < 1024; ++turn) {
#pragma unroll
        for (int i = 0; i < 128; ++i) {
            const float addend = addends[i % kChains];
            sums[i % kChains] = fmaf(sums[i % kChains], factors[i % kChains], addend);
        }
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
        total += sums[i];
    }
    if (total == kNever) {
        data[0] = total;
    }
}

