// Launches: distributes blocks over OS threads, and defines the functions that Python calls.
#pragma once

#if WARPSMITH_HOST_SANITIZED
#include <sanitizer/asan_interface.h>
#endif

namespace warpsmith_host {

// Result of a launch function; runtime.py has the same list.
enum Status : int {
    launched = 0,
    empty = 1,
    block_too_large = 2,
    grid_too_large = 3,
    shared_too_large = 4,
    stopped = 5  // warpsmith_failure() returns the reason
};

// All dynamic shared arrays of a block share this memory, as on a GPU. Under AddressSanitizer the part beyond the size
// of the launch is poisoned, and such a part always exists.
constexpr size_t dynamic_shared_bytes = WARPSMITH_HOST_DYNAMIC_SHARED_BYTES + (sanitized ? 1024 : 16);

// Bytes that AddressSanitizer treats as the end of a dynamic shared array, and poisons. g++ leaves no room for them
// after a variable that has aliases, and a static shared array may follow.
constexpr size_t poisoned_end_bytes = sanitized ? 64 : 0;

// Blocks of a cluster, which follow one another along x.
constexpr uint64_t cluster_blocks = WARPSMITH_HOST_CLUSTER_BLOCKS;

}  // namespace warpsmith_host

extern "C" {
__attribute__((aligned(1024)))
WARPSMITH_HOST_SHARED_STORAGE unsigned char
    warpsmith_dynamic_shared[warpsmith_host::dynamic_shared_bytes + warpsmith_host::poisoned_end_bytes];
}

// Defines the memory of a kernel's `extern __shared__ T name[]`.
#define WARPSMITH_HOST_DYNAMIC_SHARED(T, name)                                                                         \
    extern WARPSMITH_HOST_SHARED_STORAGE T name[::warpsmith_host::dynamic_shared_bytes / sizeof(T)]                    \
        __attribute__((alias("warpsmith_dynamic_shared")));

namespace warpsmith_host {

inline Status check(const unsigned *grid, const unsigned *block, uint64_t shared_bytes) {
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 || block[2] == 0) return empty;
    // Limits of every compute capability so far (CUDA programming guide, technical specifications).
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64) return block_too_large;
    if (static_cast<uint64_t>(block[0]) * block[1] * block[2] > 1024) return block_too_large;
    if (grid[0] > INT_MAX || grid[1] > 65535 || grid[2] > 65535) return grid_too_large;
    if (shared_bytes > WARPSMITH_HOST_DYNAMIC_SHARED_BYTES) return shared_too_large;
    return launched;
}

constexpr size_t max_failure_bytes = 640;

struct Work {
    dim3 grid, block;
    uint64_t shared_bytes;
    const void *kernel;              // with its arguments
    void (*run_thread)(const void *);  // runs `kernel` for the thread at `here`
    void (*run_block)(const void *);   // runs `kernel` for all threads of the block at `here`; none waits for another
    uint64_t blocks, chunk;
    uint64_t next;  // the first block that no OS thread has taken
    int failed;     // 1 if the kernel was stopped
    char failure[max_failure_bytes];
};

// The launch that an OS thread works on, and the point at which it continues when its block is stopped.
struct Running {
    Work *work;
    jmp_buf outside;
};
static thread_local Running running;

// Reason why the last launch of this OS thread was stopped.
static thread_local char last_failure[max_failure_bytes];

inline void fail(Work &work, const char *message) {
    if (__atomic_exchange_n(&work.failed, 1, __ATOMIC_RELAXED) == 0) {
        snprintf(work.failure, sizeof work.failure, "%s", message);
    }
    __atomic_store_n(&work.next, work.blocks, __ATOMIC_RELAXED);  // no OS thread begins another block
}

[[noreturn]] inline void stop(const char *message) {
    char told[max_failure_bytes];
    snprintf(told, sizeof told, "block (%u,%u,%u): %s", here.block.x, here.block.y, here.block.z, message);
    if (sanitized) {
        fprintf(stderr, "warpsmith host device: %s\n", told);
        fflush(stderr);
        abort();
    }
    fail(*running.work, told);
    longjmp(running.outside, 1);  // kernels have nothing to destroy
}

}  // namespace warpsmith_host

