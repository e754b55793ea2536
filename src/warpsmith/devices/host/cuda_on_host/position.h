// Position of the running thread and its block: threadIdx, blockIdx, blockDim, gridDim.
#pragma once

namespace warpsmith_host {

constexpr int max_workers = 256;  // OS threads of a launch

struct Position {
    uint3 thread, block;
    dim3 block_size, grid_size;
};

// One per OS thread. If the threads of a block are fibers, each switch sets `here.thread`.
static thread_local Position here;

}  // namespace warpsmith_host

#define threadIdx (static_cast<const uint3 &>(::warpsmith_host::here.thread))
#define blockIdx (static_cast<const uint3 &>(::warpsmith_host::here.block))
#define blockDim (static_cast<const dim3 &>(::warpsmith_host::here.block_size))
#define gridDim (static_cast<const dim3 &>(::warpsmith_host::here.grid_size))

constexpr int warpSize = 32;
