// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// A STAND-IN for the CUDA runtime, for the host side of the all-reduce library alone: who frees what when, and in which order calls go. Memory of
// a GPU is a file of shared memory, so that another process can open it, and its last four bytes count who has. No kernel runs: a launch is
// noted, and that of the probe writes and reads words by itself. It says nothing of what a GPU does.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "protocol.h"

namespace {

struct Memory {
    std::string name;
    size_t bytes;
    bool opened;  // another process made it
};

// nvcc registers kernels while the library is loaded, perhaps before this file's variables are there.
std::set<const void *> &probes() {
    static std::set<const void *> found;
    return found;
}

std::recursive_mutex lock;
std::map<void *, Memory> memory;
std::map<cudaStream_t, unsigned long long> captures;
std::set<cudaStream_t> busy;
std::string told;
double busy_seconds = 0;
int freed_while_open = 0, peers_answer = 1;

using Held = std::lock_guard<std::recursive_mutex>;

void note(const char *what, unsigned long long which) {
    const Held held(lock);
    char line[80];
    snprintf(line, sizeof line, "%s %llu\n", what, which);
    told += line;
}

unsigned long long number(const void *handle) { return reinterpret_cast<unsigned long long>(handle); }

unsigned *openers(void *at, size_t bytes) { return reinterpret_cast<unsigned *>(static_cast<char *>(at) + bytes - 4); }

void *map_file(const std::string &name, size_t bytes, int flags) {
    const int file = shm_open(name.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) return nullptr;
    void *at = ftruncate(file, static_cast<off_t>(bytes)) == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    return at == MAP_FAILED ? nullptr : at;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What the kernel of the same name does, with one word for each pair.
void play_probe(const pcar::Post post, uint32_t world, uint64_t patience, unsigned *found, cudaStream_t stream) {
    const double end = now() + static_cast<double>(patience) * 1e-9;
    unsigned missing = 0, wrong = 0;
    if (peers_answer)
        for (uint32_t steps = 1; steps < world; ++steps)
            __atomic_store_n(&post.peer[steps - 1][static_cast<uint64_t>(post.rank) * post.slot_words].lane[0],
                             peers_answer == 1 ? post.rank + 1 : 99u, __ATOMIC_RELEASE);
    for (uint32_t source = 0; source < world; ++source) {
        if (source == post.rank) continue;
        const uint32_t *from = post.inbox[static_cast<uint64_t>(source) * post.slot_words].lane;
        uint32_t lane;
        while ((lane = __atomic_load_n(from, __ATOMIC_ACQUIRE)) == 0 && now() < end) usleep(100);
        if (lane == 0) missing |= 1u << source;
        else if (lane != source + 1) wrong |= 1u << source;
    }
    found[0] = missing;
    found[1] = wrong;
    const Held held(lock);
    busy.erase(stream);
}

}  // namespace

extern "C" {

// --- what a test sets and asks ---
void played_busy(double seconds) { busy_seconds = seconds; }
void played_peers(int answer) { peers_answer = answer; }  // 0: store nothing, 1: as it should be, 2: something else
void played_capture(void *stream, unsigned long long capture) {
    const Held held(lock);
    if (capture) captures[static_cast<cudaStream_t>(stream)] = capture;
    else captures.erase(static_cast<cudaStream_t>(stream));
}
int played_faults(void) { return freed_while_open; }
int played_memory(void) {
    const Held held(lock);
    return static_cast<int>(memory.size());
}
void played_told(char *text, size_t bytes) {
    const Held held(lock);
    snprintf(text, bytes, "%s", told.c_str());
    told.clear();
}

// --- memory ---
cudaError_t cudaMalloc(void **at, size_t bytes) {
    static unsigned count = 0;
    const Held held(lock);
    char name[64];
    snprintf(name, sizeof name, "/played-%d-%u", getpid(), count++);
    const size_t whole = (bytes + 4 + 4095) / 4096 * 4096;
    *at = map_file(name, whole, O_CREAT | O_EXCL);
    if (*at == nullptr) return cudaErrorMemoryAllocation;
    memory[*at] = Memory{name, whole, false};
    return cudaSuccess;
}

cudaError_t cudaFree(void *at) {
    // A GPU that is busy makes every cudaFree wait.
    if (busy_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(busy_seconds));
    const Held held(lock);
    const auto found = memory.find(at);
    if (found == memory.end() || found->second.opened) return cudaErrorInvalidValue;
    if (__atomic_load_n(openers(at, found->second.bytes), __ATOMIC_ACQUIRE) != 0) freed_while_open += 1;
    munmap(at, found->second.bytes);
    shm_unlink(found->second.name.c_str());
    memory.erase(found);
    return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *at) {
    const Held held(lock);
    const Memory &own = memory.at(at);
    memset(handle, 0, sizeof *handle);
    snprintf(handle->reserved, sizeof handle->reserved, "%zu %s", own.bytes, own.name.c_str());
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **at, cudaIpcMemHandle_t handle, unsigned) {
    const Held held(lock);
    char name[64];
    size_t bytes = 0;
    if (sscanf(handle.reserved, "%zu %63s", &bytes, name) != 2) return cudaErrorInvalidValue;
    *at = map_file(name, bytes, 0);
    if (*at == nullptr) return cudaErrorMapBufferObjectFailed;
    __atomic_add_fetch(openers(*at, bytes), 1, __ATOMIC_ACQ_REL);
    memory[*at] = Memory{name, bytes, true};
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *at) {
    const Held held(lock);
    const Memory own = memory.at(at);
    __atomic_sub_fetch(openers(at, own.bytes), 1, __ATOMIC_ACQ_REL);
    munmap(at, own.bytes);
    memory.erase(at);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned) { return (*at = calloc(1, bytes)) ? cudaSuccess : cudaErrorMemoryAllocation; }
cudaError_t cudaFreeHost(void *at) {
    free(at);
    return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t) {
    memset(at, value, bytes);
    return cudaSuccess;
}

// --- devices ---
cudaError_t cudaGetDeviceCount(int *count) {
    *count = 8;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 132;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "as played"; }
const char *cudaGetErrorName(cudaError_t) { return "cudaErrorPlayed"; }

// --- streams and launches ---
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    static unsigned long long count = 1000;
    const Held held(lock);
    *stream = reinterpret_cast<cudaStream_t>(++count);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const Held held(lock);
    return busy.count(stream) ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = reinterpret_cast<cudaEvent_t>(1);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) {
    note("record", number(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
    note("wait", number(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    const Held held(lock);
    *status = captures.count(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *capture, cudaGraph_t *,
                                     const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *capture, cudaGraph_t *,
                                        const cudaGraphNode_t **, size_t *) {
#endif
    const Held held(lock);
    const auto found = captures.find(stream);
    *status = found != captures.end() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (capture != nullptr && found != captures.end()) *capture = found->second;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *) { return cudaSuccess; }
cudaError_t cudaLaunchKernel(const void *kernel, dim3, dim3, void **arguments, size_t, cudaStream_t stream) {
    if (!probes().count(kernel)) {
        note("launch", number(stream));
        return cudaSuccess;
    }
    {
        const Held held(lock);
        busy.insert(stream);
    }
    std::thread(play_probe, *static_cast<pcar::Post *>(arguments[0]), *static_cast<uint32_t *>(arguments[1]),
                *static_cast<uint64_t *>(arguments[3]), *static_cast<unsigned **>(arguments[4]), stream)
        .detach();
    return cudaSuccess;
}

// --- what nvcc's own code calls when the library is loaded ---
void **__cudaRegisterFatBinary(void *) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    if (strstr(name, "5probe") != nullptr) probes().insert(host);
}
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *) { return cudaSuccess; }
cudaError_t __cudaGetKernel(cudaKernel_t *, const void *) { return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t) { return cudaSuccess; }

}