#ifdef __GLIBC__
// The function that `assert` calls. The library's own definition comes before libc's, which would end the process.
extern "C" void __assert_fail(const char *condition, const char *file, unsigned line, const char *) noexcept {
    char message[512];
    snprintf(message, sizeof message, "%s:%u: assertion fails: %s", file, line, condition);
    ::warpsmith_host::stop(message);
}
#endif

namespace warpsmith_host {

inline void prepare_dynamic_shared(const Work &work) {
#if WARPSMITH_HOST_SANITIZED
    __asan_unpoison_memory_region(warpsmith_dynamic_shared, dynamic_shared_bytes);
    // Contents are undefined at the start of a block; NaNs expose kernels that rely on them.
    memset(warpsmith_dynamic_shared, 0xff, dynamic_shared_bytes);
    __asan_poison_memory_region(warpsmith_dynamic_shared + work.shared_bytes, dynamic_shared_bytes - work.shared_bytes);
#else
    (void)work;
#endif
}

#if WARPSMITH_HOST_COOPERATES
inline Block *make_block(bool waits) { return Block::make(waits); }
inline void run_block(Block &block, const Work &work) { block.run(work.run_thread, work.kernel); }
#else
struct Block {};
inline Block *make_block(bool) { return new (std::nothrow) Block; }
inline void run_block(Block &, const Work &work) { work.run_block(work.kernel); }
#endif

// Runs blocks until all are taken.
__attribute__((noinline)) inline void run_blocks(Block &block, Work &work) {
    here.grid_size = work.grid;
    here.block_size = work.block;
    for (;;) {
        const uint64_t first = __atomic_fetch_add(&work.next, work.chunk, __ATOMIC_RELAXED);
        if (first >= work.blocks) break;
        const uint64_t end = work.blocks - first < work.chunk ? work.blocks : first + work.chunk;
        for (uint64_t i = first; i < end; ++i) {
            here.block.x = static_cast<unsigned>(i % work.grid.x);
            here.block.y = static_cast<unsigned>(i / work.grid.x % work.grid.y);
            here.block.z = static_cast<unsigned>(i / work.grid.x / work.grid.y);
            prepare_dynamic_shared(work);
            run_block(block, work);
        }
    }
}

// One OS thread's share of a launch. It has no locals that a longjmp could invalidate.
inline void do_share(Block &block, Work &work) {
    running.work = &work;
    if (setjmp(running.outside) == 0) run_blocks(block, work);
}

// An additional OS thread of a launch. Without memory for its stacks it leaves its share to the others.
inline void *help(void *work) {
    if (Block *const block = make_block(false)) {
        do_share(*block, *static_cast<Work *>(work));
        delete block;
    }
    return nullptr;
}

// OS threads are created for each launch (about 20 us each) and not kept: nothing has to end before the library is
// unloaded, and a forked process lacks nothing. The caller's thread does its own share.
inline void run_on_cores(Work &work, int workers) {
    // The shared memory of a sanitized build exists once per process: one block runs at a time.
    if (sanitized || workers < 1) workers = 1;
    if (workers > max_workers) workers = max_workers;
    if (static_cast<uint64_t>(workers) > work.blocks) workers = static_cast<int>(work.blocks);
    // The chunk is small enough to balance the load and large enough for sequential memory access.
    work.chunk = work.blocks / (static_cast<uint64_t>(workers) * 32) + 1;
    work.chunk += (cluster_blocks - work.chunk % cluster_blocks) % cluster_blocks;  // clusters are not divided
    Block *const block = make_block(true);
    if (block == nullptr) return fail(work, "there is no memory for the stacks of its threads");
    pthread_t helpers[max_workers];
    int started = 0;
    while (started < workers - 1 && pthread_create(&helpers[started], nullptr, help, &work) == 0) ++started;
    do_share(*block, work);
    for (int i = 0; i < started; ++i) pthread_join(helpers[i], nullptr);
    delete block;
}

// A kernel and the values of its parameters.
template <auto function, typename Signature = decltype(function)> struct Kernel;

template <auto function, typename... Parameters> struct Kernel<function, void (*)(Parameters...)> {
    static_assert((std::is_trivially_copyable_v<Parameters> && ...), "a kernel's parameters are copied as bytes");
    static constexpr unsigned long long sizes[] = {sizeof(Parameters)..., 0};

    std::tuple<std::remove_cv_t<Parameters>...> values;

    template <size_t... i> void read(void *const *arguments, std::index_sequence<i...>) {
        (memcpy(&std::get<i>(values), arguments[i], sizeof(Parameters)), ...);
    }

    static void run_thread(const void *kernel) { std::apply(function, static_cast<const Kernel *>(kernel)->values); }

    static void run_block(const void *kernel) {
        const dim3 size = here.block_size;
        for (here.thread.z = 0; here.thread.z < size.z; ++here.thread.z) {
            for (here.thread.y = 0; here.thread.y < size.y; ++here.thread.y) {
                for (here.thread.x = 0; here.thread.x < size.x; ++here.thread.x) run_thread(kernel);
            }
        }
    }

    static Status launch(const unsigned *grid, const unsigned *block, uint64_t shared_bytes, void *const *arguments,
                         int workers) {
        const Status status = check(grid, block, shared_bytes);
        if (status != launched || arguments == nullptr) return status;
        Kernel kernel{};
        kernel.read(arguments, std::index_sequence_for<Parameters...>{});
        Work work{};
        work.grid = {grid[0], grid[1], grid[2]};
        work.block = {block[0], block[1], block[2]};
        work.shared_bytes = shared_bytes;
        work.kernel = &kernel;
        work.run_thread = run_thread;
        work.run_block = run_block;
        work.blocks = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
        run_on_cores(work, workers);
        if (work.failed) memcpy(last_failure, work.failure, sizeof last_failure);
        return work.failed ? stopped : launched;
    }
};

}  // namespace warpsmith_host

