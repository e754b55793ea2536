// Fibers: stacks of their own that one OS thread switches between. A switch saves the registers that a called function
// must keep, and nothing else: a few ns, where swapcontext takes a system call for the signal mask.
#pragma once

#if (!defined(__x86_64__) && !defined(__aarch64__)) || defined(WARPSMITH_HOST_UCONTEXT)
#define WARPSMITH_HOST_USES_UCONTEXT 1
#include <ucontext.h>
#else
#define WARPSMITH_HOST_USES_UCONTEXT 0
#endif

#if WARPSMITH_HOST_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace warpsmith_host {

constexpr unsigned max_block_threads = 1024;
// A generated kernel's locals are registers on a GPU, 255 of them at most; spilled arrays fit many times over.
// Pages that are never touched take no memory. Frames with redzones are larger.
constexpr size_t stack_bytes = (sanitized ? 256 : 128) << 10;

#if WARPSMITH_HOST_USES_UCONTEXT

struct Context {
    ucontext_t registers;

    void enter_at(void (*entry)(), char *stack, size_t bytes) {
        getcontext(&registers);
        registers.uc_stack.ss_sp = stack;
        registers.uc_stack.ss_size = bytes;
        registers.uc_link = nullptr;
        makecontext(&registers, entry, 0);
    }
};
inline void switch_context(Context &from, Context &to) { swapcontext(&from.registers, &to.registers); }

#else

extern "C" void warpsmith_host_switch(void **saved_stack_pointer, void *stack_pointer) asm("warpsmith_host_switch");

#if defined(__x86_64__)
// A jump where a return would do: the processor foretells returns from its own record of calls, which a switch makes
// wrong every time (26 ns a barrier and thread with `ret`, 11 ns so).
asm(R"(
.text
.p2align 4
warpsmith_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
)");
// Six registers, the return address, and the null return address of whoever would have called the entry.
constexpr size_t first_frame_words = 8, return_word = 6;
#else
asm(R"(
.text
.p2align 4
warpsmith_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
constexpr size_t first_frame_words = 20, return_word = 11;
#endif

struct Context {
    void *stack_pointer;

    void enter_at(void (*entry)(), char *stack, size_t bytes) {
        void **frame = reinterpret_cast<void **>(stack + bytes) - first_frame_words;
        memset(frame, 0, first_frame_words * sizeof(void *));
        frame[return_word] = reinterpret_cast<void *>(entry);
        stack_pointer = frame;
    }
};
inline void switch_context(Context &from, Context &to) { warpsmith_host_switch(&from.stack_pointer, to.stack_pointer); }

#endif

enum class Wait : unsigned char {
    none,
    syncthreads,
    syncwarp,
    shfl,
    shfl_up,
    shfl_down,
    shfl_xor,
    ballot,
    any,
    all,
    activemask,
    phase
};

inline const char *name_of(Wait wait) {
    constexpr const char *names[] = {
        "nothing",           "__syncthreads",   "__syncwarp",    "__shfl_sync",  "__shfl_up_sync",
        "__shfl_down_sync",  "__shfl_xor_sync", "__ballot_sync", "__any_sync",   "__all_sync",
        "__activemask",      "the phase of a barrier",
    };
    return names[static_cast<int>(wait)];
}

struct Fiber {
    Context context;
    char *stack;  // its lowest address
    size_t stack_size;
    void *fake_stack;  // AddressSanitizer's, while the fiber is away

    // The thread of the block that runs on it, and what that thread waits for.
    uint3 thread;
    unsigned index;
    Wait wait;
    unsigned mask;    // the lanes that it waits for
    int source;       // shuffles: the lane to read; __activemask: the place in the source
    uint64_t value;   // what it brings
    uint64_t result;  // what it takes away
};

// To be called first on the other side of every switch. `origin` is where the switch came from.
inline void arrive(Fiber &fiber, Fiber &origin) {
#if WARPSMITH_HOST_SANITIZED
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &stack, &size);
    origin.stack = static_cast<char *>(const_cast<void *>(stack));
    origin.stack_size = size;
#else
    (void)fiber, (void)origin;
#endif
}

inline void depart(Fiber &from, Fiber &to, bool for_good) {
#if WARPSMITH_HOST_SANITIZED
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack, to.stack, to.stack_size);
#else
    (void)for_good;
#endif
    switch_context(from.context, to.context);
}

// The stacks of one OS thread's fibers. Kept from launch to launch: the first touch of a page costs more than a block.
struct Arena {
    Arena *next;
    char *memory;
    size_t page;
    unsigned guarded;  // how many stacks have their guard page
    Fiber fibers[max_block_threads];

    // A fiber that will start at `entry`.
    Fiber &prepare(unsigned i, void (*entry)()) {
        Fiber &fiber = fibers[i];
        char *const lowest = memory + i * stack_bytes;
        if (i >= guarded) {
            // Turns an overflow into a fault. Best effort: the kernel limits how many separate areas a process has.
            mprotect(lowest, page, PROT_NONE);
            guarded = i + 1;
        }
        fiber.stack = lowest + page;
        // Stacks at equal offsets of a power of two would fight for the same cache lines.
        fiber.stack_size = stack_bytes - page - (i % 16) * 256;
        fiber.fake_stack = nullptr;
#if WARPSMITH_HOST_SANITIZED
        __asan_unpoison_memory_region(fiber.stack, fiber.stack_size);
#endif
        fiber.context.enter_at(entry, fiber.stack, fiber.stack_size);
        return fiber;
    }
};

class Arenas {
  public:
    Arena *take() {
        pthread_mutex_lock(&mutex_);
        Arena *arena = free_;
        if (arena != nullptr) free_ = arena->next;
        pthread_mutex_unlock(&mutex_);
        return arena != nullptr ? arena : make();
    }

    void give_back(Arena *arena) {
        pthread_mutex_lock(&mutex_);
        arena->next = free_;
        free_ = arena;
        pthread_mutex_unlock(&mutex_);
    }

    void hold() { pthread_mutex_lock(&mutex_); }
    void let_go() { pthread_mutex_unlock(&mutex_); }

    ~Arenas() {
        while (free_ != nullptr) {
            Arena *arena = free_;
            free_ = arena->next;
            munmap(arena->memory, bytes);
            free(arena);
        }
    }

  private:
    static constexpr size_t bytes = max_block_threads * stack_bytes;

    static Arena *make() {
        Arena *arena = static_cast<Arena *>(calloc(1, sizeof(Arena)));
        void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == nullptr || memory == MAP_FAILED) stop("no memory for the stacks of a block's threads");
        arena->memory = static_cast<char *>(memory);
        arena->page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        return arena;
    }

    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    Arena *free_ = nullptr;
};

static Arenas arenas;

// In a forked child only the thread that forked goes on: the mutex is to be open there, and the list whole. Not in a C++
// constructor of `Arenas`: with one, AddressSanitizer of g++ 12 no longer tells what kind of error an access beyond
// dynamic shared memory is.
__attribute__((constructor)) static void survive_forks() {
    pthread_atfork([] { arenas.hold(); }, [] { arenas.let_go(); }, [] { arenas.let_go(); });
}

}  // namespace warpsmith_host
