# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why SGLang does not start: the table that sglang_diagnosis.py looks a log up in. It lies here, as code, so that the node gets it with the module.

A pattern is tried at the start of a line, behind the time, the rank and the level that loggers put there. Requests are not looked at:
what a user wrote into a prompt is no error. Where an error message may stand further back in its line, the pattern says so with ``.*``.
"""

from __future__ import annotations

from typing import NamedTuple

ROOT = "root"  # ends a start by itself
CONSEQUENCE = "consequence"  # follows from something else, which should be in the log above it
LOGGED = "logged"  # SGLang goes on without it


class Cause(NamedTuple):
    """``patterns``: regular expressions; named groups may be used in ``cause`` and ``advice`` as {name}.

    ``also``: a pattern of another line that has to be there too. ``hides``: names of causes that this one explains.
    ``shows``: a pattern of lines that belong to it without proving it; they are shown first.
    ``with_traceback``: the traceback right behind the line belongs to it, and is no cause of its own.
    ``exit_status``: statuses of the service that tell it without a line. ``setting``: what to change, empty where it is no setting.
    """

    name: str
    patterns: tuple
    cause: str
    advice: str
    setting: str = ""
    kind: str = ROOT
    also: str = ""
    hides: tuple = ()
    shows: str = ""
    with_traceback: bool = False
    exit_status: tuple = ()


# An exception as Python prints it, with or without the names of its modules.
ERROR = r"(?:.*\bfailed: |.*hit an exception: )?(?:[\w.]+\.)?"

MEMORY = (
    Cause(
        "fraction_too_low",
        (
            ERROR
            + r"RuntimeError: Not enough memory\. Please try to increase --mem-fraction-static\.(?: Current value: mem_fraction_static=(?P<now>[\d.]+))?",
        ),
        "The memory that mem_fraction_static gives to weights and KV cache together holds the weights, and then not one token.",
        "Raise mem_fraction_static (now {now}). This is not CUDA's out of memory, which wants it lower: the GPU has memory left that SGLang may not use. "
        "The preflight prints the smallest fraction that works. Or take a smaller draft model, or more GPUs.",
        "args.mem_fraction_static (higher)",
    ),
    Cause(
        "weights_leave_no_memory",
        (
            ERROR
            + r"ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(?P<now>[\d.]+?)\. "
            r"Raise --mem-fraction-static above (?P<least>[\d.]+\d)",
        ),
        "The weights, draft model included, need more than mem_fraction_static={now} of the GPU, so nothing is left for the KV cache.",
        "Set mem_fraction_static above {least}, well above: at {least} the KV cache is empty. Where nothing above it works, use more GPUs or a smaller model.",
        "args.mem_fraction_static (higher than {least})",
    ),
    Cause(
        "gpu_held_by_others",
        (
            r".*The memory capacity is unbalanced\. Some GPUs may be occupied by other processes",
            r".*CUDA out of memory\..*\bProcess (?P<pid>\d+) has (?P<held>[\d.]+ [KMGT]iB) memory in use",
        ),
        "Another process holds memory of a GPU that this instance was given (process {pid}, {held}).",
        "Look with nvidia-smi for what is there: often a scheduler that outlived its server. End it, or give the instance other GPUs.",
        "gpus",
        hides=("cuda_out_of_memory",),
    ),
    Cause(
        "cuda_out_of_memory",
        (
            ERROR + r"OutOfMemoryError: CUDA out of memory",
            ERROR + r"RuntimeError: CUDA out of memory",
            ERROR + r"(?:RuntimeError|AcceleratorError|Exception): .*CUDA error: out of memory",
            r".*(?:error|Error|failed|Failed)\b.*CUDA_ERROR_OUT_OF_MEMORY",
            r".*Capture (?:cuda|prefill CUDA) graph failed: (?:CUDA )?out of memory",
        ),
        "A GPU ran out of memory beside weights and KV cache: activations, CUDA graphs, communication buffers.",
        "Lower mem_fraction_static, or need less beside it: a smaller cuda_graph_max_bs_decode, chunked_prefill_size or max_running_requests. "
        "Larger NCCL buffers and more channels cost GPU memory, too.",
        "args.mem_fraction_static (lower)",
        hides=("graph_capture",),
    ),
    Cause(
        "killed_for_memory",
        (
            r".*Out of memory: Killed process (?P<pid>\d+)",
            r".*Memory cgroup out of memory: Killed process (?P<pid>\d+)",
            r".*: A process of this unit has been killed by the OOM killer",
            r".*: systemd-oomd killed \d+ process",
            r".*: Failed with result 'oom-kill'",
        ),
        "The kernel killed a process of the server because the host's memory (not the GPU's) was used up.",
        "Give the node memory or swap, raise MemoryMax of the unit where it has one, load with fewer threads, start instances one after the other, or keep the "
        "HiCache and CPU offload smaller. Without --weight-loader-disable-mmap, pages of the weights count as cache and are not the reason.",
        "args.hicache_size, args.cpu_offload_gb",
        hides=("process_killed",),
    ),
    Cause(
        "no_host_memory",
        (
            ERROR + r"MemoryError\b",
            r".*DefaultCPUAllocator: can't allocate memory",
            ERROR + r"(?:OSError|BlockingIOError): \[Errno 12\] Cannot allocate memory",
            r".*unable to mmap \d+ bytes from file",
            r".*: failed to map segment from shared object",
        ),
        "The host's memory, or the limit of the process, was used up.",
        "Free memory on the node, or take away the limit (MemoryMax, LimitAS of the unit; vm.overcommit_memory).",
    ),
    Cause(
        "dev_shm_full",
        (
            r".*NCCL WARN.*(?:shared memory segment|/dev/shm)",
            r".*(?:No space left on device|Bus error).*(?:/dev/shm|shared memory|torch_)",
            r".*unable to (?:open|allocate|resize) shared memory (?:object|file|segment)",
            r".*insufficient shared memory \(shm\)",
        ),
        "The shared memory of the node is full or too small: NCCL and the ranks exchange data through /dev/shm.",
        "Remove what dead processes left there (ls -l /dev/shm), or enlarge it; in a container: --ipc=host or --shm-size.",
        hides=("nccl_error", "nccl_warning", "disk_full"),
    ),
    Cause(
        "memlock",
        (
            r".*NCCL WARN.*(?:ibv_\w+|reg_mr|register).*Cannot allocate memory",
            r".*(?:ibv_\w+|mlock\w*|cudaHostRegister).*(?:Cannot allocate memory|Operation not permitted)",
        ),
        "Memory could not be locked, which RDMA and pinned buffers need.",
        "Set LimitMEMLOCK=infinity in the unit; the role's unit has it.",
        hides=("nccl_error", "nccl_warning", "no_host_memory"),
    ),
    Cause(
        "disk_full",
        (
            ERROR + r"(?:OSError|IOError): \[Errno 28\] No space left on device",
            r".*(?:No space left on device \(os error 28\)|[Dd]isk quota exceeded)",
        ),
        "A file system is full: the model's, that of the caches (HOME, TRITON_CACHE_DIR, FLASHINFER_WORKSPACE_BASE), or /tmp.",
        "Look with df -h and df -i; the traceback above the line names the file. Remove old caches or enlarge the file system.",
    ),
)

GPUS = (
    Cause(
        "unsupported_architecture",
        (
            r".*No supported CUDA architectures found for major versions \[(?P<majors>[^\]]*)\]",
            r".*no kernel image is available for execution on the device",
            r".*nvcc fatal\s*: Unsupported gpu architecture '(?P<arch>[^']*)'",
            r".*CUDA capability sm_(?P<sm>\d+) is not compatible with the current PyTorch installation",
            r".*Could not load any common_ops library",
        ),
        "A kernel is not made for these GPUs (it is for: {majors}).",
        "Choose a backend that supports them. On RTX PRO 6000 (12.0) these are not the ones whose kernels exist for 9 and 10 only (trtllm, cutlass MLA): "
        "attention_backend triton or flashinfer, moe_runner_backend triton, flashinfer_allreduce_fusion_backend off. nvcc has to be 12.8 or newer. Or install "
        "the build of torch, sglang-kernel or FlashInfer that has this architecture.",
        "args.attention_backend, args.moe_runner_backend",
    ),
    Cause(
        "driver_too_old",
        (
            r".*CUDA driver version is insufficient for CUDA runtime version",
            r".*The NVIDIA driver on your system is too old(?: \(found version (?P<found>\d+)\))?",
            r".*forward compatibility was attempted on non supported HW",
            r".*(?:CUDA_ERROR_UNSUPPORTED_PTX_VERSION|PTX was compiled with an unsupported toolchain)",
        ),
        "The NVIDIA driver is older than the CUDA that torch, or the compiler, uses.",
        "Install a newer driver, or the torch build for the driver's CUDA (gpu_facts shows driver.cuda_version).",
    ),
    Cause(
        "driver_mismatch",
        (
            r".*Driver/library version mismatch",
            r".*(?:system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|Error 802)",
        ),
        "The loaded kernel module and the driver's libraries differ (an upgrade without a restart), or the fabric manager does not run.",
        "Reboot the node, or reload the modules; on NVSwitch machines start nvidia-fabricmanager of the driver's very version.",
        hides=("no_gpu",),
    ),
    Cause(
        "no_gpu",
        (
            r".*No CUDA GPUs are available",
            r".*Found no NVIDIA driver on your system",
            r".*no CUDA-capable device is detected",
            r".*CUDA unknown error - this may be due to an incorrectly set up environment",
            r".*No accelerator \(.*\) is available",
            r".*No supported accelerator",
            r".*couldn't communicate with the NVIDIA driver",
            r".*Failed to initialize NVML",
        ),
        "CUDA shows the service no GPU.",
        "Run nvidia-smi as root. Where it works: the unit's DeviceAllow, PrivateDevices or user hide the devices, /dev/nvidia-uvm is not there yet "
        "(nvidia-modprobe -u -c=0), or CUDA_VISIBLE_DEVICES names none.",
        "gpus",
    ),
    Cause(
        "wrong_gpus",
        (
            r".*invalid device ordinal",
            r".*NCCL WARN.*Duplicate GPU detected",
            r".*NVML_ERROR_INVALID_ARGUMENT|.*NVMLError_InvalidArgument",
        ),
        "The instance wants a GPU that it does not see, or two ranks share one.",
        "tp_size x pp_size must not exceed the number of the instance's GPUs.",
        "gpus, args.tp_size",
    ),
    Cause(
        "gpu_fault",
        (
            r".*NVRM: Xid \((?P<gpu>[^)]*)\): (?P<xid>\d+)",
            r".*(?:uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE)",
            r".*GPU has fallen off the bus",
            r".*CUDA error: (?:an illegal memory access was encountered|unspecified launch failure|misaligned address)",
        ),
        "A GPU or a kernel failed (Xid {xid} on {gpu}).",
        "Look at dmesg for Xid and at nvidia-smi -q for ECC. With no Xid of the hardware (48, 63, 64, 74, 79, 94, 95) it is a kernel: go back to the "
        "known-good profile and change one backend at a time.",
        "tuning_profile_name",
    ),
    Cause(
        "peer_access",
        (
            r".*peer access is not supported between these two devices",
            r".*cudaErrorPeerAccess\w+",
            r".*(?:CUDA_ERROR_PEER_ACCESS\w+|peer mapping resources exhausted)",
            r".*mapping of buffer object failed",
        ),
        "A GPU may not reach another one's memory, or an IPC handle of it could not be opened.",
        "Ask with gpu_node.tuning.p2p_probe. IOMMU off or passthrough, ACS off, no MIG. Otherwise disable_custom_all_reduce: true, and NCCL_P2P_DISABLE=1 "
        "in the profile.",
        "args.disable_custom_all_reduce, NCCL_P2P_DISABLE",
        hides=("nccl_error", "nccl_warning"),
    ),
)

_NCCL_WARN = r"(?:\[[^\]]*\] )?\S+:\d+:\d+ \[-?\d+\] .*NCCL WARN (?P<words>.*)"

NCCL = (
    Cause(
        "nccl_error",
        (
            ERROR + r"(?:RuntimeError|DistBackendError): NCCL (?:error|Error)\b.*",
            r".*\bnccl(?:UnhandledCuda|System|Internal|InvalidUsage|InvalidArgument|Remote)Error\b",
        ),
        "NCCL failed: {words}",
        "The first NCCL WARN line says which call and why; where there is none, start once with NCCL_DEBUG=INFO. It often is P2P (p2p_probe), the shared "
        "memory, a network interface (NCCL_SOCKET_IFNAME), two versions of NCCL, or a value of the profile: known_good tells whether it is the profile.",
        "tuning_profile_name",
        shows=_NCCL_WARN,
        hides=("nccl_warning",),
    ),
    Cause(
        "nccl_hang",
        (
            r".*ProcessGroupNCCL\.cpp:\d+\].*Watchdog caught collective operation timeout",
            r".*Watchdog caught collective operation timeout: (?P<work>Work\w+\(.{0,120})",
            ERROR + r"DistStoreError: .*(?:[Tt]imed out|timeout)",
            ERROR + r"(?:RuntimeError|DistNetworkError): .*(?:[Tt]imed out after \d+ ?m?s|wait timeout after \d+)",
            r".*failed to connect to the (?:TCPStore|server)|.*client socket has timed out",
        ),
        "The ranks waited for each other in a collective or at the rendezvous until the time was over.",
        "Where no rank died before (its traceback would be above), data does not arrive: gpu_node.tuning.p2p_probe tells whether what one GPU stores gets to "
        "another. Then IOMMU and ACS (gpu_facts), NCCL_P2P_LEVEL, NCCL_SHM_DISABLE. A larger dist_timeout only waits longer.",
        "tuning_profile_name, args.dist_timeout",
    ),
)

COMMAND_LINE = (
    Cause(
        "ambiguous_flag",
        (r".*: error: ambiguous option: (?P<flag>\S+) could match (?P<others>.*)",),
        "{flag} is no option of this version: it is the beginning of several ({others}).",
        "Write the whole name. From 0.5.20 on cuda_graph_max_bs is cuda_graph_max_bs_decode; the role writes the names of the installed version.",
        "args",
        hides=("bad_flag",),
    ),
    Cause(
        "bad_flag",
        (r".*: error: unrecognized arguments: (?P<flag>.*)",),
        "This version of SGLang does not know: {flag}",
        "Take it out, or use the version's own name: python -m sglang.launch_server --help. The preflight names the versions that know it.",
        "args, sglang_version",
    ),
    Cause(
        "bad_value",
        (
            r".*: error: argument (?P<flag>\S+): (?P<why>.*)",
            r".*: error: (?P<why>the following arguments are required: .*)",
        ),
        "SGLang refuses a value: {flag} {why}",
        "Use one of the legal values that the line names.",
        "args",
    ),
    Cause(
        "bad_config_file",
        (
            ERROR + r"(?:yaml\.\w+\.)?(?:ParserError|ScannerError|ComposerError|ConstructorError|YAMLError): .*",
            ERROR + r"(?:ValueError|FileNotFoundError|TypeError): .*[Cc]onfig(?:uration)? file\b.*",
        ),
        "SGLang cannot read its --config file.",
        "The role writes this file; if somebody has edited it, run the playbook again.",
        "args",
    ),
    Cause(
        "model_not_named",
        (r".*[Ee]rror: (?P<why>--model-path is required.*?)\.?$",),
        "SGLang was not told which model: {why}",
        "Name it with model_path in the file and on the command line; `sglang serve` does not read it from the file.",
        "model",
    ),
)

FILES = (
    Cause(
        "model_code_not_trusted",
        (
            r".*(?:contains custom code which must be executed|requires you to execute the configuration file)",
            r".*(?:set|pass) (?:the (?:argument|option) )?`?trust_remote_code=True`?",
        ),
        "The model brings Python code of its own, which SGLang may not run.",
        "Set trust_remote_code: true, if you trust the model's files.",
        "args.trust_remote_code",
        hides=("model_not_found", "bad_config_json", "unsupported_model"),
    ),
    Cause(
        "hub_unreachable",
        (
            r".*We couldn't connect to ['\"]?https?://\S+ to load the files",
            r".*LocalEntryNotFoundError: ",
            r".*(?:MaxRetryError|ConnectionError|ConnectTimeout|NameResolutionError|OfflineModeIsEnabled).*(?:huggingface|hf\.co|modelscope)",
            r".*(?:huggingface|hf\.co|modelscope).*(?:Temporary failure in name resolution|Name or service not known|Network is unreachable)",
            r".*[Cc]annot (?:reach|connect to) (?:the )?(?:Hugging ?Face|hf\.co|https?://huggingface)",
        ),
        "The model is to be downloaded, and the node does not reach the hub.",
        "Put the files on the node and name their folder as model (and draft_model); with a mirror set HF_ENDPOINT in environment.",
        "model, draft_model",
        hides=("model_not_found",),
    ),
    Cause(
        "hub_refuses",
        (r".*(?:GatedRepoError|RepositoryNotFoundError|401 Client Error|403 Client Error).*",),
        "The hub does not give this model: it needs a permission, or there is none of this name.",
        "Check the name, ask for access and set a token, or name a folder on the node.",
        "model",
        hides=("model_not_found", "hub_unreachable"),
    ),
    Cause(
        "model_not_found",
        (
            r".*(?:OSError|ValueError|FileNotFoundError): .*?(?P<path>/[^\s'\"]*).*(?:is not a local folder and is not a valid|does not exist)",
            r".*HFValidationError: Repo id must .*: '(?P<path>[^']*)'",
            r".*is not a local folder and is not a valid model identifier",
            r".*(?:OSError|ValueError): (?:Can't load|Could not find|Unrecognized model in|.*does not appear to have a file named) ?(?P<path>/\S*[^\s.])?.*",
        ),
        "The model's folder, or its config.json, is not there: {path}",
        "Name the folder as the node and the service's user see it (ProtectHome hides /home). An EAGLE-3 model is named as draft_model, not as model.",
        "model, draft_model",
    ),
    Cause(
        "weights_missing",
        (
            ERROR + r"RuntimeError: Cannot find any model weights with .(?P<path>[^`']*)",
            r".*FileNotFoundError: (?:\[Errno 2\] )?No such file or directory: \"?'?(?P<path>\S+\.(?:safetensors|bin|pt|gguf))",
            r".*index\.json references \d+ shard file\(s\) missing from (?P<path>\S+)",
            r".*(?:Missing|missing) (?:\d+ )?(?:shard|weight|safetensors).*",
            ERROR + r"(?:RuntimeError|ValueError): .*(?:weights (?:are|were) not (?:initialized|loaded)|index\.json).*",
        ),
        "Files of the weights are missing: {path}",
        "Compare the folder with model.safetensors.index.json (the preflight does), and copy or download the rest.",
        "model, draft_model",
    ),
    Cause(
        "weights_corrupt",
        (
            r".*SafetensorError: (?P<why>.*)",
            r".*Error while deserializing header: (?P<why>.*)",
            r".*(?:unexpected EOF|invalid magic number|PytorchStreamReader failed).*",
            r".*Corrupted (?:shard|file|weight).*",
        ),
        "A file of the weights is cut off or damaged: {why}",
        "Compare the files' sizes and sums with the source's, and fetch what differs. SGLang does not always name the file; the preflight reads every header.",
        "model, draft_model",
    ),
    Cause(
        "tokenizer",
        (
            r".*(?:OSError|ValueError|TypeError): .*(?:[Tt]okenizer).*",
            r".*Couldn't (?:instantiate the backend tokenizer|build the tokenizer).*",
        ),
        "The tokenizer cannot be loaded.",
        "tokenizer.json, tokenizer_config.json (or tiktoken.model) have to be in the model's folder; tokenizer_path names another one.",
        "args.tokenizer_path",
    ),
    Cause(
        "unsupported_model",
        (
            r".*Model architectures \[(?P<names>[^\]]*)\] are not supported",
            r".*The checkpoint you are trying to load has model type `(?P<names>[^`]*)`",
            r".*Cannot find model module\. (?P<names>'[^']*') is not a registered model",
            r".*does not recognize this architecture",
            r".*has no (?:vLLM|SGLang|sglang) implementation",
        ),
        "This version of SGLang, or of transformers, does not know the model ({names}).",
        "Install a version that does (sglang_version); some models need trust_remote_code: true.",
        "sglang_version, args.trust_remote_code",
    ),
    Cause(
        "bad_config_json",
        (
            r".*It looks like the config file at '(?P<path>[^']*)' is not a valid JSON file",
            r".*JSONDecodeError: (?P<why>.*)",
        ),
        "A JSON file of the model is damaged: {path} {why}",
        "Fetch it anew.",
        "model, draft_model",
    ),
    Cause(
        "permission_denied",
        (
            r".*PermissionError: \[Errno 13\] Permission denied: '?(?P<path>[^']*)",
            r".*(?:I/O error|IoError|Error).*Permission denied \(os error 13\)",
            r".*PermissionError: \[Errno 1\] Operation not permitted: '?(?P<path>[^']*)",
        ),
        "The service's user may not use: {path}",
        "namei -l PATH shows which part of the path refuses. Weights need to be readable, caches (HOME) writable; the unit shows other paths read-only.",
        "sglang_user",
    ),
    Cause(
        "read_only",
        (r".*OSError: \[Errno 30\] Read-only file system: '?(?P<path>[^']*)",),
        "The unit's protection shows this path read-only: {path}",
        "Point the cache below the unit's state or cache directory (HOME, HF_HOME, TRITON_CACHE_DIR, FLASHINFER_WORKSPACE_BASE in environment), "
        "or name the path in ReadWritePaths of a drop-in.",
        "environment",
    ),
)

MODEL = (
    Cause(
        "draft_mismatch",
        (
            r".*ValueError: Expected hidden_size to be \d+, but found: \d+",
            r".*AttributeError: '\w+' object has no attribute '(?:hot_token_id|[gs]et_embed\w*|[gs]et_eagle\w*|[gs]et_hot_token\w*)'",
            r".*(?:draft|Draft|MTP|eagle|EAGLE|Eagle).*(?:must match|do(?:es)? not match|mismatch).*",
            r".*(?:Speculative|speculative).*(?:requires? |must be |needs? |not supported).*",
            r".*(?:ValueError|AssertionError|RuntimeError): .*speculative_\w+.*",
        ),
        "The draft model, or a setting of the speculation, does not go with the model or its backend.",
        "The draft model has to be trained for this very model (same hidden size and vocabulary), with the algorithm of its kind (EAGLE3 for EAGLE-3). "
        "Try without speculation: where that starts, it is the draft.",
        "draft_model, args.speculative_algorithm",
        hides=("shape_mismatch",),
        also=r".*speculative_algorithm': '\w",
    ),
    Cause(
        "shape_mismatch",
        (
            r".*ValueError: Expected hidden_size to be \d+, but found: \d+",
            r".*(?:size mismatch for|The size of tensor a \(|Attempted to load weight \(|shape '\[.*' is invalid for input|mat1 and mat2 shapes cannot).*",
            r".*(?:AssertionError|ValueError|RuntimeError): .*(?:weight|param|loaded).*(?:shape|size).*",
        ),
        "Weights do not have the shape that config.json announces: files of two models or of two versions lie together, or the draft is another model's.",
        "Compare config.json and the files with the source's. With a draft model, try without it.",
        "model, draft_model",
    ),
    Cause(
        "settings_unfit",
        (
            r".*(?:AssertionError|ValueError): (?P<why>(?:\w+_)+\w+ must be (?:divisible by|a multiple of|less than|greater than|smaller than|at \w+) .*)",
        ),
        "Two settings do not go together: {why}.",
        "Change one of the two that the line names.",
        "args",
        hides=("not_divisible",),
    ),
    Cause(
        "not_divisible",
        (
            r".*(?:AssertionError|ValueError): .*(?:not divisible by|must be divisible by|has to be divisible).*",
            r".*[Tt]ensor parallel (?:size|world).*(?:divi|heads).*",
        ),
        "The model cannot be cut into tp_size equal parts.",
        "Choose a tp_size that divides the number of heads and the sizes of config.json: usually 1, 2, 4 or 8.",
        "args.tp_size",
    ),
    Cause(
        "context_too_long",
        (
            r".*User-specified context_length \((?P<asked>\d+)\) is greater than the derived context_length \((?P<most>\d+)\)",
        ),
        "context_length is {asked}, and the model was made for {most}.",
        "Set context_length to {most} or less. SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 allows more, with wrong answers as the price.",
        "args.context_length",
    ),
    Cause(
        "backend_unfit",
        (
            r".*(?:ValueError|AssertionError|RuntimeError|NotImplementedError): .*(?:attention backend|Attention [Bb]ackend|_backend\b|[Bb]ackend requires).*",
            r".*FlashAttention v\d Backend requires.*",
        ),
        "A backend does not go with the model, the GPU or the other settings.",
        "Leave the backend out, so that SGLang chooses, or take one that the message names.",
        "args.attention_backend",
    ),
    Cause(
        "graph_capture",
        (r".*Capture (?:cuda|prefill CUDA|CPU) graph failed: (?P<why>.*)",),
        "A graph could not be captured: {why}",
        "Is it memory, lower mem_fraction_static or cuda_graph_max_bs_decode. Otherwise cuda_graph_backend_decode: disabled shows whether it is the graph.",
        "args.cuda_graph_max_bs_decode, args.cuda_graph_backend_decode",
    ),
)

SOFTWARE = (
    Cause(
        "not_installed",
        (
            r"(?P<python>\S+): No module named (?P<module>sglang\S*)",
            r".*ModuleNotFoundError: No module named '(?P<module>sglang(?:\.[\w.]+)?)'",
        ),
        "The interpreter has no SGLang ({module}).",
        "Set sglang_interpreter to the Python of the venv that has it, or sglang_install: true.",
        "sglang_interpreter, sglang_install",
        hides=("missing_library",),
    ),
    Cause(
        "no_compiler",
        (
            r".*(?:Could not find nvcc|nvcc: (?:command )?not found|nvcc not found|CUDA_HOME environment variable is not set)",
            r".*No such file or directory: '(?P<tool>[^']*/?(?:ninja|nvcc|gcc|g\+\+|cc|c\+\+))'",
            r".*(?:Failed to find C compiler|fatal error: (?:Python|cuda\w*|cuda/\w+)\.h)",
        ),
        "A kernel has to be compiled on the node, and a tool for it is missing ({tool}).",
        "Install a C++ compiler, ninja and the headers of Python, and for CUDA the toolkit of torch's CUDA version; they have to be on the service's PATH.",
        "environment (PATH, CUDA_HOME)",
    ),
    Cause(
        "missing_library",
        (
            r".*(?:ImportError|OSError): (?P<library>\S+\.so\S*): cannot open shared object file",
            r".*error while loading shared libraries: (?P<library>\S+):",
            r".*(?:ImportError|OSError): .*(?:undefined symbol|version `\S+' not found).*",
            r".*ModuleNotFoundError: No module named '(?P<library>[^']*)'",
            r".*ImportError: (?P<library>cannot import name .*)",
            r".*Exception: (?P<library>\S+) (?:is installed with version|with minimum required version) .*",
            r".*PackageNotFoundError: No package metadata was found for (?P<library>\S+)",
        ),
        "A library or a package is missing or of another version: {library}",
        "Install SGLang's own pinned set anew into an empty venv (sglang_install: true), and nothing beside it. LD_LIBRARY_PATH of the unit can bring another "
        "version in.",
        "sglang_interpreter, environment (LD_LIBRARY_PATH)",
    ),
    Cause(
        "too_many_files",
        (r".*\[Errno 24\] Too many open files", r".*Too many open files.*"),
        "The process may not open more files.",
        "Set LimitNOFILE=65535 or more; the role's unit has it.",
    ),
    Cause(
        "too_many_tasks",
        (
            r".*(?:can't start new thread|Resource temporarily unavailable.*(?:fork|thread)|\[Errno 11\] Resource temporarily unavailable)",
        ),
        "No further thread or process may be started.",
        "Raise TasksMax of the unit and take away LimitNPROC and LimitAS where it has them, or lower OMP_NUM_THREADS in environment.",
        "environment",
    ),
)

PORTS = (
    Cause(
        "port_taken_by_sglang",
        (r".*\[Errno 98\].*?(?:bind on address \((?P<address>[^)]*)\)|address already in use)",),
        "Another SGLang already answers on this port ({address}). It answered this one's warm-up too, so that the log says `fired up`; this one never served.",
        "Stop the other server (ss -ltnp names it; a unit of another instance, or one started by hand), or give this instance another port.",
        "port",
        also=r"The server is fired up and ready to roll",
        hides=("port_taken", "warm_up_failed"),
    ),
    Cause(
        "port_taken",
        (
            r".*\[Errno 98\].*?(?:bind on address \((?P<address>[^)]*)\)|[Aa]ddress already in use)",
            r".*(?:EADDRINUSE|[Aa]ddress already in use)",
            r".*ValueError: (?P<address>\S+ at \d+) is not available in \d+ seconds",
        ),
        "The port is taken by another program ({address}). SGLang tries only after it has loaded everything.",
        "Stop the other program (ss -ltnp names it), or give this instance another port.",
        "port",
        hides=("warm_up_failed",),
    ),
    Cause(
        "address_not_ours",
        (r".*\[Errno 99\].*?(?:bind on address \((?P<address>[^)]*)\)|[Cc]annot assign requested address)",),
        "host is no address of this node ({address}).",
        "Use 127.0.0.1, 0.0.0.0, or an address that `ip address` lists.",
        "host",
        hides=("warm_up_failed",),
    ),
    Cause(
        "port_not_allowed",
        (r".*\[Errno 13\].*?(?:bind on address \((?P<address>[^)]*)\)|permission denied.*bind)",),
        "The service's user may not use this port ({address}).",
        "Use a port of 1024 or above.",
        "port",
        hides=("warm_up_failed", "permission_denied"),
    ),
)

SERVICE = (
    Cause(
        "not_as_declared",
        (r"gpu_node\.tuning: not started: (?P<why>.*)",),
        "The unit refuses to start, because the node is not as declared: {why}",
        "Run the playbook sglang.yml, which puts it into the declared state; verify.yml shows what differs in the tuning.",
        hides=("pre_start_refused",),
    ),
    Cause(
        "unit_step",
        (r".*: Failed at step (?P<step>[A-Z_]+) spawning (?P<program>[^:]*): (?P<why>.*)",),
        "systemd could not prepare the process (step {step}): {why}",
        "USER, GROUP: the user is missing. EXEC: {program} is missing or not executable. NAMESPACE: a path of the unit's protection does not exist, or the "
        "unit runs in a container that forbids it. CREDENTIALS: a file of LoadCredential is missing.",
        "sglang_user, sglang_interpreter",
    ),
    Cause(
        "program_missing",
        (r".*: Unable to locate executable '(?P<program>[^']*)'",),
        "The interpreter is not there, or the user may not execute it ({program}).",
        "Set sglang_interpreter to the Python of SGLang's venv.",
        "sglang_interpreter",
        exit_status=(203,),
        hides=("unit_step",),
    ),
    Cause(
        "user_missing",
        (r".*: Failed to determine (?:user|group) credentials",),
        "The unit's user or group does not exist.",
        "Create it, or set sglang_user and sglang_group.",
        "sglang_user, sglang_group",
        exit_status=(216, 217),
        hides=("unit_step",),
    ),
    Cause(
        "start_timeout",
        (r".*: start(?:-pre|-post)? operation timed out\. Terminating",),
        "systemd's start timeout was over before the server was ready.",
        "See at which phase it stood. Loading from a slow disk: raise sglang_start_timeout. Standing still: look for a hang.",
        "sglang_start_timeout",
    ),
    Cause(
        "pre_start_refused",
        (r".*: Control process exited, code=exited, status=(?P<status>\d+)",),
        "A step before or after the start refused it (exit status {status}): the read-back is not as declared, the port is taken, or readiness did not come.",
        "The lines just above say which. Run verify.yml for the read-back.",
        kind=CONSEQUENCE,
    ),
    Cause(
        "start_limit",
        (r".*: Start request repeated too quickly", r".*: Failed with result 'start-limit-hit'"),
        "systemd gave up after several failed starts.",
        "Mend the cause, then: systemctl reset-failed UNIT. The playbook does it.",
        kind=CONSEQUENCE,
    ),
)

ENDS = (
    Cause(
        "process_stopped",
        (
            r".*Subprocess (?P<process>\S+) \(pid=\d+\) crashed with exit code -15",
            r".*[Rr]ank (?P<process>\d+) scheduler (?:is dead|died).*exit code: -15",
        ),
        "A child of the server ({process}) got SIGTERM: somebody, or a unit with KillMode=control-group, stopped every process at once.",
        "Stop the main process only (KillMode=mixed; the role's unit has it).",
        kind=CONSEQUENCE,
    ),
    Cause(
        "process_killed",
        (
            r".*Subprocess (?P<process>\S+) \(pid=\d+\) crashed with exit code -9",
            r".*[Rr]ank (?P<process>\d+) scheduler (?:is dead|died).*exit code: -9",
        ),
        "A child of the server ({process}) was killed with SIGKILL.",
        "Where no line above says why: the kernel's OOM killer (journalctl -k -g 'Killed process'), or a person.",
        kind=CONSEQUENCE,
    ),
    Cause(
        "process_crashed",
        (
            r".*Subprocess (?P<process>\S+) \(pid=\d+\) crashed with exit code (?P<status>(?!-9\b|-15\b)-?\d+)",
            r".*[Rr]ank (?P<process>\d+) scheduler (?:is dead|died).*exit code: (?P<status>(?!-9\b|-15\b)-?\d+)",
            r"Fatal Python error: (?P<status>.*)",
        ),
        "A child of the server ({process}) ended by itself ({status}; -11 is a segmentation fault, -6 an abort, -7 a bus error).",
        "The lines above it say why. After -11 and -6: the stack in the log, coredumpctl, and one setting less at a time.",
        kind=CONSEQUENCE,
    ),
    Cause(
        "stuck",
        (r"(?:.* )?(?P<process>\w+) watchdog timeout \(self\.watchdog_timeout=(?P<seconds>[\d.]+)",),
        "The {process} did not finish a batch within {seconds} s, and SGLang ended it.",
        "Without an error above it: a collective that hangs (see p2p_probe), or a kernel that is compiled at its first use; "
        "a larger watchdog_timeout helps the latter only.",
        "args.watchdog_timeout",
        kind=CONSEQUENCE,
    ),
    Cause(
        "warm_up_failed",
        (r".*Initialization failed\. warmup error: ",),
        "The server was loaded, and its own warm-up request failed.",
        "The traceback behind the line says why; a scheduler that died meanwhile has its own above.",
        "args.warmups",
        kind=CONSEQUENCE,
    ),
    Cause(
        "child_failed",
        (
            r"Received sigquit from a child process",
            r"SIGQUIT received\. .*It usually means one child failed",
        ),
        "A child of the server failed, and the server ended itself with SIGKILL (status 137).",
        "The child's traceback is above.",
        kind=CONSEQUENCE,
        exit_status=(137, 9),
    ),
    Cause(
        "stopped",
        (),
        "The server was told to stop (SIGTERM).",
        "Somebody stopped it, or systemd did because a time limit was over.",
        kind=CONSEQUENCE,
        exit_status=(143, 15),
    ),
)

GOES_ON = (
    Cause(
        "plugin_failed",
        (
            r"Failed to (?:load|execute)(?: general)? plugin:? (?P<plugin>[\w.-]+)",
            r"Failed to (?:load|execute) .*plugin.*",
        ),
        "The plugin {plugin} failed. SGLang only logs that, and serves without it.",
        "The traceback behind the line says why. The custom all-reduce of this collection: build_allreduce.yml builds and proves it anew.",
        "custom_allreduce_state, SGLANG_PLUGINS",
        with_traceback=True,
        kind=LOGGED,
    ),
    Cause(
        "custom_all_reduce_off",
        (
            r".*(?:is disabled because (?:it's not supported on more than two PCIe-only GPUs|your platform lacks GPU P2P capability|.*P2P test failed))",
            r".*[Cc]ustom all-?reduce (?:is disabled|setup failed|.*[Ff]ailed).*",
            r".*Setup Custom allreduce failed with.*",
        ),
        "SGLang's own all-reduce is off on this node; NCCL does its work.",
        "Nothing, where NCCL is what you want. Otherwise build_allreduce.yml.",
        "args.disable_custom_all_reduce",
        kind=LOGGED,
    ),
    Cause(
        "nccl_warning",
        (_NCCL_WARN,),
        "NCCL warns: {words}",
        "Where the start failed for a reason that is not clear, this is the first thing to look at.",
        kind=LOGGED,
    ),
)

CAUSES = (*MEMORY, *GPUS, *NCCL, *COMMAND_LINE, *FILES, *MODEL, *SOFTWARE, *PORTS, *SERVICE, *ENDS, *GOES_ON)