#define WARPSMITH_HOST_EXPORT extern "C" __attribute__((visibility("default")))

// Reason why the last launch that this thread called was stopped.
WARPSMITH_HOST_EXPORT const char *warpsmith_failure() { return ::warpsmith_host::last_failure; }

#if WARPSMITH_HOST_COOPERATES
// Passes the process's stacks to the library, before its first launch.
WARPSMITH_HOST_EXPORT void warpsmith_share_stacks(void *stacks) {
    ::warpsmith_host::stacks = static_cast<::warpsmith_host::Stacks *>(stacks);
}
#endif

// Functions of kernel `entry` that Python looks up: the sizes of its parameters, ended by 0, and its launch. `grid` and
// `block` are three sizes each, x first. arguments[i] points to the bytes of argument i, and is not read after the
// return. Without arguments the launch is checked, and nothing runs.
#define WARPSMITH_HOST_ENTRY(entry)                                                                                    \
    WARPSMITH_HOST_EXPORT const unsigned long long *warpsmith_parameters_##entry() {                                   \
        return ::warpsmith_host::Kernel<&::entry>::sizes;                                                              \
    }                                                                                                                  \
    WARPSMITH_HOST_EXPORT int warpsmith_launch_##entry(const unsigned *grid, const unsigned *block,                    \
                                                       unsigned long long shared_bytes, void *const *arguments,        \
                                                       int workers) {                                                  \
        return ::warpsmith_host::Kernel<&::entry>::launch(grid, block, shared_bytes, arguments, workers);      \
    }

// Returns the address and the size of `__constant__` variable `name`, to which Python writes before a launch.
#define WARPSMITH_HOST_CONSTANT(name)                                                                                  \
    WARPSMITH_HOST_EXPORT void *warpsmith_constant_##name(unsigned long long *size) {                                  \
        *size = sizeof(::name);                                                                                        \
        return &::name;                                                                                                \
    }
