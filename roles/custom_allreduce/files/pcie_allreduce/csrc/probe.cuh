// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// Do stores arrive? A driver may offer P2P, and copies may work, while what a kernel stores is lost or lands elsewhere. So every rank stores a
// pattern into its slot in every other inbox, with the instructions of the all-reduce, and looks for the others' in its own, for a bounded time.
#pragma once

#include "kernels.cuh"

namespace pcar {

constexpr uint32_t PROBE_WORDS = 1024, PROBE_THREADS = 256;

// Pinned host memory. One bit a rank.
struct Probed {
    unsigned missing, wrong;
};

// Another lane for each pair, place and lane; never empty.
__device__ __forceinline__ uint32_t probe_lane(uint32_t source, uint32_t target, uint32_t at) {
    uint32_t mix = (source * 8 + target + 1) * 2654435761u ^ at * 2246822519u;
    mix = (mix ^ mix >> 15) * 0x846CA68Bu;
    return mix | 1;
}

__global__ void __launch_bounds__(PROBE_THREADS, 1) probe(const __grid_constant__ Post post, uint32_t world, uint32_t words, uint64_t patience, Probed *found) {
    const Gpu gpu{nullptr, nullptr, 0};
    __shared__ unsigned missing, wrong;
    if (threadIdx.x == 0) missing = wrong = 0;
    __syncthreads();
    PCAR_ROLLED
    for (uint32_t steps = 1; steps < world; ++steps) {
        const uint32_t target = (post.rank + steps) % world;
        Word *to = post.peer[steps - 1] + static_cast<uint64_t>(post.rank) * post.slot_words;
        PCAR_ROLLED
        for (uint32_t at = threadIdx.x; at < words; at += blockDim.x) {
            Word word;
            PCAR_UNROLL
            for (uint32_t lane = 0; lane < 4; ++lane) word.lane[lane] = probe_lane(post.rank, target, 4 * at + lane);
            gpu.push(to + at, word);
        }
    }
    uint64_t began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    PCAR_ROLLED
    for (uint32_t steps = 1; steps < world; ++steps) {
        const uint32_t source = (post.rank + steps) % world;
        const Word *from = post.inbox + static_cast<uint64_t>(source) * post.slot_words;
        PCAR_ROLLED
        for (uint32_t at = threadIdx.x; at < words; at += blockDim.x) {
            Word word = empty();
            do {
                gpu.poll(word, from + at, true);
                asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
            } while (!whole<Sound>(word) && now - began < patience);
            bool right = true;
            PCAR_UNROLL
            for (uint32_t lane = 0; lane < 4; ++lane) right = right && word.lane[lane] == probe_lane(source, post.rank, 4 * at + lane);
            if (!whole<Sound>(word)) atomicOr(&missing, 1u << source);
            else if (!right) atomicOr(&wrong, 1u << source);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) *found = Probed{missing, wrong};
}

}  // namespace pcar
