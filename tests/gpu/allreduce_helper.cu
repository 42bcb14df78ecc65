// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kernels of the tests around an all-reduce: write an input that differs from call to call, look at every element of the output, wait.
// They read the number of the call in device memory, so a replayed graph has other data each time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int BLOCKS = 8, THREADS = 256;
constexpr size_t GUARDS = 32;  // bytes behind the last element, which nobody may write

__device__ uint32_t mixed(uint32_t value) {
    value = (value ^ value >> 16) * 0x7FEB352Du;
    value = (value ^ value >> 15) * 0x846CA68Bu;
    return value ^ value >> 16;
}

// Whole numbers from -8 to 8: eight of them add up exactly in every type. Zeros of both signs among them.
__device__ float value_of(uint32_t rank, uint32_t call, uint32_t at) {
    const uint32_t mix = mixed(at * 2654435761u + call * 40503u + rank * 97u);
    if (mix % 7 == 0) return mix & 8 ? -0.0f : 0.0f;
    return static_cast<float>(static_cast<int>(mix % 17) - 8);
}

__device__ uint32_t bits(float value, int dtype) {
    if (dtype == 0) return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    if (dtype == 1) return __half_as_ushort(__float2half_rn(value));
    return __float_as_uint(value);
}

__device__ void store(void *to, size_t at, uint32_t value, int dtype) {
    if (dtype == 2) static_cast<uint32_t *>(to)[at] = value;
    else static_cast<uint16_t *>(to)[at] = static_cast<uint16_t>(value);
}

__device__ uint32_t load(const void *from, size_t at, int dtype) {
    return dtype == 2 ? static_cast<const uint32_t *>(from)[at] : static_cast<const uint16_t *>(from)[at];
}

__device__ uint8_t guard_of(uint32_t call, size_t at) { return static_cast<uint8_t>(0xA5 ^ (call * 31 + at * 7)); }

__device__ size_t end_of(size_t count, int dtype) { return count * (dtype == 2 ? 4 : 2); }

__device__ void put_guards(void *to, size_t end, uint32_t call, size_t at) {
    if (at < GUARDS) static_cast<uint8_t *>(to)[end + at] = guard_of(call, end + at);
}

// The input, and the guards behind the input and the output.
__global__ void fill(void *to, void *output, size_t count, int dtype, uint32_t rank, const uint32_t *call) {
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, end = end_of(count, dtype);
    put_guards(to, end, *call, first);
    put_guards(output, end, *call, first);
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
        store(to, at, bits(value_of(rank, *call, static_cast<uint32_t>(at)), dtype), dtype);
}

// counts[0]: the number of the call; counts[1]: elements that were wrong, and bytes behind the end that were written.
__global__ void look(const void *from, size_t count, int dtype, uint32_t world, uint32_t *counts) {
    uint32_t wrong = 0;
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (uint32_t rank = 0; rank < world; ++rank) sum += value_of(rank, counts[0], static_cast<uint32_t>(at));
        wrong += load(from, at, dtype) != bits(sum, dtype);
    }
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, end = end_of(count, dtype) + first;
    if (first < GUARDS) wrong += static_cast<const uint8_t *>(from)[end] != guard_of(counts[0], end);
    if (wrong != 0) atomicAdd(&counts[1], wrong);
}

__global__ void advance(uint32_t *counts) { counts[0] += 1; }

__global__ void wait(uint32_t rank, uint32_t most_nanoseconds, const uint32_t *call) {
    uint64_t now, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    end = now + (most_nanoseconds == 0 ? 0 : mixed(*call * 31 + rank) % most_nanoseconds);
    while (now < end) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
}

}  // namespace

extern "C" {

// CUDA loads a kernel at its first launch, and may wait for a device on which a rank already waits for others.
int helper_load(int device) {
    cudaFuncAttributes unused;
    int failed = cudaSetDevice(device) != cudaSuccess;
    failed |= cudaFuncGetAttributes(&unused, fill) != cudaSuccess;
    failed |= cudaFuncGetAttributes(&unused, look) != cudaSuccess;
    failed |= cudaFuncGetAttributes(&unused, advance) != cudaSuccess;
    failed |= cudaFuncGetAttributes(&unused, wait) != cudaSuccess;
    return failed;
}

int helper_fill(int device, void *to, void *output, size_t count, int dtype, unsigned rank, const unsigned *call, void *stream) {
    if (cudaSetDevice(device) != cudaSuccess) return 1;
    fill<<<BLOCKS, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(to, output, count, dtype, rank, call);
    return cudaGetLastError();
}

int helper_look(int device, const void *from, size_t count, int dtype, unsigned world, unsigned *counts, void *stream) {
    if (cudaSetDevice(device) != cudaSuccess) return 1;
    look<<<BLOCKS, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(from, count, dtype, world, counts);
    advance<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(counts);
    return cudaGetLastError();
}

int helper_wait(int device, unsigned rank, unsigned most_nanoseconds, const unsigned *call, void *stream) {
    if (cudaSetDevice(device) != cudaSuccess) return 1;
    wait<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(rank, most_nanoseconds, call);
    return cudaGetLastError();
}

}
