// A CUDA driver without a GPU: memory is the machine's own, and launches are noted and not carried out.
// Built as libcuda.so.1, it stands behind the real cuda-bindings.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

enum Status { kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201, kNotFound = 500 };

using Handle = void*;

struct Attribute {  // CUlaunchAttribute
    int kind, padding, value[16];
};

struct Launch {  // CUlaunchConfig
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    const Attribute* attributes;
    unsigned attribute_count;
};

// What the last launch was given: seven numbers, the stream, the function, whether it may begin early, then as many bytes
// of each argument as the kernel takes.
struct Note {
    uint64_t count;
    uint64_t geometry[7];
    uint64_t stream;
    uint64_t function;
    uint64_t begins_early;
    unsigned char arguments[8][1024];
} note, before;  // and the one before it

std::vector<size_t> sizes{8, 8};  // of the arguments of every kernel
int answer = kSuccess;            // of launches
uint64_t finished = 0;            // handle of the stream that was waited for last
int contexts = 0;                 // pushed on top of the current one

int cuInit(unsigned) { return kSuccess; }
int cuDriverGetVersion(int* version) { *version = 13000; return kSuccess; }
int cuDeviceGetCount(int* count) { *count = 1; return kSuccess; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return kSuccess; }
int cuDeviceGetName(char* name, int length, int) { snprintf(name, length, "NVIDIA H200"); return kSuccess; }
int cuDeviceGetPCIBusId(char* name, int length, int) { snprintf(name, length, "0000:00:00.0"); return kSuccess; }
int cuDeviceTotalMem(size_t* bytes, int) { *bytes = size_t{150754820096}; return kSuccess; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    static const std::unordered_map<int, int> known{
        {75, 9}, {76, 0}, {16, 132}, {38, 62914560}, {97, 232448}, {81, 233472}, {82, 65536}, {39, 2048},
        {13, 1980000}, {36, 3201000}};
    auto found = known.find(attribute);
    *value = found == known.end() ? 0 : found->second;
    return kSuccess;
}
int cuDevicePrimaryCtxRetain(Handle* context, int) { *context = reinterpret_cast<Handle>(0xC0); return kSuccess; }
int cuDevicePrimaryCtxRelease(int) { return kSuccess; }
int cuCtxGetCurrent(Handle* context) { *context = reinterpret_cast<Handle>(0xC0); return kSuccess; }
int cuCtxSetCurrent(Handle) { return kSuccess; }
int cuCtxPushCurrent(Handle) { ++contexts; return kSuccess; }
int cuCtxPopCurrent(Handle* context) { --contexts; *context = reinterpret_cast<Handle>(0xC0); return kSuccess; }
int cuCtxSynchronize() { return kSuccess; }
int cuEventCreate(Handle* event, unsigned) { *event = reinterpret_cast<Handle>(0xE0); return kSuccess; }
int cuEventDestroy(Handle) { return kSuccess; }
int cuStreamGetCaptureInfo(Handle, int* status, uint64_t*, Handle*, const Handle**, const void**, size_t*) {
    *status = 0;  // no stream is captured
    return kSuccess;
}
int cuStreamGetId(Handle stream, uint64_t* number) {
    *number = reinterpret_cast<uint64_t>(stream);
    return kSuccess;
}
int cuStreamSynchronize(Handle stream) { finished = reinterpret_cast<uint64_t>(stream); return kSuccess; }
int cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
int cuMemAlloc(uint64_t* address, size_t bytes) {
    *address = reinterpret_cast<uint64_t>(aligned_alloc(256, (bytes + 255) / 256 * 256));
    return kSuccess;
}
int cuMemFree(uint64_t address) { free(reinterpret_cast<void*>(address)); return kSuccess; }
// A module's number, and so that of its functions, is the first byte of its image.
int cuModuleLoadData(Handle* module, const unsigned char* image) {
    *module = reinterpret_cast<Handle>(uintptr_t{0xB0} + *image);
    return kSuccess;
}
int cuModuleUnload(Handle) { return kSuccess; }
int cuModuleGetFunction(Handle* function, Handle module, const char*) {
    *function = reinterpret_cast<Handle>(reinterpret_cast<uintptr_t>(module) + 0x40);
    return kSuccess;
}
int cuFuncGetAttribute(int* value, int attribute, Handle) { *value = attribute == 0 ? 1024 : 0; return kSuccess; }
int cuFuncSetAttribute(Handle, int, int) { return kSuccess; }
int cuFuncGetParamInfo(Handle, size_t index, size_t* offset, size_t* size) {
    if (index >= sizes.size()) return kInvalidValue;
    *offset = 0;
    *size = sizes[index];
    return kSuccess;
}
int cuGetErrorString(int status, const char** text) {
    *text = status == kInvalidContext ? "no context" : "refused";
    return kSuccess;
}

