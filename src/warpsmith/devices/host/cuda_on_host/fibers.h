// Fibers: separate stacks between which one OS thread switches. A switch saves only the callee-saved registers: a few
// ns, where swapcontext makes a system call for the signal mask.
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
// A generated kernel's locals are registers on a GPU, at most 255; spilled arrays fit many times over. Untouched pages
// take no memory. Frames with redzones are larger.
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
// A jump instead of a return: the processor predicts returns from its own record of calls, which a switch always
// invalidates (26 ns per barrier and thread with `ret`, 11 ns with a jump).
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
// Six registers, the return address, and a null return address, as if the entry had been called.
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
    unsigned number;  // index of its stack
    char *stack;  // lowest address of the stack
    size_t stack_size;
    void *fake_stack;  // AddressSanitizer's fake stack while the fiber is suspended

    // The thread of the block that runs on this fiber, and the operation that the thread waits for.
    uint3 thread;
    unsigned index;
    Wait wait;
    unsigned mask;    // lanes that the operation waits for
    int source;       // shuffles: the lane to read; __activemask: the place in the source
    uint64_t value;   // input of the operation
    uint64_t result;  // result of the operation
};

// Must be called first after every switch. `origin` is the fiber that the switch left.
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

// The stacks of one OS thread's fibers: one mapping, kept until the process ends, because the first touch of a page
// costs more than a block. Each Fiber object lies above its own stack.
struct Arena {
    int owner;         // id of the process whose thread uses it; 0 if it is free
    unsigned guarded;  // number of stacks that have their guard page
    char *memory;
};

// Memory that all libraries of a process share. Python allocates it, filled with zeros, and passes it to each library
// (runtime.py). With stacks of their own, 30 libraries used up the 65,530 memory areas that Linux gives a process.
struct Stacks {
    unsigned guards;
    Arena arenas[max_workers];
};
static_assert(sizeof(Stacks) <= 8192, "runtime.py makes so many bytes");

static Stacks *stacks;

// Maximum number of guard pages in a process; each splits a memory area in two. Later stacks have none.
constexpr unsigned max_guards = 8192;

inline size_t page_bytes() {
    static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Prepares a fiber that will start at `entry`, on stack `i` of `arena`.
inline Fiber &prepare(Arena &arena, unsigned i, void (*entry)()) {
    char *const lowest = arena.memory + i * stack_bytes;
    const size_t page = page_bytes();
    if (i >= arena.guarded) {
        // A stack overflow then faults.
        if (__atomic_fetch_add(&stacks->guards, 1, __ATOMIC_RELAXED) < max_guards) mprotect(lowest, page, PROT_NONE);
        arena.guarded = i + 1;
    }
    // Stacks at equal offsets of a power of two would compete for the same cache lines.
    char *const top = lowest + stack_bytes - (i % 16) * 256 - (sizeof(Fiber) + 63) / 64 * 64;
    Fiber &fiber = *reinterpret_cast<Fiber *>(top);
    fiber.number = i;
    fiber.stack = lowest + page;
    fiber.stack_size = static_cast<size_t>(top - fiber.stack);
    fiber.fake_stack = nullptr;
#if WARPSMITH_HOST_SANITIZED
    __asan_unpoison_memory_region(fiber.stack, fiber.stack_size);
#endif
    fiber.context.enter_at(entry, fiber.stack, fiber.stack_size);
    return fiber;
}

inline void give_back(Arena *arena) { __atomic_store_n(&arena->owner, 0, __ATOMIC_RELEASE); }

// A free arena; null if there is no memory for one. If all are in use, `waits` says whether to wait for one. No lock is
// used, which a fork could leave closed: an arena that a thread of the parent has taken is free in the child, where
// that thread does not exist.
inline Arena *take_arena(bool waits) {
    const int self = getpid();
    for (Arena *arena = stacks->arenas;; ++arena) {
        if (arena == stacks->arenas + max_workers) {
            if (!waits) return nullptr;
            usleep(100);
            arena = stacks->arenas;
        }
        int owner = __atomic_load_n(&arena->owner, __ATOMIC_RELAXED);
        if (owner == self) continue;
        if (!__atomic_compare_exchange_n(&arena->owner, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
        if (arena->memory != nullptr) return arena;
        constexpr size_t bytes = max_block_threads * stack_bytes;
        void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return give_back(arena), nullptr;
        arena->memory = static_cast<char *>(memory);
        return arena;
    }
}

}  // namespace warpsmith_host
