// Copyright: gpu_node.tuning contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The C interface: memory that every rank can reach, and the launch.

#include <cuda_runtime.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "kernels.cuh"
#include "probe.cuh"

namespace {

using namespace pcar;

constexpr size_t MIB2 = size_t(2) << 20;
constexpr size_t HEADER = 4096;  // of a shared-memory segment; the inbox begins after it
constexpr int MIN_BLOCK = 32, USUAL_BLOCK = 256;
constexpr double PEERS_SECONDS = 1, DESTROY_SECONDS = 3;  // how long a destroy waits for peers to close, and at all

thread_local char last_error[512];

__attribute__((format(printf, 2, 3))) int fail(int code, const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(last_error, sizeof last_error, format, words);
    va_end(words);
    return code;
}

int cuda_failed(cudaError_t error, const char *what) {
    (void)cudaGetLastError();
    return fail(PCAR_ECUDA, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

#define TRY(call)                                           \
    do {                                                    \
        if (const int code_ = (call); code_ != 0) return code_; \
    } while (0)
#define TRY_CUDA(call, what)                                                                      \
    do {                                                                                          \
        if (const cudaError_t error_ = (call); error_ != cudaSuccess) return cuda_failed(error_, what); \
    } while (0)

class OnDevice {
public:
    explicit OnDevice(int device) {
        changed_ = cudaGetDevice(&before_) == cudaSuccess && before_ != device && cudaSetDevice(device) == cudaSuccess;
    }
    ~OnDevice() {
        if (changed_) (void)cudaSetDevice(before_);
    }

private:
    int before_ = 0;
    bool changed_ = false;
};

// Tells one process from another where process numbers repeat, as they do in containers.
unsigned long long process_mark() {
    static const unsigned long long mark = [] {
        unsigned long long random = 0;
        const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        if (file < 0 || read(file, &random, sizeof random) != sizeof random)
            random = static_cast<unsigned long long>(getpid()) << 32 ^ reinterpret_cast<uintptr_t>(&random);
        if (file >= 0) close(file);
        return random;
    }();
    return mark;
}

struct Handle {
    char magic[8];
    int abi, rank, world, transport, device;
    unsigned long long process, slot_bytes;
    void *inbox, *mapping;  // address on the device and of the shared memory, for ranks of the same process
    cudaIpcMemHandle_t memory;
    char segment[64];
};
constexpr char MAGIC[8] = "pcar-1";

struct Header {
    unsigned attached;  // ranks that have had this memory
    unsigned open;      // ranks of other processes that have it now
};

struct Segment {
    void *mapping = nullptr;
    bool registered = false;
};

struct Communicator {
    int rank = 0, world = 0, transport = 0, device = 0, processors = 0;
    cudaEvent_t before = nullptr;  // orders a call after one on another stream
    bool called = false, captured = false;
    cudaStream_t stream = nullptr, captured_stream = nullptr;  // of the last call, and of the last one in a capture
    unsigned long long capture = 0;
    size_t slot_bytes = 0;
    unsigned long long patience = 0;
    bool imported = false;
    Alarm *alarm = nullptr, *alarm_on_device = nullptr;
    Probed *probed = nullptr, *probed_on_device = nullptr;  // behind the alarm
    State *state = nullptr;
    void *inbox = nullptr;  // as this device sees it
    Segment own;
    char segment_name[64] = "";
    void *opened[MAX_WORLD] = {};  // IPC mappings
    Segment attached[MAX_WORLD];
    Post post = {};

    size_t inbox_bytes() const { return slots_of(static_cast<uint32_t>(world)) * slot_bytes; }
    // With peer memory only the counts of who has it.
    size_t segment_bytes() const { return transport == PCAR_HOST_STAGED ? HEADER + inbox_bytes() : HEADER; }
};

// --- shared memory of the host ---------------------------------------------------------------------------------------------------

int register_segment(Segment &segment, size_t bytes, void **inbox) {
    TRY_CUDA(cudaHostRegister(segment.mapping, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
             "cudaHostRegister of the shared memory");
    segment.registered = true;
    void *first = nullptr;
    TRY_CUDA(cudaHostGetDevicePointer(&first, segment.mapping, 0), "cudaHostGetDevicePointer of the shared memory");
    *inbox = static_cast<char *>(first) + HEADER;
    return 0;
}

int map_segment(int file, size_t bytes, const char *name, Segment &segment) {
    void *mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int error = errno;
    close(file);
    if (mapping == MAP_FAILED) return fail(PCAR_ESYSTEM, "mmap of shared memory %s: %s", name, strerror(error));
    segment.mapping = mapping;
    return 0;
}

int create_segment(Communicator &self) {
    static unsigned count = 0;
    snprintf(self.segment_name, sizeof self.segment_name, "/pcar-%016llx-%u-%d", process_mark(),
             __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED), self.rank);
    const int file = shm_open(self.segment_name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        const int error = errno;
        const int code = fail(PCAR_ESYSTEM, "shm_open of %s: %s", self.segment_name, strerror(error));
        self.segment_name[0] = 0;
        return code;
    }
    // Not ftruncate: where /dev/shm is too small, that succeeds and the first access ends the process.
    if (const int error = posix_fallocate(file, 0, static_cast<off_t>(self.segment_bytes()))) {
        close(file);
        return fail(PCAR_ESYSTEM, "/dev/shm has no room for %zu bytes: %s; enlarge it (docker: --shm-size) or take smaller slots",
                    self.segment_bytes(), strerror(error));
    }
    TRY(map_segment(file, self.segment_bytes(), self.segment_name, self.own));
    memset(self.own.mapping, 0, self.segment_bytes());
    return self.transport == PCAR_HOST_STAGED ? register_segment(self.own, self.segment_bytes(), &self.inbox) : 0;
}

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The name goes when the last peer has the memory, so that nothing is left behind whichever way the processes end.
void count_attached(void *mapping, int world, const char *name, bool other_process) {
    Header *header = static_cast<Header *>(mapping);
    if (other_process) __atomic_add_fetch(&header->open, 1, __ATOMIC_ACQ_REL);
    if (__atomic_add_fetch(&header->attached, 1, __ATOMIC_ACQ_REL) == static_cast<unsigned>(world - 1)) shm_unlink(name);
}

int attach_segment(Communicator &self, const Handle &handle, void **inbox) {
    Segment &segment = self.attached[handle.rank];
    if (handle.process == process_mark()) {
        count_attached(handle.mapping, self.world, handle.segment, false);
        if (self.transport == PCAR_PEER) return 0;
        void *first = nullptr;
        TRY_CUDA(cudaHostGetDevicePointer(&first, handle.mapping, 0), "cudaHostGetDevicePointer of another rank's shared memory");
        *inbox = static_cast<char *>(first) + HEADER;
        return 0;
    }
    const int file = shm_open(handle.segment, O_RDWR | O_CLOEXEC, 0);
    if (file < 0)
        return fail(PCAR_ESYSTEM, "shm_open of rank %d's %s: %s; the ranks must share /dev/shm and a user", handle.rank,
                    handle.segment, strerror(errno));
    TRY(map_segment(file, self.segment_bytes(), handle.segment, segment));
    count_attached(segment.mapping, self.world, handle.segment, true);
    return self.transport == PCAR_HOST_STAGED ? register_segment(segment, self.segment_bytes(), inbox) : 0;
}

void release_segment(Segment &segment, size_t bytes, bool own) {
    if (segment.registered) (void)cudaHostUnregister(segment.mapping);
    if (segment.mapping && !own) __atomic_sub_fetch(&static_cast<Header *>(segment.mapping)->open, 1, __ATOMIC_ACQ_REL);
    if (segment.mapping) munmap(segment.mapping, bytes);
    segment = Segment{};
}

// --- memory of the peers ---------------------------------------------------------------------------------------------------------

int reach_peer(Communicator &self, const Handle &handle, void **inbox) {
    if (handle.process != process_mark()) {
        TRY_CUDA(cudaIpcOpenMemHandle(inbox, handle.memory, cudaIpcMemLazyEnablePeerAccess),
                 "cudaIpcOpenMemHandle of a peer's inbox (is P2P available between these GPUs?)");
        self.opened[handle.rank] = *inbox;
        return 0;
    }
    *inbox = handle.inbox;
    if (handle.device == self.device) return 0;
    const cudaError_t error = cudaDeviceEnablePeerAccess(handle.device, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return 0;
    }
    TRY_CUDA(error, "cudaDeviceEnablePeerAccess");
    return 0;
}

// --- kernels ---------------------------------------------------------------------------------------------------------------------

using Kernel = void (*)(Call);

template <class Type, int algorithm> Kernel of_world(int world) {
    switch (world) {
    case 2: return all_reduce<Type, 2, algorithm>;
    case 3: return all_reduce<Type, 3, algorithm>;
    case 4: return all_reduce<Type, 4, algorithm>;
    case 5: return all_reduce<Type, 5, algorithm>;
    case 6: return all_reduce<Type, 6, algorithm>;
    case 7: return all_reduce<Type, 7, algorithm>;
    default: return all_reduce<Type, 8, algorithm>;
    }
}

template <class Type> Kernel of_algorithm(int algorithm, int world) {
    if (algorithm == PCAR_ISLANDS) return all_reduce<Type, 8, PCAR_ISLANDS>;
    if (algorithm == PCAR_ONE_SHOT_PULL) return of_world<Type, PCAR_ONE_SHOT_PULL>(world);
    return algorithm == PCAR_TWO_SHOT ? of_world<Type, PCAR_TWO_SHOT>(world) : of_world<Type, PCAR_ONE_SHOT>(world);
}

Kernel kernel_for(int dtype, int algorithm, int world) {
    if (dtype == PCAR_FP32) return of_algorithm<Fp32>(algorithm, world);
    return dtype == PCAR_FP16 ? of_algorithm<Fp16>(algorithm, world) : of_algorithm<Bf16>(algorithm, world);
}

bool is_built(int algorithm, int world) {
    return algorithm >= PCAR_ONE_SHOT && algorithm <= (world == 8 ? PCAR_ISLANDS : PCAR_ONE_SHOT_PULL);
}

int not_built(int algorithm, int world) {
    return fail(PCAR_EALGORITHM,
                "algorithm %d with world %d: 0 (one-shot), 1 (two-shot), 2 (one-shot pull) and, with world 8, 3 (islands) are legal",
                algorithm, world);
}

// CUDA loads a kernel at its first launch and may wait for the device for it: a device that waits for this very rank.
int load_kernels(int world) {
    for (int dtype = PCAR_BF16; dtype <= PCAR_FP32; ++dtype)
        for (int algorithm = PCAR_ONE_SHOT; algorithm <= PCAR_ISLANDS; ++algorithm) {
            if (!is_built(algorithm, world)) continue;
            cudaFuncAttributes unused;
            const void *kernel = reinterpret_cast<const void *>(kernel_for(dtype, algorithm, world));
            TRY_CUDA(cudaFuncGetAttributes(&unused, kernel), "loading the kernels (was the library built for this GPU?)");
        }
    cudaFuncAttributes unused;
    TRY_CUDA(cudaFuncGetAttributes(&unused, reinterpret_cast<const void *>(probe)), "loading the probe");
    return 0;
}

// A slot holds 2 * ceil(words / world) words of a two-shot call, and at most 4 * ceil(words / 4) of a call with islands.
size_t longest(const Communicator &self, int algorithm) {
    const size_t words = self.slot_bytes / sizeof(Word);
    if (algorithm == PCAR_TWO_SHOT) return words / 2 * self.world * sizeof(Word);
    return (algorithm == PCAR_ISLANDS ? words / 4 * 4 : words) * sizeof(Word);
}

int zero_state(Communicator &self) {
    cudaStream_t stream = nullptr;
    TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cudaError_t error = cudaMemsetAsync(self.state, 0, sizeof(State), stream);
    if (error == cudaSuccess && self.transport == PCAR_PEER)
        error = cudaMemsetAsync(self.inbox, 0, self.inbox_bytes(), stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
    TRY_CUDA(error, "clearing the workspace");
    return 0;
}

int build(Communicator &self) {
    TRY_CUDA(cudaDeviceGetAttribute(&self.processors, cudaDevAttrMultiProcessorCount, self.device), "cudaDeviceGetAttribute");
    TRY(load_kernels(self.world));
    struct Words {
        Alarm alarm;
        Probed probed;
    };
    TRY_CUDA(cudaHostAlloc(reinterpret_cast<void **>(&self.alarm), sizeof(Words), cudaHostAllocMapped | cudaHostAllocPortable),
             "cudaHostAlloc of the error word");
    memset(static_cast<void *>(self.alarm), 0, sizeof(Words));
    TRY_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void **>(&self.alarm_on_device), self.alarm, 0),
             "cudaHostGetDevicePointer of the error word");
    self.probed = &reinterpret_cast<Words *>(self.alarm)->probed;
    self.probed_on_device = &reinterpret_cast<Words *>(self.alarm_on_device)->probed;
    TRY_CUDA(cudaMalloc(reinterpret_cast<void **>(&self.state), sizeof(State)), "cudaMalloc of the state");
    TRY_CUDA(cudaEventCreateWithFlags(&self.before, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    TRY(create_segment(self));
    if (self.transport == PCAR_PEER) {
        // Whole pages of the driver, so that what peers map holds nothing else.
        const size_t bytes = (self.inbox_bytes() + MIB2 - 1) / MIB2 * MIB2;
        TRY_CUDA(cudaMalloc(&self.inbox, bytes), "cudaMalloc of the inbox");
    }
    return zero_state(self);
}

bool all_closed(const Communicator &self) {
    if (self.own.mapping == nullptr) return true;
    const unsigned &open = static_cast<Header *>(self.own.mapping)->open;
    for (const double end = now() + PEERS_SECONDS; __atomic_load_n(&open, __ATOMIC_ACQUIRE) != 0; usleep(200))
        if (now() > end) return false;
    return true;
}

// Own kernels end, then the peers' memory is closed, then the own goes when no peer has it any more.
void release(Communicator *self) {
    const OnDevice here(self->device);
    if (self->alarm) self->alarm->abandon = 1;
    if (self->state) (void)cudaFree(self->state);  // waits for kernels that still run; they have just been told to give up
    for (void *opened : self->opened)
        if (opened) (void)cudaIpcCloseMemHandle(opened);
    for (Segment &segment : self->attached) release_segment(segment, self->segment_bytes(), false);
    if (self->segment_name[0]) shm_unlink(self->segment_name);
    if (self->transport == PCAR_PEER && self->inbox && all_closed(*self)) (void)cudaFree(self->inbox);
    release_segment(self->own, self->segment_bytes(), true);
    if (self->alarm) (void)cudaFreeHost(self->alarm);
    if (self->before) (void)cudaEventDestroy(self->before);
    (void)cudaGetLastError();
    delete self;
}

// cudaFree waits for everything that runs on the GPU, also for what waits for a rank that is gone; so a thread of its own waits for that.
void release_in_time(Communicator *self) {
    struct Done {
        std::mutex lock;
        std::condition_variable told;
        bool done = false;
    };
    try {
        const auto shared = std::make_shared<Done>();
        std::thread([self, shared] {
            release(self);
            const std::lock_guard<std::mutex> held(shared->lock);
            shared->done = true;
            shared->told.notify_all();
        }).detach();
        std::unique_lock<std::mutex> held(shared->lock);
        shared->told.wait_for(held, std::chrono::duration<double>(DESTROY_SECONDS), [&] { return shared->done; });
    } catch (const std::exception &) {
        release(self);  // no thread is to be had
    }
}

// A call on another stream than the one before would run beside it, in the same slots.
int follow_stream(Communicator &self, cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long capture = 0;
    TRY_CUDA(cudaStreamGetCaptureInfo(stream, &status, &capture), "cudaStreamGetCaptureInfo");
    if (status != cudaStreamCaptureStatusNone) {
        if (self.captured && self.capture == capture && self.captured_stream != stream)
            return fail(PCAR_ESTATE, "calls of rank %d on two streams of one capture: all calls of a communicator belong on one stream",
                        self.rank);
        self.captured = true;
        self.capture = capture;
        self.captured_stream = stream;
        return 0;
    }
    if (self.called && stream != self.stream) {
        TRY_CUDA(cudaStreamIsCapturing(self.stream, &status), "cudaStreamIsCapturing");
        if (status != cudaStreamCaptureStatusNone)
            return fail(PCAR_ESTATE, "a call of rank %d on another stream while the stream of the call before is being captured", self.rank);
        TRY_CUDA(cudaEventRecord(self.before, self.stream), "cudaEventRecord on the stream of the call before");
        TRY_CUDA(cudaStreamWaitEvent(stream, self.before, 0), "cudaStreamWaitEvent");
    }
    self.called = true;
    self.stream = stream;
    return 0;
}

int check_handle(const Communicator &self, const Handle &handle, int rank) {
    if (memcmp(handle.magic, MAGIC, sizeof MAGIC) != 0 || handle.abi != PCAR_ABI)
        return fail(PCAR_EHANDLE, "the handle of rank %d is none of ABI %d: do all ranks load the same library?", rank, PCAR_ABI);
    if (handle.rank != rank) return fail(PCAR_EHANDLE, "handle %d is rank %d's: they have to be in rank order", rank, handle.rank);
    if (handle.world != self.world || handle.transport != self.transport || handle.slot_bytes != self.slot_bytes)
        return fail(PCAR_EHANDLE,
                    "rank %d has world %d, transport %d, slots of %llu bytes; rank %d has %d, %d, %zu: they have to agree", rank,
                    handle.world, handle.transport, handle.slot_bytes, self.rank, self.world, self.transport, self.slot_bytes);
    return 0;
}

int check_call(const Communicator &self, const void *input, const void *output, size_t count, int dtype, int algorithm, int blocks,
               int threads) {
    if (!self.imported) return fail(PCAR_ESTATE, "pcar_all_reduce before pcar_import");
    if (self.alarm->code != 0)
        return fail(PCAR_EWATCHDOG, "rank %d did not answer rank %d in call %llu; after pcar_reset_status on all ranks it may go on",
                    self.alarm->peer, self.rank, self.alarm->call);
    if (!is_built(algorithm, self.world)) return not_built(algorithm, self.world);
    if (dtype < PCAR_BF16 || dtype > PCAR_FP32) return fail(PCAR_EARGUMENT, "dtype %d: 0 bf16, 1 fp16, 2 fp32 are legal", dtype);
    if (input == nullptr || output == nullptr) return fail(PCAR_EARGUMENT, "input or output is a null pointer");
    if ((reinterpret_cast<uintptr_t>(input) | reinterpret_cast<uintptr_t>(output)) % sizeof(Word) != 0)
        return fail(PCAR_EALIGN, "input %p and output %p have to be aligned to 16 bytes", input, output);
    const size_t size = dtype == PCAR_FP32 ? 4 : 2, most = longest(self, algorithm);
    if (count > most / size)
        return fail(PCAR_ESIZE, "%zu elements of %zu bytes; at most %zu bytes fit with this algorithm: create with larger slots", count,
                    size, most);
    if (threads != 0 && (threads < MIN_BLOCK || threads > MAX_THREADS || threads % MIN_BLOCK != 0))
        return fail(PCAR_EARGUMENT, "threads %d: 0, or a multiple of %d up to %d", threads, MIN_BLOCK, MAX_THREADS);
    if (blocks < 0 || blocks > self.processors)
        return fail(PCAR_EARGUMENT, "blocks %d: 0 to %d, the multiprocessors of this GPU, as all have to run at once", blocks,
                    self.processors);
    return 0;
}

int usual_blocks(const Communicator &self, const Tensor &tensor, int algorithm, int threads) {
    const uint32_t chunks = algorithm == PCAR_TWO_SHOT ? self.world : algorithm == PCAR_ISLANDS ? self.world / 2 : 1;
    const uint32_t items = (tensor.words + chunks - 1) / chunks;
    const int blocks = static_cast<int>((items + threads - 1) / threads);
    const int most = self.processors < 32 ? self.processors : 32;
    return blocks < most ? blocks : most;
}

}  // namespace

int pcar_abi(void) { return PCAR_ABI; }

const char *pcar_last_error(void) { return last_error; }

size_t pcar_handle_bytes(void) { return sizeof(Handle); }

int pcar_create(void **out, int rank, int world, size_t slot_bytes, int transport, int device, double watchdog_seconds) {
    if (out == nullptr) return fail(PCAR_EARGUMENT, "self is a null pointer");
    *out = nullptr;
    if (world < 2 || world > static_cast<int>(MAX_WORLD)) return fail(PCAR_EARGUMENT, "world %d: 2 to 8 are legal", world);
    if (rank < 0 || rank >= world) return fail(PCAR_EARGUMENT, "rank %d: 0 to %d are legal", rank, world - 1);
    if (slot_bytes < 4 * sizeof(Word) || slot_bytes > size_t(1) << 30)
        return fail(PCAR_EARGUMENT, "slot_bytes %zu: 64 to 1073741824 are legal", slot_bytes);
    if (transport != PCAR_PEER && transport != PCAR_HOST_STAGED)
        return fail(PCAR_EARGUMENT, "transport %d: 0 (peer memory) and 1 (host-staged) are legal", transport);
    if (!(watchdog_seconds > 0 && watchdog_seconds <= 86400))
        return fail(PCAR_EARGUMENT, "watchdog_seconds %g: more than 0, at most 86400", watchdog_seconds);
    int devices = 0;
    TRY_CUDA(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (device < 0 || device >= devices) return fail(PCAR_EARGUMENT, "device %d: this process sees %d", device, devices);
    auto *self = new (std::nothrow) Communicator;
    if (self == nullptr) return fail(PCAR_ESYSTEM, "out of memory");
    self->rank = rank;
    self->world = world;
    self->transport = transport;
    self->device = device;
    self->slot_bytes = (slot_bytes + 63) / 64 * 64;  // four whole words: calls cut the slot in two or four
    self->patience = static_cast<unsigned long long>(watchdog_seconds * 1e9);
    const OnDevice here(device);
    if (const int code = build(*self)) {
        release(self);
        return code;
    }
    *out = self;
    return 0;
}

int pcar_export(void *opaque, void *out) {
    if (opaque == nullptr || out == nullptr) return fail(PCAR_EARGUMENT, "self or handle is a null pointer");
    Communicator &self = *static_cast<Communicator *>(opaque);
    const OnDevice here(self.device);
    Handle handle = {};
    memcpy(handle.magic, MAGIC, sizeof MAGIC);
    handle.abi = PCAR_ABI;
    handle.rank = self.rank;
    handle.world = self.world;
    handle.transport = self.transport;
    handle.device = self.device;
    handle.process = process_mark();
    handle.slot_bytes = self.slot_bytes;
    handle.inbox = self.inbox;
    handle.mapping = self.own.mapping;
    if (self.transport == PCAR_PEER) TRY_CUDA(cudaIpcGetMemHandle(&handle.memory, self.inbox), "cudaIpcGetMemHandle of the inbox");
    memcpy(handle.segment, self.segment_name, sizeof handle.segment);
    memcpy(out, &handle, sizeof handle);
    return 0;
}

int pcar_import(void *opaque, const void *handles) {
    if (opaque == nullptr || handles == nullptr) return fail(PCAR_EARGUMENT, "self or handles is a null pointer");
    Communicator &self = *static_cast<Communicator *>(opaque);
    if (self.imported) return fail(PCAR_ESTATE, "pcar_import was called before");
    const OnDevice here(self.device);
    void *inbox[MAX_WORLD] = {};
    inbox[self.rank] = self.inbox;
    for (int rank = 0; rank < self.world; ++rank) {
        Handle handle;
        memcpy(&handle, static_cast<const char *>(handles) + rank * sizeof handle, sizeof handle);
        TRY(check_handle(self, handle, rank));
        if (rank == self.rank) continue;
        if (self.transport == PCAR_PEER) TRY(reach_peer(self, handle, &inbox[rank]));
        TRY(attach_segment(self, handle, &inbox[rank]));
    }
    self.post.rank = static_cast<uint32_t>(self.rank);
    self.post.slot_words = static_cast<uint32_t>(self.slot_bytes / sizeof(Word));
    self.post.inbox = static_cast<Word *>(self.inbox);
    for (int steps = 1; steps < self.world; ++steps)
        self.post.peer[steps - 1] = static_cast<Word *>(inbox[(self.rank + steps) % self.world]);
    self.imported = true;
    return 0;
}

int pcar_probe(void *opaque, double seconds, unsigned *missing, unsigned *wrong) {
    if (opaque == nullptr || missing == nullptr || wrong == nullptr)
        return fail(PCAR_EARGUMENT, "self, missing or wrong is a null pointer");
    Communicator &self = *static_cast<Communicator *>(opaque);
    if (!self.imported) return fail(PCAR_ESTATE, "pcar_probe before pcar_import");
    if (!(seconds > 0 && seconds <= 600)) return fail(PCAR_EARGUMENT, "seconds %g: more than 0, at most 600", seconds);
    const OnDevice here(self.device);
    *self.probed = Probed{~0u, 0};
    cudaStream_t stream = nullptr;
    TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    uint32_t world = static_cast<uint32_t>(self.world), words = self.post.slot_words < PROBE_WORDS ? self.post.slot_words : PROBE_WORDS;
    uint64_t patience = static_cast<uint64_t>(seconds * 1e9);
    void *arguments[] = {&self.post, &world, &words, &patience, &self.probed_on_device};
    cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void *>(probe), dim3(1), dim3(PROBE_THREADS), arguments, 0, stream);
    const double end = now() + seconds + 5;
    while (error == cudaSuccess && (error = cudaStreamQuery(stream)) == cudaErrorNotReady && now() < end) {
        (void)cudaGetLastError();
        error = cudaSuccess;
        usleep(200);
    }
    if (error == cudaErrorNotReady) return fail(PCAR_EWATCHDOG, "the probe of rank %d did not end in time", self.rank);
    (void)cudaStreamDestroy(stream);
    TRY_CUDA(error, "the probe");
    *missing = self.probed->missing & ((1u << self.world) - 1) & ~(1u << self.rank);
    *wrong = self.probed->wrong;
    return 0;
}

int pcar_max_bytes(void *opaque, int algorithm, size_t *bytes) {
    if (opaque == nullptr || bytes == nullptr) return fail(PCAR_EARGUMENT, "self or bytes is a null pointer");
    const Communicator &self = *static_cast<Communicator *>(opaque);
    if (!is_built(algorithm, self.world)) return not_built(algorithm, self.world);
    *bytes = longest(self, algorithm);
    return 0;
}

int pcar_all_reduce(void *opaque, const void *input, void *output, size_t count, int dtype, int algorithm, int blocks, int threads,
                    void *stream) {
    if (opaque == nullptr) return fail(PCAR_EARGUMENT, "self is a null pointer");
    Communicator &self = *static_cast<Communicator *>(opaque);
    TRY(check_call(self, input, output, count, dtype, algorithm, blocks, threads));
    if (count == 0) return 0;
    const Tensor tensor = tensor_of(input, output, count * (dtype == PCAR_FP32 ? 4 : 2));
    Call call{self.post, tensor, self.state, self.alarm_on_device, self.patience};
    threads = threads != 0 ? threads : USUAL_BLOCK;
    blocks = blocks != 0 ? blocks : usual_blocks(self, tensor, algorithm, threads);
    const OnDevice here(self.device);
    TRY(follow_stream(self, static_cast<cudaStream_t>(stream)));
    void *arguments[] = {&call};
    TRY_CUDA(cudaLaunchKernel(reinterpret_cast<const void *>(kernel_for(dtype, algorithm, self.world)), dim3(blocks), dim3(threads),
                              arguments, 0, static_cast<cudaStream_t>(stream)),
             "launching the all-reduce");
    return 0;
}

int pcar_status(void *opaque, int *code, int *peer, unsigned long long *epoch) {
    if (opaque == nullptr) return fail(PCAR_EARGUMENT, "self is a null pointer");
    const Alarm &alarm = *static_cast<Communicator *>(opaque)->alarm;
    const int found = alarm.code;
    if (code != nullptr) *code = found;
    if (peer != nullptr) *peer = found != 0 ? alarm.peer : -1;
    if (epoch != nullptr) *epoch = found != 0 ? alarm.call : 0;
    return 0;
}

int pcar_reset_status(void *opaque) {
    if (opaque == nullptr) return fail(PCAR_EARGUMENT, "self is a null pointer");
    Communicator &self = *static_cast<Communicator *>(opaque);
    const OnDevice here(self.device);
    if (self.transport == PCAR_HOST_STAGED) memset(static_cast<char *>(self.own.mapping) + HEADER, 0, self.inbox_bytes());
    TRY(zero_state(self));
    self.alarm->code = 0;
    return 0;
}

int pcar_destroy(void *opaque) {
    if (opaque != nullptr) release_in_time(static_cast<Communicator *>(opaque));
    return 0;
}