void keep(const unsigned* geometry, unsigned shared_bytes, Handle stream, Handle function, void** arguments,
          bool begins_early) {
    before = note;
    ++note.count;
    note.begins_early = begins_early;
    for (int i = 0; i < 6; ++i) note.geometry[i] = geometry[i];
    note.geometry[6] = shared_bytes;
    note.stream = reinterpret_cast<uint64_t>(stream);
    note.function = reinterpret_cast<uint64_t>(function);
    for (size_t i = 0; i < sizes.size() && i < 8; ++i) memcpy(note.arguments[i], arguments[i], sizes[i]);
}

int launched() {
    if (answer == kInvalidContext && contexts > 0) return kSuccess;
    return answer;
}

int cuLaunchKernelEx(const Launch* launch, Handle function, void** arguments, void**) {
    unsigned geometry[6];
    memcpy(geometry, launch->grid, sizeof launch->grid);
    memcpy(geometry + 3, launch->block, sizeof launch->block);
    int status = launched();
    const int kProgrammaticStreamSerialization = 6;
    const Attribute* given = launch->attribute_count ? launch->attributes : nullptr;
    bool begins_early = given && given->kind == kProgrammaticStreamSerialization && given->value[0] == 1;
    if (status == kSuccess) keep(geometry, launch->shared_bytes, launch->stream, function, arguments, begins_early);
    return status;
}
int cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, Handle stream, void** arguments, void**) {
    unsigned geometry[6]{gx, gy, gz, bx, by, bz};
    int status = launched();
    if (status == kSuccess) keep(geometry, shared_bytes, stream, function, arguments, false);
    return status;
}

// Of a map: where its images lie, and how many channels they have.
int cuTensorMapEncodeIm2col(void* map, int, unsigned, void* images, const uint64_t* sizes, const uint64_t*, const int*,
                            const int*, unsigned, unsigned, const unsigned*, int, int, int, int) {
    memset(map, 0, 128);
    memcpy(map, &images, sizeof images);
    memcpy(static_cast<char*>(map) + 8, sizes, 8);
    return kSuccess;
}
int cuTensorMapReplaceAddress(void* map, void* images) {
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(images) % 16 != 0) return kInvalidValue;
    memcpy(map, &images, sizeof images);
    return kSuccess;
}

template <typename Function>
void* address(Function* function) { return reinterpret_cast<void*>(function); }

}  // namespace

extern "C" int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* found);

namespace {

const std::unordered_map<std::string, void*> kFunctions{
    {"cuGetProcAddress", address(cuGetProcAddress_v2)},
#define ONE(name) {#name, address(name)}
    ONE(cuInit), ONE(cuDriverGetVersion), ONE(cuDeviceGetCount), ONE(cuDeviceGet), ONE(cuDeviceGetName),
    ONE(cuDeviceGetPCIBusId), ONE(cuDeviceTotalMem), ONE(cuDeviceGetAttribute), ONE(cuDevicePrimaryCtxRetain),
    ONE(cuDevicePrimaryCtxRelease), ONE(cuCtxGetCurrent), ONE(cuCtxSetCurrent), ONE(cuCtxPushCurrent),
    ONE(cuCtxPopCurrent), ONE(cuCtxSynchronize), ONE(cuEventCreate), ONE(cuEventDestroy), ONE(cuMemAlloc),
    ONE(cuMemFree), ONE(cuModuleLoadData), ONE(cuModuleUnload), ONE(cuModuleGetFunction), ONE(cuFuncGetAttribute),
    ONE(cuFuncSetAttribute), ONE(cuFuncGetParamInfo), ONE(cuGetErrorString), ONE(cuLaunchKernelEx),
    ONE(cuLaunchKernel), ONE(cuStreamGetCaptureInfo), ONE(cuStreamGetId), ONE(cuStreamSynchronize),
    ONE(cuThreadExchangeStreamCaptureMode), ONE(cuTensorMapEncodeIm2col), ONE(cuTensorMapReplaceAddress),
#undef ONE
};

}  // namespace

extern "C" {
int cuGetProcAddress_v2(const char* symbol, void** function, int, uint64_t, int* found) {
    auto known = kFunctions.find(symbol);
    *function = known == kFunctions.end() ? nullptr : known->second;
    if (found) *found = *function ? 0 : 1;
    return *function ? kSuccess : kNotFound;
}
int cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
const Note* warpsmith_note() { return &note; }
const Note* warpsmith_note_before() { return &before; }
void warpsmith_answer(int status) { answer = status; }
uint64_t warpsmith_finished() { return finished; }
void warpsmith_sizes(const size_t* given, size_t count) { sizes.assign(given, given + count); }
}
