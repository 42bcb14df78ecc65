# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of SGLang's server in the released versions below: data only, the rules are in sglang_options.

Written by tests/checks/sglang_parsers.py --write from what the parsers of these versions say of themselves; change it there.
"""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """An option as it is from one known version to another one, both included."""

    since: str
    until: str
    option: str  # exact long spelling, without the dashes
    kind: str  # text, texts, int, ints, float, floats, size, flag, switch, json, json_mapping, json_list, lora
    choices: str = ""  # with blanks between them
    in_file: bool = True  # whether SGLang reads it in a --config file; otherwise only on the command line


KNOWN_VERSIONS = (
    "0.5.11",
    "0.5.12",
    "0.5.13",
    "0.5.14",
    "0.5.15",
    "0.5.16",
    "0.5.17",
    "0.5.18",
    "0.5.19",
    "0.5.20",
    "0.5.21",
    "0.5.22",
    "0.5.23",
)
OPTIONS = {
    "abort_on_priority_when_disabled": (Form("0.5.11", "0.5.23", "abort-on-priority-when-disabled", "flag"),),
    "admin_api_key": (Form("0.5.11", "0.5.23", "admin-api-key", "text"),),
    "allow_auto_truncate": (Form("0.5.11", "0.5.23", "allow-auto-truncate", "flag"),),
    "allowed_media_domains": (Form("0.5.18", "0.5.23", "allowed-media-domains", "texts"),),
    "api_key": (Form("0.5.11", "0.5.23", "api-key", "text"),),
    "asr_max_buffer_seconds": (Form("0.5.13", "0.5.23", "asr-max-buffer-seconds", "int"),),
    "asr_max_concurrent_sessions": (Form("0.5.13", "0.5.23", "asr-max-concurrent-sessions", "int"),),
    "attention_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "attention-backend",
            "text",
            "aiter ascend cutlass_mla dual_chunk_flash_attn fa3 fa4 flashinfer flashmla flex_attention "
            "intel_amx intel_xpu nsa torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "attention-backend",
            "text",
            "aiter ascend compressed cutlass_mla dsv4 dual_chunk_flash_attn fa3 fa4 flashinfer flashmla "
            "flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native triton trtllm_mha "
            "trtllm_mla wave",
        ),
        Form(
            "0.5.13",
            "0.5.16",
            "attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native "
            "triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu nsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu minicpm_flashattn "
            "minicpm_flashinfer nsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.20",
            "0.5.21",
            "attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu minicpm_flashattn minicpm_flashinfer nsa qsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu llada2_cfg_flashinfer minicpm_flashattn minicpm_flashinfer nsa "
            "qsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
    ),
    "attn_cp_size": (Form("0.5.11", "0.5.23", "attn-cp-size", "int"),),
    "attn_dp_size": (Form("0.5.22", "0.5.23", "attn-dp-size", "int"),),
    "base_gpu_id": (Form("0.5.11", "0.5.23", "base-gpu-id", "int"),),
    "batch_notify_size": (Form("0.5.11", "0.5.23", "batch-notify-size", "int"),),
    "bf16_gemm_backend": (
        Form("0.5.15", "0.5.16", "bf16-gemm-backend", "text", "auto cutedsl"),
        Form("0.5.17", "0.5.18", "bf16-gemm-backend", "text", "auto cutedsl torch"),
        Form("0.5.19", "0.5.19", "bf16-gemm-backend", "text", "auto cutedsl flashinfer_pr4266 gemv torch"),
        Form("0.5.20", "0.5.23", "bf16-gemm-backend", "text", "auto cutedsl gemv torch"),
    ),
    "boundary_reduction": (Form("0.5.21", "0.5.23", "boundary-reduction", "text", "ar auto rs rs+rsv rsv"),),
    "bucket_e2e_request_latency": (Form("0.5.11", "0.5.23", "bucket-e2e-request-latency", "floats"),),
    "bucket_inter_token_latency": (Form("0.5.11", "0.5.23", "bucket-inter-token-latency", "floats"),),
    "bucket_time_to_first_token": (Form("0.5.11", "0.5.23", "bucket-time-to-first-token", "floats"),),
    "c128_page_size": (Form("0.5.18", "0.5.23", "c128-page-size", "int"),),
    "chat_template": (Form("0.5.11", "0.5.23", "chat-template", "text"),),
    "checkpoint_engine_wait_weights_before_ready": (
        Form("0.5.11", "0.5.23", "checkpoint-engine-wait-weights-before-ready", "flag"),
    ),
    "chunked_prefill_size": (Form("0.5.11", "0.5.23", "chunked-prefill-size", "int"),),
    "completion_template": (Form("0.5.11", "0.5.23", "completion-template", "text"),),
    "constrained_json_disable_any_whitespace": (
        Form("0.5.11", "0.5.23", "constrained-json-disable-any-whitespace", "flag"),
    ),
    "constrained_json_max_whitespace_cnt": (Form("0.5.21", "0.5.23", "constrained-json-max-whitespace-cnt", "int"),),
    "constrained_json_whitespace_pattern": (Form("0.5.11", "0.5.23", "constrained-json-whitespace-pattern", "text"),),
    "context_length": (Form("0.5.11", "0.5.23", "context-length", "size"),),
    "cp_strategy": (Form("0.5.14", "0.5.23", "cp-strategy", "text", "interleave zigzag"),),
    "cpu_offload_gb": (Form("0.5.11", "0.5.23", "cpu-offload-gb", "int"),),
    "crash_dump_folder": (Form("0.5.11", "0.5.23", "crash-dump-folder", "text"),),
    "cuda_graph_backend_decode": (
        Form("0.5.14", "0.5.21", "cuda-graph-backend-decode", "text", "breakable disabled full tc_piecewise"),
        Form("0.5.22", "0.5.23", "cuda-graph-backend-decode", "text", "breakable disabled full"),
    ),
    "cuda_graph_backend_prefill": (
        Form("0.5.14", "0.5.19", "cuda-graph-backend-prefill", "text", "breakable disabled full tc_piecewise", False),
        Form("0.5.20", "0.5.21", "cuda-graph-backend-prefill", "text", "breakable disabled full tc_piecewise"),
        Form("0.5.22", "0.5.23", "cuda-graph-backend-prefill", "text", "breakable disabled full"),
    ),
    "cuda_graph_bs_decode": (
        Form("0.5.11", "0.5.13", "cuda-graph-bs", "ints"),
        Form("0.5.14", "0.5.19", "cuda-graph-bs-decode", "ints", "", False),
        Form("0.5.20", "0.5.23", "cuda-graph-bs-decode", "ints"),
    ),
    "cuda_graph_bs_prefill": (
        Form("0.5.11", "0.5.13", "piecewise-cuda-graph-tokens", "ints"),
        Form("0.5.14", "0.5.19", "cuda-graph-bs-prefill", "ints", "", False),
        Form("0.5.20", "0.5.23", "cuda-graph-bs-prefill", "ints"),
    ),
    "cuda_graph_config": (Form("0.5.14", "0.5.23", "cuda-graph-config", "json_mapping"),),
    "cuda_graph_max_bs_decode": (
        Form("0.5.11", "0.5.13", "cuda-graph-max-bs", "int"),
        Form("0.5.14", "0.5.19", "cuda-graph-max-bs-decode", "int", "", False),
        Form("0.5.20", "0.5.23", "cuda-graph-max-bs-decode", "int"),
    ),
    "cuda_graph_max_bs_prefill": (
        Form("0.5.11", "0.5.13", "piecewise-cuda-graph-max-tokens", "int"),
        Form("0.5.14", "0.5.19", "cuda-graph-max-bs-prefill", "int", "", False),
        Form("0.5.20", "0.5.23", "cuda-graph-max-bs-prefill", "int"),
    ),
    "cuda_graph_max_seq_len_prefill": (Form("0.5.21", "0.5.23", "cuda-graph-max-seq-len-prefill", "int"),),
    "cuda_graph_prefill_max_context": (Form("0.5.21", "0.5.23", "cuda-graph-prefill-max-context", "size"),),
    "cuda_graph_tc_compiler": (
        Form("0.5.11", "0.5.13", "piecewise-cuda-graph-compiler", "text", "eager inductor"),
        Form("0.5.14", "0.5.19", "cuda-graph-tc-compiler", "text", "eager inductor", False),
        Form("0.5.20", "0.5.21", "cuda-graph-tc-compiler", "text", "eager inductor"),
    ),
    "custom_sigquit_handler": (Form("0.5.11", "0.5.13", "custom-sigquit-handler", "text"),),
    "custom_weight_loader": (Form("0.5.11", "0.5.23", "custom-weight-loader", "texts"),),
    "dcp_comm_backend": (Form("0.5.17", "0.5.23", "dcp-comm-backend", "text", "a2a ag_rs fi_a2a"),),
    "dcp_replicate_q_proj": (Form("0.5.17", "0.5.23", "dcp-replicate-q-proj", "switch", "", False),),
    "dcp_size": (Form("0.5.15", "0.5.23", "dcp-size", "int"),),
    "debug_cuda_graph": (Form("0.5.11", "0.5.23", "debug-cuda-graph", "flag"),),
    "debug_tensor_dump_inject": (Form("0.5.11", "0.5.13", "debug-tensor-dump-inject", "text"),),
    "debug_tensor_dump_input_file": (Form("0.5.11", "0.5.23", "debug-tensor-dump-input-file", "text"),),
    "debug_tensor_dump_layers": (Form("0.5.11", "0.5.23", "debug-tensor-dump-layers", "ints"),),
    "debug_tensor_dump_output_folder": (Form("0.5.11", "0.5.23", "debug-tensor-dump-output-folder", "text"),),
    "decode_attention_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "decode-attention-backend",
            "text",
            "aiter ascend cutlass_mla dual_chunk_flash_attn fa3 fa4 flashinfer flashmla flex_attention "
            "intel_amx intel_xpu nsa torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutlass_mla dsv4 dual_chunk_flash_attn fa3 fa4 flashinfer flashmla "
            "flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native triton trtllm_mha "
            "trtllm_mla wave",
        ),
        Form(
            "0.5.13",
            "0.5.16",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native "
            "triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu nsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu minicpm_flashattn "
            "minicpm_flashinfer nsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.20",
            "0.5.21",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu minicpm_flashattn minicpm_flashinfer nsa qsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "decode-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu llada2_cfg_flashinfer minicpm_flashattn minicpm_flashinfer nsa "
            "qsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
    ),
    "decode_log_interval": (Form("0.5.11", "0.5.23", "decode-log-interval", "int"),),
    "decoupled_spec_bind_endpoint": (Form("0.5.15", "0.5.23", "decoupled-spec-bind-endpoint", "text"),),
    "decoupled_spec_connect_endpoints": (Form("0.5.15", "0.5.23", "decoupled-spec-connect-endpoints", "json_list"),),
    "decoupled_spec_rank": (Form("0.5.15", "0.5.23", "decoupled-spec-rank", "int"),),
    "decoupled_spec_role": (Form("0.5.15", "0.5.23", "decoupled-spec-role", "text", "drafter null verifier"),),
    "decrypted_config_file": (Form("0.5.11", "0.5.23", "decrypted-config-file", "text"),),
    "decrypted_draft_config_file": (Form("0.5.11", "0.5.23", "decrypted-draft-config-file", "text"),),
    "deepep_config": (Form("0.5.11", "0.5.23", "deepep-config", "text"),),
    "deepep_dispatcher_output_dtype": (
        Form("0.5.13", "0.5.23", "deepep-dispatcher-output-dtype", "text", "auto bf16 fp8 int8 nvfp4"),
    ),
    "deepep_mode": (Form("0.5.11", "0.5.23", "deepep-mode", "text", "auto low_latency normal"),),
    "deepep_v2_mode": (Form("0.5.19", "0.5.23", "deepep-v2-mode", "text", "direct hybrid"),),
    "default_chat_template_kwargs": (Form("0.5.16", "0.5.23", "default-chat-template-kwargs", "json"),),
    "default_priority_value": (Form("0.5.11", "0.5.23", "default-priority-value", "int"),),
    "delete_ckpt_after_loading": (Form("0.5.11", "0.5.23", "delete-ckpt-after-loading", "flag"),),
    "detokenizer_worker_num": (Form("0.5.12", "0.5.23", "detokenizer-worker-num", "int"),),
    "device": (Form("0.5.11", "0.5.23", "device", "text"),),
    "disable_aiter_allreduce_fusion_in_decode": (
        Form("0.5.21", "0.5.23", "disable-aiter-allreduce-fusion-in-decode", "flag"),
    ),
    "disable_aiter_allreduce_fusion_in_prefill": (
        Form("0.5.21", "0.5.23", "disable-aiter-allreduce-fusion-in-prefill", "flag"),
    ),
    "disable_attn_tp_gather": (Form("0.5.13", "0.5.23", "disable-attn-tp-gather", "flag"),),
    "disable_chunked_prefix_cache": (Form("0.5.11", "0.5.23", "disable-chunked-prefix-cache", "flag"),),
    "disable_cuda_graph": (
        Form("0.5.11", "0.5.13", "disable-cuda-graph", "flag"),
        Form("0.5.14", "0.5.23", "disable-cuda-graph", "flag", "", False),
    ),
    "disable_cuda_graph_padding": (Form("0.5.11", "0.5.23", "disable-cuda-graph-padding", "flag"),),
    "disable_custom_all_reduce": (Form("0.5.11", "0.5.23", "disable-custom-all-reduce", "flag"),),
    "disable_decode_cuda_graph": (Form("0.5.14", "0.5.23", "disable-decode-cuda-graph", "flag"),),
    "disable_fast_image_processor": (Form("0.5.11", "0.5.23", "disable-fast-image-processor", "flag"),),
    "disable_flashinfer_autotune": (Form("0.5.11", "0.5.23", "disable-flashinfer-autotune", "flag"),),
    "disable_flashinfer_cutlass_moe_fp4_allgather": (
        Form("0.5.11", "0.5.23", "disable-flashinfer-cutlass-moe-fp4-allgather", "flag"),
    ),
    "disable_hybrid_swa_memory": (Form("0.5.11", "0.5.23", "disable-hybrid-swa-memory", "flag"),),
    "disable_outlines_disk_cache": (Form("0.5.11", "0.5.23", "disable-outlines-disk-cache", "flag"),),
    "disable_overlap_schedule": (Form("0.5.11", "0.5.23", "disable-overlap-schedule", "flag"),),
    "disable_piecewise_cuda_graph": (Form("0.5.11", "0.5.13", "disable-piecewise-cuda-graph", "flag"),),
    "disable_prefill_cuda_graph": (Form("0.5.14", "0.5.23", "disable-prefill-cuda-graph", "flag"),),
    "disable_priority_preemption": (Form("0.5.11", "0.5.23", "disable-priority-preemption", "flag"),),
    "disable_radix_cache": (Form("0.5.11", "0.5.23", "disable-radix-cache", "flag"),),
    "disable_shared_experts_fusion": (Form("0.5.11", "0.5.23", "disable-shared-experts-fusion", "flag"),),
    "disable_tokenizer_batch_decode": (Form("0.5.11", "0.5.23", "disable-tokenizer-batch-decode", "flag"),),
    "disaggregation_bootstrap_port": (Form("0.5.11", "0.5.23", "disaggregation-bootstrap-port", "int"),),
    "disaggregation_decode_allocation_policy": (
        Form("0.5.22", "0.5.23", "disaggregation-decode-allocation-policy", "text", "early prefill_complete"),
    ),
    "disaggregation_decode_enable_offload_kvcache": (
        Form("0.5.11", "0.5.23", "disaggregation-decode-enable-offload-kvcache", "flag"),
    ),
    "disaggregation_decode_enable_radix_cache": (
        Form("0.5.11", "0.5.23", "disaggregation-decode-enable-radix-cache", "flag"),
    ),
    "disaggregation_decode_extra_slots": (Form("0.5.14", "0.5.23", "disaggregation-decode-extra-slots", "int"),),
    "disaggregation_decode_host_receive_threshold": (
        Form("0.5.21", "0.5.23", "disaggregation-decode-host-receive-threshold", "float"),
    ),
    "disaggregation_decode_polling_interval": (
        Form("0.5.11", "0.5.23", "disaggregation-decode-polling-interval", "int"),
    ),
    "disaggregation_decode_retraction_backup": (
        Form("0.5.18", "0.5.20", "disaggregation-decode-retraction-backup", "text", "cpu_tensor host_pool"),
        Form("0.5.21", "0.5.23", "disaggregation-decode-retraction-backup", "text", "cpu_tensor host_pool none"),
    ),
    "disaggregation_enable_kv_checksum": (Form("0.5.21", "0.5.23", "disaggregation-enable-kv-checksum", "flag"),),
    "disaggregation_ib_device": (Form("0.5.11", "0.5.23", "disaggregation-ib-device", "text"),),
    "disaggregation_mode": (Form("0.5.11", "0.5.23", "disaggregation-mode", "text", "decode null prefill"),),
    "disaggregation_transfer_backend": (
        Form("0.5.11", "0.5.12", "disaggregation-transfer-backend", "text", "ascend fake mooncake mori nixl"),
        Form(
            "0.5.13", "0.5.23", "disaggregation-transfer-backend", "text", "ascend fake mooncake mooncake_tcp mori nixl"
        ),
    ),
    "dist_init_addr": (Form("0.5.11", "0.5.23", "dist-init-addr", "text"),),
    "dist_timeout": (Form("0.5.11", "0.5.23", "dist-timeout", "int"),),
    "dllm_algorithm": (Form("0.5.11", "0.5.23", "dllm-algorithm", "text"),),
    "dllm_algorithm_config": (Form("0.5.11", "0.5.23", "dllm-algorithm-config", "text"),),
    "dllm_fdfo": (Form("0.5.16", "0.5.23", "dllm-fdfo", "switch", "", False),),
    "download_dir": (Form("0.5.11", "0.5.23", "download-dir", "text"),),
    "dp_size": (Form("0.5.11", "0.5.23", "dp-size", "int"),),
    "dsa_decode_backend": (
        Form(
            "0.5.11",
            "0.5.12",
            "nsa-decode-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "dsa-decode-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
            False,
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "dsa-decode-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse flashmla_sparse_q8 tilelang trtllm",
            False,
        ),
        Form(
            "0.5.17",
            "0.5.19",
            "dsa-decode-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 tilelang trtllm",
            False,
        ),
        Form(
            "0.5.20",
            "0.5.21",
            "dsa-decode-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 tilelang triton trtllm",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "dsa-decode-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 intel_xpu tilelang triton trtllm",
        ),
    ),
    "dsa_paged_mqa_logits_backend": (
        Form("0.5.15", "0.5.23", "dsa-paged-mqa-logits-backend", "text", "aiter auto cutedsl deepgemm"),
    ),
    "dsa_prefill_backend": (
        Form(
            "0.5.11",
            "0.5.12",
            "nsa-prefill-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "dsa-prefill-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
            False,
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "dsa-prefill-backend",
            "text",
            "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse flashmla_sparse_q8 tilelang trtllm",
            False,
        ),
        Form(
            "0.5.17",
            "0.5.19",
            "dsa-prefill-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 tilelang trtllm",
            False,
        ),
        Form(
            "0.5.20",
            "0.5.21",
            "dsa-prefill-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 tilelang triton trtllm",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "dsa-prefill-backend",
            "text",
            "aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse "
            "flashmla_sparse_q8 intel_xpu tilelang triton triton_sparse_mla trtllm",
        ),
    ),
    "dsa_prefill_cp_mode": (
        Form("0.5.11", "0.5.12", "nsa-prefill-cp-mode", "text", "in-seq-split round-robin-split"),
        Form("0.5.13", "0.5.19", "dsa-prefill-cp-mode", "text", "in-seq-split round-robin-split", False),
    ),
    "dsa_topk_backend": (Form("0.5.13", "0.5.23", "dsa-topk-backend", "text", "flashinfer sgl-kernel torch"),),
    "dsa_triton_union": (Form("0.5.22", "0.5.23", "dsa-triton-union", "int", "0 2 4"),),
    "dsv4_attn_backend": (
        Form("0.5.20", "0.5.22", "dsv4-attn-backend", "text", "auto flashmla trtllm"),
        Form("0.5.23", "0.5.23", "dsv4-attn-backend", "text", "auto flashmla flashmla_mega trtllm"),
    ),
    "dsv4_prefill_backend": (
        Form("0.5.19", "0.5.23", "dsv4-prefill-backend", "text", "auto flashmla_sparse flashmla_sparse_q8"),
    ),
    "dtype": (Form("0.5.11", "0.5.23", "dtype", "text", "auto bfloat16 float float16 float32 half"),),
    "dwdp_size": (Form("0.5.17", "0.5.23", "dwdp-size", "int"),),
    "dynamic_batch_tokenizer_batch_size": (Form("0.5.11", "0.5.23", "dynamic-batch-tokenizer-batch-size", "int"),),
    "dynamic_batch_tokenizer_batch_timeout": (
        Form("0.5.11", "0.5.23", "dynamic-batch-tokenizer-batch-timeout", "float"),
    ),
    "elastic_ep_backend": (Form("0.5.11", "0.5.23", "elastic-ep-backend", "text", "mooncake nixl none"),),
    "elastic_ep_initial_size": (Form("0.5.16", "0.5.23", "elastic-ep-initial-size", "int"),),
    "elastic_ep_rejoin": (Form("0.5.11", "0.5.20", "elastic-ep-rejoin", "flag"),),
    "elastic_ep_scale_timeout": (Form("0.5.16", "0.5.23", "elastic-ep-scale-timeout", "float"),),
    "enable_adaptive_dispatch_to_encoder": (Form("0.5.11", "0.5.23", "enable-adaptive-dispatch-to-encoder", "flag"),),
    "enable_aiter_allreduce_fusion": (Form("0.5.11", "0.5.23", "enable-aiter-allreduce-fusion", "flag"),),
    "enable_amd_monokernel": (Form("0.5.23", "0.5.23", "enable-amd-monokernel", "flag"),),
    "enable_attn_tp_input_scattered": (Form("0.5.11", "0.5.23", "enable-attn-tp-input-scattered", "flag"),),
    "enable_breakable_cuda_graph": (Form("0.5.11", "0.5.13", "enable-breakable-cuda-graph", "flag"),),
    "enable_broadcast_mm_inputs_process": (Form("0.5.11", "0.5.23", "enable-broadcast-mm-inputs-process", "flag"),),
    "enable_cache_report": (Form("0.5.11", "0.5.23", "enable-cache-report", "flag"),),
    "enable_cp_decode_attn_tp": (Form("0.5.17", "0.5.23", "enable-cp-decode-attn-tp", "flag"),),
    "enable_cudagraph_gc": (Form("0.5.11", "0.5.23", "enable-cudagraph-gc", "flag"),),
    "enable_custom_logit_processor": (Form("0.5.11", "0.5.23", "enable-custom-logit-processor", "flag"),),
    "enable_decoder_swa_bounded_replay": (
        Form("0.5.21", "0.5.22", "enable-decoder-swa-bounded-replay", "flag"),
        Form("0.5.23", "0.5.23", "enable-decoder-swa-bounded-replay", "switch", "", False),
    ),
    "enable_deepep_waterfill": (Form("0.5.12", "0.5.15", "enable-deepep-waterfill", "flag"),),
    "enable_deepseek_v4_fp4_indexer": (Form("0.5.13", "0.5.23", "enable-deepseek-v4-fp4-indexer", "flag"),),
    "enable_dense_mlp_attn_tp": (Form("0.5.19", "0.5.23", "enable-dense-mlp-attn-tp", "flag"),),
    "enable_deterministic_inference": (Form("0.5.11", "0.5.23", "enable-deterministic-inference", "flag"),),
    "enable_dp_attention": (
        Form("0.5.11", "0.5.21", "enable-dp-attention", "flag"),
        Form("0.5.22", "0.5.23", "enable-dp-attention", "flag", "", False),
    ),
    "enable_dp_attention_local_control_broadcast": (
        Form("0.5.11", "0.5.23", "enable-dp-attention-local-control-broadcast", "flag"),
    ),
    "enable_dp_lm_head": (Form("0.5.11", "0.5.23", "enable-dp-lm-head", "flag"),),
    "enable_draft_weights_cpu_backup": (Form("0.5.11", "0.5.23", "enable-draft-weights-cpu-backup", "flag"),),
    "enable_dsa_cache_layer_split": (Form("0.5.16", "0.5.23", "enable-dsa-cache-layer-split", "flag"),),
    "enable_dsa_fused_indexer": (Form("0.5.22", "0.5.23", "enable-dsa-fused-indexer", "switch", "", False),),
    "enable_dsa_prefill_context_parallel": (
        Form("0.5.11", "0.5.12", "enable-nsa-prefill-context-parallel", "flag"),
        Form("0.5.13", "0.5.19", "enable-dsa-prefill-context-parallel", "flag", "", False),
    ),
    "enable_dynamic_batch_tokenizer": (Form("0.5.11", "0.5.23", "enable-dynamic-batch-tokenizer", "flag"),),
    "enable_dynamic_chunking": (Form("0.5.11", "0.5.23", "enable-dynamic-chunking", "flag"),),
    "enable_elastic_expert_backup": (Form("0.5.11", "0.5.23", "enable-elastic-expert-backup", "flag"),),
    "enable_encoder_swa_bounded_replay": (Form("0.5.21", "0.5.23", "enable-encoder-swa-bounded-replay", "flag"),),
    "enable_eplb": (Form("0.5.11", "0.5.23", "enable-eplb", "flag"),),
    "enable_expert_distribution_metrics": (Form("0.5.11", "0.5.17", "enable-expert-distribution-metrics", "flag"),),
    "enable_flashinfer_allreduce_fusion": (Form("0.5.11", "0.5.23", "enable-flashinfer-allreduce-fusion", "flag"),),
    "enable_flexkv": (Form("0.5.16", "0.5.23", "enable-flexkv", "flag"),),
    "enable_forward_pass_metrics": (Form("0.5.12", "0.5.23", "enable-forward-pass-metrics", "flag"),),
    "enable_fp32_lm_head": (Form("0.5.11", "0.5.23", "enable-fp32-lm-head", "flag"),),
    "enable_fused_moe_sum_all_reduce": (Form("0.5.11", "0.5.23", "enable-fused-moe-sum-all-reduce", "flag"),),
    "enable_fused_qk_norm_rope": (
        Form("0.5.11", "0.5.22", "enable-fused-qk-norm-rope", "flag"),
        Form("0.5.23", "0.5.23", "enable-fused-qk-norm-rope", "switch", "", False),
    ),
    "enable_hierarchical_cache": (Form("0.5.11", "0.5.23", "enable-hierarchical-cache", "flag"),),
    "enable_hisparse": (Form("0.5.11", "0.5.23", "enable-hisparse", "flag"),),
    "enable_http2": (Form("0.5.11", "0.5.23", "enable-http2", "flag"),),
    "enable_http_worker_reuseport": (Form("0.5.23", "0.5.23", "enable-http-worker-reuseport", "flag"),),
    "enable_int8_mamba_checkpoint": (Form("0.5.14", "0.5.23", "enable-int8-mamba-checkpoint", "flag"),),
    "enable_kv_cache_sharding": (Form("0.5.22", "0.5.23", "enable-kv-cache-sharding", "flag"),),
    "enable_layernorm_sp": (Form("0.5.19", "0.5.23", "enable-layernorm-sp", "flag"),),
    "enable_layerwise_nvtx_marker": (Form("0.5.11", "0.5.23", "enable-layerwise-nvtx-marker", "flag"),),
    "enable_lean_attention": (Form("0.5.19", "0.5.23", "enable-lean-attention", "flag"),),
    "enable_linear_replayssm": (Form("0.5.15", "0.5.23", "enable-linear-replayssm", "flag"),),
    "enable_linear_replayssm_spec": (
        Form("0.5.16", "0.5.16", "enable-gdn-replayssm-spec", "flag"),
        Form("0.5.17", "0.5.19", "enable-linear-replayssm-spec", "flag", "", False),
        Form("0.5.20", "0.5.23", "enable-linear-replayssm-spec", "flag"),
    ),
    "enable_linker_mla_dedup": (Form("0.5.21", "0.5.23", "enable-linker-mla-dedup", "flag"),),
    "enable_lmcache": (Form("0.5.11", "0.5.23", "enable-lmcache", "flag"),),
    "enable_lora": (Form("0.5.11", "0.5.23", "enable-lora", "flag"),),
    "enable_lora_overlap_loading": (Form("0.5.11", "0.5.23", "enable-lora-overlap-loading", "flag"),),
    "enable_mamba_cache_stochastic_rounding": (
        Form("0.5.15", "0.5.23", "enable-mamba-cache-stochastic-rounding", "flag"),
    ),
    "enable_megamoe_for_layernorm_sp": (Form("0.5.23", "0.5.23", "enable-megamoe-for-layernorm-sp", "flag"),),
    "enable_memory_saver": (Form("0.5.11", "0.5.23", "enable-memory-saver", "flag"),),
    "enable_metrics": (Form("0.5.11", "0.5.23", "enable-metrics", "flag"),),
    "enable_metrics_for_all_schedulers": (Form("0.5.11", "0.5.23", "enable-metrics-for-all-schedulers", "flag"),),
    "enable_mfu_metrics": (Form("0.5.11", "0.5.23", "enable-mfu-metrics", "flag"),),
    "enable_mis": (Form("0.5.11", "0.5.23", "enable-mis", "flag"),),
    "enable_mixed_chunk": (Form("0.5.11", "0.5.23", "enable-mixed-chunk", "flag"),),
    "enable_mm_global_cache": (Form("0.5.11", "0.5.23", "enable-mm-global-cache", "flag"),),
    "enable_mscclpp": (Form("0.5.11", "0.5.23", "enable-mscclpp", "flag"),),
    "enable_multi_layer_eagle": (Form("0.5.11", "0.5.23", "enable-multi-layer-eagle", "flag"),),
    "enable_multimodal": (Form("0.5.11", "0.5.23", "enable-multimodal", "flag"),),
    "enable_nan_detection": (Form("0.5.11", "0.5.12", "enable-nan-detection", "flag"),),
    "enable_nccl_nvls": (Form("0.5.11", "0.5.23", "enable-nccl-nvls", "flag"),),
    "enable_nvidia_megakernel": (Form("0.5.23", "0.5.23", "enable-nvidia-megakernel", "flag"),),
    "enable_p2p_check": (Form("0.5.11", "0.5.23", "enable-p2p-check", "flag"),),
    "enable_page_major_kv_layout": (Form("0.5.15", "0.5.23", "enable-page-major-kv-layout", "flag"),),
    "enable_paged_experts": (Form("0.5.23", "0.5.23", "enable-paged-experts", "flag"),),
    "enable_pd_role_switch": (Form("0.5.21", "0.5.23", "enable-pd-role-switch", "flag"),),
    "enable_pdmux": (Form("0.5.11", "0.5.23", "enable-pdmux", "flag"),),
    "enable_precise_embedding_interpolation": (
        Form("0.5.11", "0.5.23", "enable-precise-embedding-interpolation", "flag"),
    ),
    "enable_prefill_context_parallel": (
        Form("0.5.11", "0.5.13", "enable-prefill-context-parallel", "flag"),
        Form("0.5.14", "0.5.19", "enable-prefill-context-parallel", "flag", "", False),
    ),
    "enable_prefill_cp": (Form("0.5.14", "0.5.23", "enable-prefill-cp", "flag"),),
    "enable_prefill_delayer": (Form("0.5.11", "0.5.23", "enable-prefill-delayer", "flag"),),
    "enable_prefix_mm_cache": (Form("0.5.11", "0.5.23", "enable-prefix-mm-cache", "flag"),),
    "enable_priority_scheduling": (Form("0.5.11", "0.5.23", "enable-priority-scheduling", "flag"),),
    "enable_profile_cuda_graph": (Form("0.5.11", "0.5.23", "enable-profile-cuda-graph", "flag"),),
    "enable_quant_communications": (Form("0.5.11", "0.5.23", "enable-quant-communications", "flag"),),
    "enable_request_time_stats_logging": (Form("0.5.11", "0.5.23", "enable-request-time-stats-logging", "flag"),),
    "enable_response_store": (Form("0.5.20", "0.5.23", "enable-response-store", "flag"),),
    "enable_return_aux_hidden_states": (Form("0.5.23", "0.5.23", "enable-return-aux-hidden-states", "flag"),),
    "enable_return_hidden_states": (Form("0.5.11", "0.5.23", "enable-return-hidden-states", "flag"),),
    "enable_return_indexer_topk": (Form("0.5.12", "0.5.23", "enable-return-indexer-topk", "flag"),),
    "enable_return_routed_experts": (Form("0.5.11", "0.5.23", "enable-return-routed-experts", "flag"),),
    "enable_scattered_sconv": (Form("0.5.16", "0.5.23", "enable-scattered-sconv", "flag"),),
    "enable_session_radix_cache": (Form("0.5.15", "0.5.23", "enable-session-radix-cache", "flag"),),
    "enable_shared_experts_attn_tp": (Form("0.5.19", "0.5.23", "enable-shared-experts-attn-tp", "flag"),),
    "enable_single_batch_overlap": (Form("0.5.11", "0.5.23", "enable-single-batch-overlap", "flag"),),
    "enable_ssl_refresh": (Form("0.5.11", "0.5.23", "enable-ssl-refresh", "flag"),),
    "enable_streaming_session": (Form("0.5.11", "0.5.23", "enable-streaming-session", "flag"),),
    "enable_strict_thinking": (Form("0.5.12", "0.5.23", "enable-strict-thinking", "flag"),),
    "enable_symm_mem": (Form("0.5.11", "0.5.23", "enable-symm-mem", "flag"),),
    "enable_tf32_matmul": (
        Form("0.5.15", "0.5.22", "enable-tf32-matmul", "flag"),
        Form("0.5.23", "0.5.23", "enable-tf32-matmul", "switch", "", False),
    ),
    "enable_tokenizer_batch_encode": (Form("0.5.11", "0.5.23", "enable-tokenizer-batch-encode", "flag"),),
    "enable_torch_compile": (Form("0.5.11", "0.5.23", "enable-torch-compile", "flag"),),
    "enable_torch_compile_debug_mode": (Form("0.5.11", "0.5.23", "enable-torch-compile-debug-mode", "flag"),),
    "enable_torch_symm_mem": (Form("0.5.11", "0.5.23", "enable-torch-symm-mem", "flag"),),
    "enable_tp_lm_head_all_to_all": (Form("0.5.18", "0.5.23", "enable-tp-lm-head-all-to-all", "switch", "", False),),
    "enable_trace": (Form("0.5.11", "0.5.23", "enable-trace", "flag"),),
    "enable_two_batch_overlap": (Form("0.5.11", "0.5.23", "enable-two-batch-overlap", "flag"),),
    "enable_unified_cache_external_linker": (Form("0.5.20", "0.5.23", "enable-unified-cache-external-linker", "flag"),),
    "enable_unified_memory": (Form("0.5.15", "0.5.23", "enable-unified-memory", "flag"),),
    "enable_w4a4_mxfp4_megamoe": (Form("0.5.19", "0.5.23", "enable-w4a4-mxfp4-megamoe", "flag"),),
    "enable_waterfill": (Form("0.5.16", "0.5.23", "enable-waterfill", "flag"),),
    "enable_watermark": (Form("0.5.22", "0.5.23", "enable-watermark", "flag"),),
    "enable_weights_cpu_backup": (Form("0.5.11", "0.5.23", "enable-weights-cpu-backup", "flag"),),
    "encoder_bootstrap_port": (Form("0.5.13", "0.5.23", "encoder-bootstrap-port", "int"),),
    "encoder_only": (Form("0.5.11", "0.5.23", "encoder-only", "flag"),),
    "encoder_register_urls": (Form("0.5.13", "0.5.23", "encoder-register-urls", "texts"),),
    "encoder_transfer_backend": (
        Form("0.5.11", "0.5.16", "encoder-transfer-backend", "text", "mooncake zmq_to_scheduler zmq_to_tokenizer"),
        Form("0.5.17", "0.5.23", "encoder-transfer-backend", "text", "auto mooncake zmq_to_scheduler zmq_to_tokenizer"),
    ),
    "encoder_urls": (Form("0.5.11", "0.5.23", "encoder-urls", "texts"),),
    "enforce_disable_flashinfer_allreduce_fusion": (
        Form("0.5.11", "0.5.23", "enforce-disable-flashinfer-allreduce-fusion", "flag"),
    ),
    "enforce_piecewise_cuda_graph": (Form("0.5.11", "0.5.13", "enforce-piecewise-cuda-graph", "flag"),),
    "enforce_shared_experts_fusion": (Form("0.5.11", "0.5.23", "enforce-shared-experts-fusion", "flag"),),
    "engine_info_bootstrap_port": (Form("0.5.11", "0.5.23", "engine-info-bootstrap-port", "int"),),
    "ep_dispatch_algorithm": (
        Form("0.5.11", "0.5.13", "ep-dispatch-algorithm", "text"),
        Form("0.5.14", "0.5.23", "ep-dispatch-algorithm", "text", "dynamic fake lp static"),
    ),
    "ep_join_mode": (Form("0.5.16", "0.5.23", "elastic-ep-join-mode", "text", "recover scale"),),
    "ep_join_rank_offset": (Form("0.5.16", "0.5.23", "elastic-ep-join-rank-offset", "int"),),
    "ep_num_redundant_experts": (Form("0.5.11", "0.5.23", "ep-num-redundant-experts", "int"),),
    "ep_size": (Form("0.5.11", "0.5.23", "ep-size", "int"),),
    "eplb_algorithm": (Form("0.5.11", "0.5.23", "eplb-algorithm", "text"),),
    "eplb_min_rebalancing_utilization_threshold": (
        Form("0.5.11", "0.5.23", "eplb-min-rebalancing-utilization-threshold", "float"),
    ),
    "eplb_rebalance_layers_per_chunk": (Form("0.5.11", "0.5.23", "eplb-rebalance-layers-per-chunk", "int"),),
    "eplb_rebalance_num_iterations": (Form("0.5.11", "0.5.23", "eplb-rebalance-num-iterations", "int"),),
    "expert_balancedness_report_mode": (
        Form("0.5.18", "0.5.23", "expert-balancedness-report-mode", "text", "both off prometheus server_log"),
    ),
    "expert_distribution_recorder_buffer_size": (
        Form("0.5.11", "0.5.23", "expert-distribution-recorder-buffer-size", "int"),
    ),
    "expert_distribution_recorder_mode": (
        Form("0.5.11", "0.5.13", "expert-distribution-recorder-mode", "text"),
        Form("0.5.14", "0.5.23", "expert-distribution-recorder-mode", "text", "per_pass per_token stat stat_approx"),
    ),
    "experts_shared_outer_loras": (Form("0.5.11", "0.5.23", "experts-shared-outer-loras", "switch", "", False),),
    "export_metrics_to_file": (Form("0.5.11", "0.5.23", "export-metrics-to-file", "flag"),),
    "export_metrics_to_file_dir": (Form("0.5.11", "0.5.23", "export-metrics-to-file-dir", "text"),),
    "extra_metric_labels": (Form("0.5.11", "0.5.23", "extra-metric-labels", "json"),),
    "fastapi_root_path": (Form("0.5.11", "0.5.23", "fastapi-root-path", "text"),),
    "file_storage_path": (Form("0.5.11", "0.5.23", "file-storage-path", "text"),),
    "flashinfer_a2a_dispatch_type": (
        Form("0.5.20", "0.5.23", "flashinfer-a2a-dispatch-type", "text", "auto bf16 mxfp8 nvfp4"),
    ),
    "flashinfer_allreduce_fusion_backend": (
        Form("0.5.14", "0.5.20", "flashinfer-allreduce-fusion-backend", "text", "auto mnnvl trtllm"),
        Form("0.5.21", "0.5.23", "flashinfer-allreduce-fusion-backend", "text", "auto cutedsl mnnvl trtllm"),
    ),
    "flashinfer_autotune_skip_ops": (Form("0.5.17", "0.5.23", "flashinfer-autotune-skip-ops", "texts"),),
    "flashinfer_mla_disable_ragged": (Form("0.5.11", "0.5.23", "flashinfer-mla-disable-ragged", "flag"),),
    "flashinfer_mxfp4_moe_precision": (
        Form("0.5.11", "0.5.18", "flashinfer-mxfp4-moe-precision", "text", "bf16 default"),
        Form("0.5.19", "0.5.23", "flashinfer-mxfp4-moe-precision", "text", "bf16 default fp8"),
    ),
    "flexkv_config_file": (Form("0.5.16", "0.5.23", "flexkv-config-file", "text"),),
    "forward_hooks": (Form("0.5.11", "0.5.23", "forward-hooks", "json_list"),),
    "forward_pass_metrics_ipc_name": (Form("0.5.12", "0.5.23", "forward-pass-metrics-ipc-name", "text"),),
    "forward_pass_metrics_worker_id": (Form("0.5.12", "0.5.23", "forward-pass-metrics-worker-id", "text"),),
    "fp4_gemm_runner_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "fp4-gemm-backend",
            "text",
            "auto cutlass flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "fp4-gemm-backend",
            "text",
            "auto cutlass flashinfer_cudnn flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "fp4-gemm-backend",
            "text",
            "auto cutlass flashinfer_cudnn flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin",
        ),
        Form(
            "0.5.16",
            "0.5.23",
            "fp4-gemm-backend",
            "text",
            "auto flashinfer_cudnn flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin",
        ),
    ),
    "fp8_gemm_runner_backend": (
        Form(
            "0.5.11",
            "0.5.17",
            "fp8-gemm-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutlass flashinfer_deepgemm flashinfer_trtllm triton",
        ),
        Form(
            "0.5.18",
            "0.5.23",
            "fp8-gemm-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_deepgemm "
            "flashinfer_trtllm triton",
        ),
    ),
    "fuseep_mode": (Form("0.5.16", "0.5.23", "fuseep-mode", "int", "1 2"),),
    "gated_launch_port": (Form("0.5.19", "0.5.23", "gated-launch-port", "int"),),
    "gc_threshold": (Form("0.5.11", "0.5.23", "gc-threshold", "ints"),),
    "gc_warning_threshold_secs": (Form("0.5.11", "0.5.23", "gc-warning-threshold-secs", "float"),),
    "generation_tokens_buckets": (Form("0.5.11", "0.5.23", "generation-tokens-buckets", "texts"),),
    "gpu_id_step": (Form("0.5.11", "0.5.23", "gpu-id-step", "int"),),
    "grammar_backend": (Form("0.5.11", "0.5.23", "grammar-backend", "text", "llguidance none outlines xgrammar"),),
    "grpc_mode": (Form("0.5.11", "0.5.23", "grpc-mode", "flag"),),
    "grpc_port": (Form("0.5.16", "0.5.23", "grpc-port", "int"),),
    "grpc_response_timeout_secs": (Form("0.5.21", "0.5.23", "grpc-response-timeout-secs", "int"),),
    "hf_chat_template_name": (Form("0.5.11", "0.5.23", "hf-chat-template-name", "text"),),
    "hicache_host_memory_fraction": (Form("0.5.21", "0.5.23", "hicache-host-memory-fraction", "float"),),
    "hicache_host_memory_mode": (Form("0.5.19", "0.5.23", "hicache-host-memory-mode", "text", "buffer_only cache"),),
    "hicache_io_backend": (Form("0.5.11", "0.5.23", "hicache-io-backend", "text", "direct kernel kernel_ascend"),),
    "hicache_mem_layout": (
        Form(
            "0.5.11",
            "0.5.23",
            "hicache-mem-layout",
            "text",
            "layer_first page_first page_first_direct page_first_kv_split page_head",
        ),
    ),
    "hicache_ratio": (Form("0.5.11", "0.5.23", "hicache-ratio", "float"),),
    "hicache_size": (Form("0.5.11", "0.5.23", "hicache-size", "int"),),
    "hicache_storage_backend": (
        Form("0.5.11", "0.5.14", "hicache-storage-backend", "text", "aibrix dynamic eic file hf3fs mooncake nixl simm"),
        Form(
            "0.5.15",
            "0.5.16",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl simm",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl shm simm",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl shm sim simm",
        ),
        Form(
            "0.5.20",
            "0.5.20",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl npu_memcache shm sim simm",
        ),
        Form(
            "0.5.21",
            "0.5.21",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl npu_memcache shm sim simm tensorcast",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "hicache-storage-backend",
            "text",
            "aibrix dynamic eic file hf3fs mooncake mori nixl npu_memcache seaweedfs shm sim simm tensorcast",
        ),
    ),
    "hicache_storage_backend_extra_config": (Form("0.5.11", "0.5.23", "hicache-storage-backend-extra-config", "text"),),
    "hicache_storage_prefetch_policy": (
        Form("0.5.11", "0.5.23", "hicache-storage-prefetch-policy", "text", "best_effort timeout wait_complete"),
    ),
    "hicache_storage_prefetch_retry_max_attempts": (
        Form("0.5.19", "0.5.23", "hicache-storage-prefetch-retry-max-attempts", "int"),
    ),
    "hicache_storage_prefetch_retry_poll_interval": (
        Form("0.5.19", "0.5.23", "hicache-storage-prefetch-retry-poll-interval", "int"),
    ),
    "hicache_write_policy": (
        Form("0.5.11", "0.5.23", "hicache-write-policy", "text", "write_back write_through write_through_selective"),
    ),
    "hisparse_config": (Form("0.5.11", "0.5.23", "hisparse-config", "text"),),
    "host": (Form("0.5.11", "0.5.23", "host", "text"),),
    "http2_initial_connection_window_size": (Form("0.5.19", "0.5.23", "http2-initial-connection-window-size", "int"),),
    "http2_max_concurrent_streams": (Form("0.5.18", "0.5.23", "http2-max-concurrent-streams", "int"),),
    "image_processor_backend": (Form("0.5.18", "0.5.23", "image-processor-backend", "text", "auto pil torchvision"),),
    "incremental_streaming_output": (
        Form("0.5.11", "0.5.19", "incremental-streaming-output", "flag", "", False),
        Form("0.5.20", "0.5.23", "incremental-streaming-output", "flag"),
    ),
    "init_expert_location": (Form("0.5.11", "0.5.23", "init-expert-location", "text"),),
    "int8_mamba_ckpt_size": (Form("0.5.14", "0.5.23", "int8-mamba-ckpt-size", "int"),),
    "is_embedding": (Form("0.5.11", "0.5.23", "is-embedding", "flag"),),
    "json_model_override_args": (Form("0.5.11", "0.5.23", "json-model-override-args", "text"),),
    "keep_mm_feature_on_device": (Form("0.5.11", "0.5.20", "keep-mm-feature-on-device", "flag"),),
    "kt_cpuinfer": (Form("0.5.11", "0.5.23", "kt-cpuinfer", "int"),),
    "kt_max_deferred_experts_per_token": (Form("0.5.11", "0.5.23", "kt-max-deferred-experts-per-token", "int"),),
    "kt_method": (Form("0.5.11", "0.5.23", "kt-method", "text"),),
    "kt_num_gpu_experts": (Form("0.5.11", "0.5.23", "kt-num-gpu-experts", "int"),),
    "kt_threadpool_count": (Form("0.5.11", "0.5.23", "kt-threadpool-count", "int"),),
    "kt_weight_path": (Form("0.5.11", "0.5.23", "kt-weight-path", "text"),),
    "kv_cache_dtype": (
        Form("0.5.11", "0.5.15", "kv-cache-dtype", "text", "auto bf16 bfloat16 fp4_e2m1 fp8_e4m3 fp8_e5m2"),
        Form(
            "0.5.16",
            "0.5.20",
            "kv-cache-dtype",
            "text",
            "auto bf16 bfloat16 fp4_e2m1 fp4_mx_block16 fp8_e4m3 fp8_e5m2 mxfp8 nvfp4",
        ),
        Form(
            "0.5.21",
            "0.5.23",
            "kv-cache-dtype",
            "text",
            "auto bf16 bfloat16 fp4_mx_block16 fp8_e4m3 fp8_e5m2 mxfp8 nvfp4",
        ),
    ),
    "kv_canary": (Form("0.5.13", "0.5.23", "kv-canary", "text", "log none raise"),),
    "kv_canary_real_data": (Form("0.5.13", "0.5.23", "kv-canary-real-data", "text", "all none partial"),),
    "kv_canary_sweep_interval": (Form("0.5.13", "0.5.23", "kv-canary-sweep-interval", "int"),),
    "kv_events_config": (Form("0.5.11", "0.5.23", "kv-events-config", "text"),),
    "language_model_only": (Form("0.5.18", "0.5.23", "language-model-only", "flag"),),
    "language_only": (Form("0.5.11", "0.5.23", "language-only", "flag"),),
    "limit_mm_data_per_request": (Form("0.5.11", "0.5.23", "limit-mm-data-per-request", "json"),),
    "linear_attn_backend": (
        Form("0.5.11", "0.5.14", "linear-attn-backend", "text", "cutedsl flashinfer triton"),
        Form("0.5.15", "0.5.16", "linear-attn-backend", "text", "cutedsl flashinfer flashkda triton"),
        Form(
            "0.5.17", "0.5.17", "linear-attn-backend", "text", "cutedsl flashinfer flashkda nvidia_kda ptx_kda triton"
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "linear-attn-backend",
            "text",
            "cutedsl flashinfer flashkda helion nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.19",
            "0.5.23",
            "linear-attn-backend",
            "text",
            "cutedsl flashinfer flashkda helion intel_xpu nvidia_kda ptx_kda triton",
        ),
    ),
    "linear_attn_decode_backend": (
        Form("0.5.11", "0.5.14", "linear-attn-decode-backend", "text", "cutedsl flashinfer triton"),
        Form("0.5.15", "0.5.16", "linear-attn-decode-backend", "text", "cutedsl flashinfer flashkda triton"),
        Form(
            "0.5.17",
            "0.5.17",
            "linear-attn-decode-backend",
            "text",
            "cutedsl flashinfer flashkda nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "linear-attn-decode-backend",
            "text",
            "cutedsl flashinfer flashkda helion nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.19",
            "0.5.23",
            "linear-attn-decode-backend",
            "text",
            "cutedsl flashinfer flashkda helion intel_xpu nvidia_kda ptx_kda triton",
        ),
    ),
    "linear_attn_prefill_backend": (
        Form("0.5.11", "0.5.14", "linear-attn-prefill-backend", "text", "cutedsl flashinfer triton"),
        Form("0.5.15", "0.5.16", "linear-attn-prefill-backend", "text", "cutedsl flashinfer flashkda triton"),
        Form(
            "0.5.17",
            "0.5.17",
            "linear-attn-prefill-backend",
            "text",
            "cutedsl flashinfer flashkda nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "linear-attn-prefill-backend",
            "text",
            "cutedsl flashinfer flashkda helion nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.19",
            "0.5.23",
            "linear-attn-prefill-backend",
            "text",
            "cutedsl flashinfer flashkda helion intel_xpu nvidia_kda ptx_kda triton",
        ),
    ),
    "linear_attn_verify_backend": (
        Form(
            "0.5.17",
            "0.5.17",
            "linear-attn-verify-backend",
            "text",
            "cutedsl flashinfer flashkda nv_cutedsl nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "linear-attn-verify-backend",
            "text",
            "cutedsl flashinfer flashkda helion nv_cutedsl nvidia_kda ptx_kda triton",
        ),
        Form(
            "0.5.19",
            "0.5.23",
            "linear-attn-verify-backend",
            "text",
            "cutedsl flashinfer flashkda helion intel_xpu nv_cutedsl nvidia_kda ptx_kda triton",
        ),
    ),
    "linear_replayssm_cache_len": (Form("0.5.15", "0.5.23", "linear-replayssm-cache-len", "int"),),
    "lmcache_config_file": (Form("0.5.13", "0.5.23", "lmcache-config-file", "text"),),
    "load_balance_method": (
        Form(
            "0.5.11",
            "0.5.23",
            "load-balance-method",
            "text",
            "auto follow_bootstrap_room round_robin total_requests total_tokens",
        ),
    ),
    "load_format": (
        Form(
            "0.5.11",
            "0.5.16",
            "load-format",
            "text",
            "auto bitsandbytes dummy fastsafetensors flash_rl gguf layered mistral npcache private pt "
            "remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "load-format",
            "text",
            "auto bitsandbytes dummy fastsafetensors flash_rl gguf layered mistral npcache presharded "
            "private pt remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.19",
            "0.5.21",
            "load-format",
            "text",
            "auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf layered mistral npcache "
            "presharded private pt remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "load-format",
            "text",
            "auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf instanttensor layered "
            "mistral npcache presharded private pt remote remote_instance runai_streamer safetensors "
            "sharded_state",
        ),
    ),
    "load_publish_endpoint": (Form("0.5.19", "0.5.23", "load-publish-endpoint", "text"),),
    "load_snapshot_publish_interval": (Form("0.5.13", "0.5.23", "load-snapshot-publish-interval", "int"),),
    "log_level": (Form("0.5.11", "0.5.23", "log-level", "text"),),
    "log_level_http": (Form("0.5.11", "0.5.23", "log-level-http", "text"),),
    "log_requests": (Form("0.5.11", "0.5.23", "log-requests", "flag"),),
    "log_requests_format": (Form("0.5.11", "0.5.23", "log-requests-format", "text", "json text"),),
    "log_requests_level": (Form("0.5.11", "0.5.23", "log-requests-level", "int", "0 1 2 3"),),
    "log_requests_target": (Form("0.5.11", "0.5.23", "log-requests-target", "texts"),),
    "lora_backend": (
        Form("0.5.11", "0.5.22", "lora-backend", "text", "ascend csgmv torch_native triton"),
        Form("0.5.23", "0.5.23", "lora-backend", "text", "ascend csgmv torch_native triton triton_v2"),
    ),
    "lora_drain_wait_threshold": (Form("0.5.12", "0.5.23", "lora-drain-wait-threshold", "float"),),
    "lora_eviction_policy": (Form("0.5.11", "0.5.23", "lora-eviction-policy", "text", "fifo lru"),),
    "lora_paths": (Form("0.5.11", "0.5.23", "lora-paths", "lora", "", False),),
    "lora_strict_loading": (Form("0.5.11", "0.5.23", "lora-strict-loading", "switch", "", False),),
    "lora_target_modules": (
        Form(
            "0.5.11",
            "0.5.11",
            "lora-target-modules",
            "texts",
            "all down_proj embed_tokens gate_proj gate_up_proj k_proj lm_head o_proj q_proj qkv_proj up_proj v_proj",
        ),
        Form(
            "0.5.12",
            "0.5.13",
            "lora-target-modules",
            "texts",
            "all down_proj embed_tokens gate_proj gate_up_proj k_proj kv_a_proj_with_mqa kv_b_proj "
            "lm_head o_proj q_a_proj q_b_proj q_proj qkv_proj up_proj v_proj",
        ),
        Form(
            "0.5.14",
            "0.5.15",
            "lora-target-modules",
            "texts",
            "all down_proj embed_tokens gate_proj gate_up_proj k_proj kv_a_proj_with_mqa kv_b_proj "
            "lm_head o_proj q_a_proj q_b_proj q_proj qkv_proj up_proj v_proj weights_proj wk wq_b",
        ),
        Form(
            "0.5.16",
            "0.5.23",
            "lora-target-modules",
            "texts",
            "all down_proj embed_tokens gate_proj gate_up_proj k_proj kv_a_proj_with_mqa kv_b_proj "
            "lm_head o_proj q_a_proj q_b_proj q_proj qkv_proj qkvr up_proj v_proj weights_proj wk wo_ud "
            "wq_b",
        ),
    ),
    "lora_use_virtual_experts": (Form("0.5.11", "0.5.23", "lora-use-virtual-experts", "flag"),),
    "mamba_backend": (Form("0.5.11", "0.5.23", "mamba-backend", "text", "flashinfer triton"),),
    "mamba_cache_philox_rounds": (Form("0.5.15", "0.5.23", "mamba-cache-philox-rounds", "int"),),
    "mamba_full_memory_ratio": (Form("0.5.11", "0.5.23", "mamba-full-memory-ratio", "float"),),
    "mamba_max_states_per_path": (Form("0.5.17", "0.5.23", "mamba-max-states-per-path", "int"),),
    "mamba_radix_cache_strategy": (
        Form("0.5.11", "0.5.12", "mamba-scheduler-strategy", "text", "auto extra_buffer no_buffer"),
        Form("0.5.13", "0.5.13", "mamba-scheduler-strategy", "text", "auto extra_buffer extra_buffer_lazy no_buffer"),
        Form(
            "0.5.14",
            "0.5.19",
            "mamba-radix-cache-strategy",
            "text",
            "auto extra_buffer extra_buffer_lazy no_buffer",
            False,
        ),
        Form("0.5.20", "0.5.23", "mamba-radix-cache-strategy", "text", "auto extra_buffer extra_buffer_lazy no_buffer"),
    ),
    "mamba_ssm_dtype": (Form("0.5.11", "0.5.23", "mamba-ssm-dtype", "text", "bfloat16 float16 float32"),),
    "mamba_track_interval": (Form("0.5.11", "0.5.23", "mamba-track-interval", "int"),),
    "max_ep_size": (Form("0.5.16", "0.5.23", "max-ep-size", "int"),),
    "max_loaded_loras": (Form("0.5.11", "0.5.23", "max-loaded-loras", "int"),),
    "max_lora_chunk_size": (Form("0.5.11", "0.5.23", "max-lora-chunk-size", "int", "16 32 64 128"),),
    "max_lora_rank": (Form("0.5.11", "0.5.23", "max-lora-rank", "int"),),
    "max_loras_per_batch": (Form("0.5.11", "0.5.23", "max-loras-per-batch", "int"),),
    "max_mamba_cache_size": (Form("0.5.11", "0.5.23", "max-mamba-cache-size", "int"),),
    "max_prefill_tokens": (Form("0.5.11", "0.5.23", "max-prefill-tokens", "size"),),
    "max_queued_requests": (Form("0.5.11", "0.5.23", "max-queued-requests", "int"),),
    "max_running_requests": (Form("0.5.11", "0.5.23", "max-running-requests", "int"),),
    "max_total_tokens": (Form("0.5.11", "0.5.23", "max-total-tokens", "size"),),
    "media_url_max_file_size_mb": (Form("0.5.18", "0.5.23", "media-url-max-file-size-mb", "int"),),
    "mem_fraction_static": (Form("0.5.11", "0.5.23", "mem-fraction-static", "float"),),
    "min_free_slots_delay": (Form("0.5.15", "0.5.23", "min-free-slots-delay", "int"),),
    "mlx_enable_sampling": (Form("0.5.18", "0.5.23", "mlx-enable-sampling", "flag"),),
    "mm_attention_backend": (
        Form(
            "0.5.11",
            "0.5.12",
            "mm-attention-backend",
            "text",
            "aiter_attn ascend_attn fa3 fa4 flashinfer_cudnn sdpa triton_attn",
        ),
        Form(
            "0.5.13",
            "0.5.23",
            "mm-attention-backend",
            "text",
            "aiter_attn amx_attn ascend_attn fa3 fa4 flashinfer_cudnn sdpa triton_attn xpu_attn",
        ),
    ),
    "mm_enable_dp_encoder": (
        Form("0.5.11", "0.5.22", "mm-enable-dp-encoder", "flag"),
        Form("0.5.23", "0.5.23", "mm-enable-dp-encoder", "switch", "", False),
    ),
    "mm_feature_transport": (
        Form("0.5.16", "0.5.17", "mm-feature-transport", "text", "cpu cuda_ipc"),
        Form("0.5.18", "0.5.23", "mm-feature-transport", "text", "cpu cuda_ipc cuda_vmm"),
    ),
    "mm_global_cache_backend": (Form("0.5.18", "0.5.23", "mm-global-cache-backend", "text", "mooncake"),),
    "mm_io_worker_num": (Form("0.5.17", "0.5.23", "mm-io-worker-num", "int"),),
    "mm_preprocess_cache_size_mb": (Form("0.5.18", "0.5.23", "mm-preprocess-cache-size-mb", "int"),),
    "mm_process_config": (Form("0.5.11", "0.5.23", "mm-process-config", "json"),),
    "mm_processor_worker_num": (Form("0.5.17", "0.5.23", "mm-processor-worker-num", "int"),),
    "model_checksum": (Form("0.5.11", "0.5.23", "model-checksum", "text"),),
    "model_config_parser": (Form("0.5.12", "0.5.23", "model-config-parser", "text"),),
    "model_impl": (Form("0.5.11", "0.5.23", "model-impl", "text"),),
    "model_loader_extra_config": (Form("0.5.11", "0.5.23", "model-loader-extra-config", "text"),),
    "model_path": (Form("0.5.11", "0.5.23", "model-path", "text"),),
    "modelexpress_config": (Form("0.5.11", "0.5.23", "modelexpress-config", "text"),),
    "modelopt_checkpoint_restore_path": (Form("0.5.11", "0.5.23", "modelopt-checkpoint-restore-path", "text"),),
    "modelopt_checkpoint_save_path": (Form("0.5.11", "0.5.23", "modelopt-checkpoint-save-path", "text"),),
    "modelopt_export_path": (Form("0.5.11", "0.5.23", "modelopt-export-path", "text"),),
    "modelopt_quant": (Form("0.5.11", "0.5.23", "modelopt-quant", "text"),),
    "moe_a2a_backend": (
        Form("0.5.11", "0.5.11", "moe-a2a-backend", "text", "ascend_fuseep deepep flashinfer mooncake mori nixl none"),
        Form(
            "0.5.12",
            "0.5.15",
            "moe-a2a-backend",
            "text",
            "ascend_fuseep deepep flashinfer megamoe mooncake mori nixl none",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep flashinfer megamoe mooncake mori nixl none",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep flashinfer megamoe mooncake mori nixl none pplx",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep deepep_v2 flashinfer megamoe mooncake mori nixl none pplx",
        ),
        Form(
            "0.5.20",
            "0.5.23",
            "moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep deepep_v2 flashinfer flashinfer_megamoe megamoe mooncake "
            "mori nixl none pplx",
        ),
    ),
    "moe_dense_tp_size": (Form("0.5.11", "0.5.23", "moe-dense-tp-size", "int"),),
    "moe_dp_size": (Form("0.5.11", "0.5.23", "moe-dp-size", "int"),),
    "moe_runner_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed triton triton_kernel",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed marlin triton triton_kernel",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_trtllm flashinfer_cutedsl flashinfer_cutlass "
            "flashinfer_mxfp4 flashinfer_trtllm flashinfer_trtllm_routed marlin triton triton_kernel",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed humming marlin triton triton_kernel",
        ),
        Form(
            "0.5.17",
            "0.5.17",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming marlin triton triton_kernel",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming marlin megamoe triton triton_kernel",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming intel_xpu marlin megamoe triton triton_kernel",
        ),
        Form(
            "0.5.20",
            "0.5.22",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed hpc_ops humming intel_xpu marlin megamoe triton "
            "triton_kernel",
        ),
        Form(
            "0.5.23",
            "0.5.23",
            "moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed hpc_ops humming intel_xpu lora_cutedsl "
            "lora_marlin lora_triton marlin megamoe triton triton_kernel",
        ),
    ),
    "mooncake_ib_device": (Form("0.5.11", "0.5.23", "mooncake-ib-device", "text"),),
    "msprobe_dump_config": (Form("0.5.11", "0.5.23", "msprobe-dump-config", "text"),),
    "nccl_port": (Form("0.5.11", "0.5.23", "nccl-port", "int"),),
    "nnodes": (Form("0.5.11", "0.5.23", "nnodes", "int"),),
    "node_rank": (Form("0.5.11", "0.5.23", "node-rank", "int"),),
    "num_continuous_decode_steps": (Form("0.5.11", "0.5.23", "num-continuous-decode-steps", "int"),),
    "num_reserved_decode_tokens": (Form("0.5.11", "0.5.23", "num-reserved-decode-tokens", "int"),),
    "numa_node": (Form("0.5.11", "0.5.23", "numa-node", "ints"),),
    "offload_group_size": (Form("0.5.11", "0.5.23", "offload-group-size", "int"),),
    "offload_mode": (Form("0.5.11", "0.5.23", "offload-mode", "text"),),
    "offload_num_in_group": (Form("0.5.11", "0.5.23", "offload-num-in-group", "int"),),
    "offload_prefetch_step": (Form("0.5.11", "0.5.23", "offload-prefetch-step", "int"),),
    "optimistic_prefill_attempts": (Form("0.5.16", "0.5.23", "optimistic-prefill-attempts", "int"),),
    "optimistic_prefill_retries": (Form("0.5.13", "0.5.15", "optimistic-prefill-retries", "int"),),
    "otlp_service_name": (Form("0.5.21", "0.5.23", "otlp-service-name", "text"),),
    "otlp_traces_endpoint": (Form("0.5.11", "0.5.23", "otlp-traces-endpoint", "text"),),
    "page_size": (Form("0.5.11", "0.5.23", "page-size", "int"),),
    "paged_experts_num_resident": (Form("0.5.23", "0.5.23", "paged-experts-num-resident", "int"),),
    "pdmux_config_path": (Form("0.5.11", "0.5.23", "pdmux-config-path", "text"),),
    "ple_offload_backend": (Form("0.5.20", "0.5.23", "ple-offload-backend", "text", "file pinned"),),
    "ple_offload_dir": (Form("0.5.20", "0.5.23", "ple-offload-dir", "text"),),
    "ple_offload_embedding": (Form("0.5.20", "0.5.23", "ple-offload-embedding", "switch", "", False),),
    "port": (Form("0.5.11", "0.5.23", "port", "int"),),
    "pp_async_batch_depth": (Form("0.5.11", "0.5.23", "pp-async-batch-depth", "int"),),
    "pp_max_micro_batch_size": (Form("0.5.11", "0.5.23", "pp-max-micro-batch-size", "int"),),
    "pp_size": (Form("0.5.11", "0.5.23", "pp-size", "int"),),
    "pre_warm_nccl": (Form("0.5.11", "0.5.23", "pre-warm-nccl", "flag"),),
    "preferred_sampling_params": (Form("0.5.11", "0.5.23", "preferred-sampling-params", "json"),),
    "prefill_attention_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "prefill-attention-backend",
            "text",
            "aiter ascend cutlass_mla dual_chunk_flash_attn fa3 fa4 flashinfer flashmla flex_attention "
            "intel_amx intel_xpu nsa torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutlass_mla dsv4 dual_chunk_flash_attn fa3 fa4 flashinfer flashmla "
            "flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native triton trtllm_mha "
            "trtllm_mla wave",
        ),
        Form(
            "0.5.13",
            "0.5.16",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention intel_amx intel_xpu nsa tokenspeed_mla torch_native "
            "triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu nsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 "
            "flashinfer flashmla flex_attention hpc_ops intel_amx intel_xpu minicpm_flashattn "
            "minicpm_flashinfer nsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.20",
            "0.5.21",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu minicpm_flashattn minicpm_flashinfer nsa qsa tokenspeed_mla "
            "torch_native triton trtllm_mha trtllm_mla wave",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "prefill-attention-backend",
            "text",
            "aiter ascend compressed cutedsl_mla dsa dsv4 fa3 fa4 flashinfer flashmla flex_attention "
            "hpc_ops intel_amx intel_xpu llada2_cfg_flashinfer minicpm_flashattn minicpm_flashinfer nsa "
            "qsa tokenspeed_mla torch_native triton trtllm_mha trtllm_mla wave",
        ),
    ),
    "prefill_cp_mode": (
        Form("0.5.11", "0.5.13", "prefill-cp-mode", "text", "in-seq-split"),
        Form("0.5.14", "0.5.19", "prefill-cp-mode", "text", "in-seq-split", False),
    ),
    "prefill_decode_interval": (Form("0.5.19", "0.5.23", "prefill-decode-interval", "int"),),
    "prefill_decode_interval_min_bs": (Form("0.5.23", "0.5.23", "prefill-decode-interval-min-bs", "int"),),
    "prefill_delayer_forward_passes_buckets": (
        Form("0.5.11", "0.5.23", "prefill-delayer-forward-passes-buckets", "floats"),
    ),
    "prefill_delayer_max_delay_ms": (Form("0.5.12", "0.5.23", "prefill-delayer-max-delay-ms", "float"),),
    "prefill_delayer_max_delay_passes": (Form("0.5.11", "0.5.23", "prefill-delayer-max-delay-passes", "int"),),
    "prefill_delayer_queue_min_ratio": (Form("0.5.12", "0.5.23", "prefill-delayer-queue-min-ratio", "float"),),
    "prefill_delayer_token_usage_low_watermark": (
        Form("0.5.11", "0.5.23", "prefill-delayer-token-usage-low-watermark", "float"),
    ),
    "prefill_delayer_wait_seconds_buckets": (
        Form("0.5.11", "0.5.23", "prefill-delayer-wait-seconds-buckets", "floats"),
    ),
    "prefill_kv_cache_dequant_dtype": (
        Form("0.5.21", "0.5.23", "prefill-kv-cache-dequant-dtype", "text", "auto fp8_e4m3 nvfp4"),
    ),
    "prefill_max_requests": (Form("0.5.11", "0.5.23", "prefill-max-requests", "int"),),
    "prefill_only_disable_kv_cache": (Form("0.5.12", "0.5.23", "prefill-only-disable-kv-cache", "flag"),),
    "priority_scheduling_preemption_threshold": (
        Form("0.5.11", "0.5.23", "priority-scheduling-preemption-threshold", "int"),
    ),
    "prompt_tokens_buckets": (Form("0.5.11", "0.5.23", "prompt-tokens-buckets", "texts"),),
    "qsa_indexer_dtype": (Form("0.5.22", "0.5.23", "qsa-indexer-dtype", "text", "auto bfloat16 fp8_e4m3"),),
    "quantization": (
        Form(
            "0.5.11",
            "0.5.11",
            "quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 mxfp8 "
            "petit_nvfp4 qoq quark_int4fp8_moe unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 petit_nvfp4 qoq quark quark_int4fp8_moe unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.13",
            "0.5.13",
            "quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 petit_nvfp4 qoq quark quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 "
            "w8a8_int8",
        ),
        Form(
            "0.5.14",
            "0.5.14",
            "quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 nvfp4_online petit_nvfp4 qoq quark quark_int4fp8_moe quark_mxfp4 unquant w4afp8 "
            "w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.15",
            "0.5.15",
            "quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin marlin mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 qoq quark "
            "quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.16",
            "0.5.19",
            "quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin humming marlin mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 quark quark_int4fp8_moe "
            "quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.20",
            "0.5.23",
            "quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin humming mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 quark quark_int4fp8_moe "
            "quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
    ),
    "quantization_param_path": (Form("0.5.11", "0.5.23", "quantization-param-path", "text"),),
    "quantize_and_serve": (Form("0.5.11", "0.5.23", "quantize-and-serve", "flag"),),
    "radix_cache_backend": (Form("0.5.13", "0.5.23", "radix-cache-backend", "text"),),
    "radix_eviction_policy": (
        Form("0.5.11", "0.5.20", "radix-eviction-policy", "text", "lfu lru priority slru"),
        Form("0.5.21", "0.5.23", "radix-eviction-policy", "text", "lfu lru priority slru tlru"),
    ),
    "radix_eviction_policy_config": (Form("0.5.20", "0.5.23", "radix-eviction-policy-config", "json"),),
    "random_seed": (Form("0.5.11", "0.5.23", "random-seed", "int"),),
    "reasoning_parser": (
        Form(
            "0.5.11",
            "0.5.11",
            "reasoning-parser",
            "text",
            "deepseek-r1 deepseek-v3 gemma4 glm45 gpt-oss hunyuan interns1 kimi kimi_k2 mimo minimax "
            "minimax-append-think mistral nemotron_3 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "reasoning-parser",
            "text",
            "auto deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss hunyuan interns1 kimi "
            "kimi_k2 mimo minimax minimax-append-think mistral nemotron_3 poolside_v1 qwen3 "
            "qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss "
            "hunyuan interns1 kimi kimi_k2 mimo minimax minimax-append-think mistral nemotron_3 "
            "poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss "
            "hunyuan inkling interns1 kimi kimi_k2 mimo minimax minimax-append-think minimax-m3 mistral "
            "nemotron_3 poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.17",
            "0.5.17",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss "
            "hunyuan inkling interns1 kimi kimi_k2 kimi_k3 mimo minimax minimax-append-think minimax-m3 "
            "mistral nemotron_3 poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss "
            "hunyuan inkling interns1 kimi kimi_k2 kimi_k3 mimo minimax minimax-append-think minimax-m3 "
            "mistral muse nemotron_3 poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 dots gemma4 glm45 "
            "gpt-oss hunyuan inkling interns1 kimi kimi_k2 kimi_k3 ling3 mimo minimax "
            "minimax-append-think minimax-m3 mistral muse nemotron_3 poolside_v1 qwen3 qwen3-thinking "
            "step3 step3p5",
        ),
        Form(
            "0.5.20",
            "0.5.20",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 dots gemma4 glm45 "
            "gpt-oss granite_thinking_parser hunyuan inkling interns1 k2_horizon kimi kimi_k2 kimi_k3 "
            "ling3 mimo minimax minimax-append-think minimax-m3 mistral muse nanbeige nemotron_3 "
            "poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.21",
            "0.5.22",
            "reasoning-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 dots "
            "gemma4 gigachat35 glm45 gpt-oss granite_thinking_parser hunyuan inkling interns1 iquest_q1 "
            "k2_horizon kimi kimi_k2 kimi_k3 ling3 mimo minimax minimax-append-think minimax-m3 mistral "
            "muse nanbeige nemotron_3 poolside_v1 qwen3 qwen3-thinking step3 step3p5",
        ),
        Form(
            "0.5.23",
            "0.5.23",
            "reasoning-parser",
            "text",
            "apertus2509 auto beam cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 "
            "dots gemma4 gigachat35 glm45 gpt-oss granite_thinking_parser hunyuan inkling interns1 "
            "iquest_q1 k2_horizon kimi kimi_k2 kimi_k3 ling3 mimo minimax minimax-append-think "
            "minimax-m3 mistral muse nanbeige nemotron_3 poolside_v1 qwen3 qwen3-thinking "
            "response_template step3 step3p5",
        ),
    ),
    "record_nolora_graph": (Form("0.5.11", "0.5.12", "record-nolora-graph", "switch", "", False),),
    "remote_instance_weight_loader_backend": (
        Form("0.5.11", "0.5.23", "remote-instance-weight-loader-backend", "text", "modelexpress nccl transfer_engine"),
    ),
    "remote_instance_weight_loader_seed_instance_ip": (
        Form("0.5.11", "0.5.23", "remote-instance-weight-loader-seed-instance-ip", "text"),
    ),
    "remote_instance_weight_loader_seed_instance_service_port": (
        Form("0.5.11", "0.5.23", "remote-instance-weight-loader-seed-instance-service-port", "int"),
    ),
    "remote_instance_weight_loader_send_weights_group_ports": (
        Form("0.5.11", "0.5.23", "remote-instance-weight-loader-send-weights-group-ports", "json_list"),
    ),
    "remote_instance_weight_loader_start_seed_via_transfer_engine": (
        Form("0.5.11", "0.5.23", "remote-instance-weight-loader-start-seed-via-transfer-engine", "flag"),
    ),
    "retraction_policy": (Form("0.5.16", "0.5.23", "retraction-policy", "text", "length priority"),),
    "return_aux_hidden_state_layer_ids": (Form("0.5.23", "0.5.23", "return-aux-hidden-state-layer-ids", "ints"),),
    "return_hidden_states_mode": (Form("0.5.17", "0.5.23", "return-hidden-states-mode", "text", "full last"),),
    "return_input_ids": (Form("0.5.20", "0.5.23", "return-input-ids", "flag"),),
    "return_output_ids": (Form("0.5.20", "0.5.23", "return-output-ids", "flag"),),
    "revision": (Form("0.5.11", "0.5.23", "revision", "text"),),
    "rl_on_policy_target": (Form("0.5.11", "0.5.23", "rl-on-policy-target", "text", "fsdp"),),
    "rl_quant_profile": (Form("0.5.11", "0.5.23", "rl-quant-profile", "text"),),
    "sampling_backend": (
        Form("0.5.11", "0.5.20", "sampling-backend", "text", "ascend flashinfer pytorch"),
        Form("0.5.21", "0.5.23", "sampling-backend", "text", "ascend flashinfer intel_xpu pytorch"),
    ),
    "sampling_defaults": (Form("0.5.11", "0.5.23", "sampling-defaults", "text", "model openai"),),
    "sampling_mask_max_tokens": (Form("0.5.20", "0.5.23", "sampling-mask-max-tokens", "int"),),
    "schedule_conservativeness": (Form("0.5.11", "0.5.23", "schedule-conservativeness", "float"),),
    "schedule_low_priority_values_first": (Form("0.5.11", "0.5.23", "schedule-low-priority-values-first", "flag"),),
    "schedule_policy": (
        Form("0.5.11", "0.5.19", "schedule-policy", "text", "dfs-weight fcfs lof lpm priority random routing-key"),
        Form("0.5.20", "0.5.20", "schedule-policy", "text", "dfs-weight fcfs hrrn lof lpm priority random routing-key"),
        Form(
            "0.5.21",
            "0.5.23",
            "schedule-policy",
            "text",
            "dfs-weight fcfs hrrn lof lpm priority random routing-key shortest-prefill-first",
        ),
    ),
    "scheduler_recv_interval": (Form("0.5.11", "0.5.23", "scheduler-recv-interval", "int"),),
    "served_model_name": (Form("0.5.11", "0.5.23", "served-model-name", "text"),),
    "shared_experts_tp_size": (Form("0.5.21", "0.5.23", "shared-experts-tp-size", "int"),),
    "show_time_cost": (Form("0.5.11", "0.5.23", "show-time-cost", "flag"),),
    "sidecar": (Form("0.5.16", "0.5.23", "sidecar", "text"),),
    "sidecar_args": (Form("0.5.16", "0.5.23", "sidecar-args", "json_list"),),
    "skip_server_warmup": (Form("0.5.11", "0.5.23", "skip-server-warmup", "flag"),),
    "skip_tokenizer_init": (Form("0.5.11", "0.5.23", "skip-tokenizer-init", "flag"),),
    "sleep_on_idle": (Form("0.5.11", "0.5.23", "sleep-on-idle", "flag"),),
    "sm_group_num": (Form("0.5.11", "0.5.23", "sm-group-num", "int"),),
    "smg_grpc_mode": (Form("0.5.16", "0.5.23", "smg-grpc-mode", "flag"),),
    "smg_http_sidecar_port": (
        Form("0.5.11", "0.5.15", "grpc-http-sidecar-port", "int"),
        Form("0.5.16", "0.5.23", "smg-http-sidecar-port", "int"),
    ),
    "soft_watchdog_timeout": (Form("0.5.11", "0.5.23", "soft-watchdog-timeout", "float"),),
    "spec_trace_dir": (Form("0.5.15", "0.5.23", "spec-trace-dir", "text"),),
    "speculative_accept_threshold_acc": (Form("0.5.11", "0.5.23", "speculative-accept-threshold-acc", "float"),),
    "speculative_accept_threshold_single": (Form("0.5.11", "0.5.23", "speculative-accept-threshold-single", "float"),),
    "speculative_adaptive": (Form("0.5.11", "0.5.23", "speculative-adaptive", "flag"),),
    "speculative_adaptive_config": (Form("0.5.11", "0.5.23", "speculative-adaptive-config", "text"),),
    "speculative_algorithm": (
        Form("0.5.11", "0.5.11", "speculative-algorithm", "text", "DFLASH EAGLE EAGLE3 NEXTN NGRAM STANDALONE"),
        Form("0.5.12", "0.5.23", "speculative-algorithm", "text"),
    ),
    "speculative_attention_mode": (Form("0.5.11", "0.5.23", "speculative-attention-mode", "text", "decode prefill"),),
    "speculative_dflash_block_size": (Form("0.5.11", "0.5.23", "speculative-dflash-block-size", "int"),),
    "speculative_domino_candidate_pool_size": (
        Form("0.5.20", "0.5.23", "speculative-domino-candidate-pool-size", "int"),
    ),
    "speculative_draft_attention_backend": (Form("0.5.11", "0.5.23", "speculative-draft-attention-backend", "text"),),
    "speculative_draft_kv_cache_dtype": (
        Form("0.5.18", "0.5.23", "speculative-draft-kv-cache-dtype", "text", "auto bf16 bfloat16 fp8_e4m3 fp8_e5m2"),
    ),
    "speculative_draft_load_format": (
        Form(
            "0.5.11",
            "0.5.16",
            "speculative-draft-load-format",
            "text",
            "auto bitsandbytes dummy fastsafetensors flash_rl gguf layered mistral npcache private pt "
            "remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "speculative-draft-load-format",
            "text",
            "auto bitsandbytes dummy fastsafetensors flash_rl gguf layered mistral npcache presharded "
            "private pt remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.19",
            "0.5.21",
            "speculative-draft-load-format",
            "text",
            "auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf layered mistral npcache "
            "presharded private pt remote remote_instance runai_streamer safetensors sharded_state",
        ),
        Form(
            "0.5.22",
            "0.5.23",
            "speculative-draft-load-format",
            "text",
            "auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf instanttensor layered "
            "mistral npcache presharded private pt remote remote_instance runai_streamer safetensors "
            "sharded_state",
        ),
    ),
    "speculative_draft_model_path": (Form("0.5.11", "0.5.23", "speculative-draft-model-path", "text"),),
    "speculative_draft_model_quantization": (
        Form(
            "0.5.11",
            "0.5.11",
            "speculative-draft-model-quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 mxfp8 "
            "petit_nvfp4 qoq quark_int4fp8_moe unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "speculative-draft-model-quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 petit_nvfp4 qoq quark quark_int4fp8_moe unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.13",
            "0.5.13",
            "speculative-draft-model-quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 petit_nvfp4 qoq quark quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 "
            "w8a8_int8",
        ),
        Form(
            "0.5.14",
            "0.5.14",
            "speculative-draft-model-quantization",
            "text",
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin marlin "
            "mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 "
            "mxfp8 nvfp4_online petit_nvfp4 qoq quark quark_int4fp8_moe quark_mxfp4 unquant w4afp8 "
            "w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.15",
            "0.5.15",
            "speculative-draft-model-quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin marlin mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 qoq quark "
            "quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.16",
            "0.5.19",
            "speculative-draft-model-quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin humming marlin mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 quark quark_int4fp8_moe "
            "quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
        Form(
            "0.5.20",
            "0.5.23",
            "speculative-draft-model-quantization",
            "text",
            "auto-round auto-round-int8 awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq "
            "gptq_marlin humming mlx_q4 mlx_q8 modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed "
            "modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 quark quark_int4fp8_moe "
            "quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8",
        ),
    ),
    "speculative_draft_model_revision": (Form("0.5.11", "0.5.23", "speculative-draft-model-revision", "text"),),
    "speculative_draft_sink_size": (Form("0.5.21", "0.5.23", "speculative-draft-sink-size", "int"),),
    "speculative_draft_window_size": (
        Form("0.5.11", "0.5.11", "speculative-dflash-draft-window-size", "int"),
        Form("0.5.12", "0.5.12", "speculative-draft-window-size", "int"),
        Form("0.5.13", "0.5.19", "speculative-draft-window-size", "int", "", False),
        Form("0.5.20", "0.5.23", "speculative-draft-window-size", "int"),
    ),
    "speculative_dsa_topk_backend": (
        Form("0.5.19", "0.5.23", "speculative-dsa-topk-backend", "text", "flashinfer sgl-kernel torch"),
    ),
    "speculative_dspark_align_verify_tokens_to_graph_tier": (
        Form("0.5.16", "0.5.23", "speculative-dspark-align-verify-tokens-to-graph-tier", "flag"),
    ),
    "speculative_dspark_block_size": (Form("0.5.16", "0.5.23", "speculative-dspark-block-size", "int"),),
    "speculative_dspark_confidence_sts_path": (
        Form("0.5.16", "0.5.23", "speculative-dspark-confidence-sts-path", "text"),
    ),
    "speculative_dspark_sps_table_path": (Form("0.5.16", "0.5.23", "speculative-dspark-sps-table-path", "text"),),
    "speculative_eagle_topk": (Form("0.5.11", "0.5.23", "speculative-eagle-topk", "int"),),
    "speculative_enable_w4a4_mxfp4_megamoe": (
        Form("0.5.22", "0.5.23", "speculative-enable-w4a4-mxfp4-megamoe", "switch", "", False),
    ),
    "speculative_moe_a2a_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "speculative-moe-a2a-backend",
            "text",
            "ascend_fuseep deepep flashinfer mooncake mori nixl none",
        ),
        Form(
            "0.5.12",
            "0.5.15",
            "speculative-moe-a2a-backend",
            "text",
            "ascend_fuseep deepep flashinfer megamoe mooncake mori nixl none",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "speculative-moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep flashinfer megamoe mooncake mori nixl none",
        ),
        Form(
            "0.5.17",
            "0.5.18",
            "speculative-moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep flashinfer megamoe mooncake mori nixl none pplx",
        ),
        Form(
            "0.5.19",
            "0.5.23",
            "speculative-moe-a2a-backend",
            "text",
            "ascend_fuseep ascend_tp deepep deepep_v2 flashinfer megamoe mooncake mori nixl none pplx",
        ),
    ),
    "speculative_moe_runner_backend": (
        Form(
            "0.5.11",
            "0.5.11",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed triton triton_kernel",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed marlin triton triton_kernel",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_trtllm flashinfer_cutedsl flashinfer_cutlass "
            "flashinfer_mxfp4 flashinfer_trtllm flashinfer_trtllm_routed marlin triton triton_kernel",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed humming marlin triton triton_kernel",
        ),
        Form(
            "0.5.17",
            "0.5.17",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming marlin triton triton_kernel",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming marlin megamoe triton triton_kernel",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
            "flashinfer_trtllm_routed hpc_ops humming intel_xpu marlin megamoe triton triton_kernel",
        ),
        Form(
            "0.5.20",
            "0.5.22",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed hpc_ops humming intel_xpu marlin megamoe triton "
            "triton_kernel",
        ),
        Form(
            "0.5.23",
            "0.5.23",
            "speculative-moe-runner-backend",
            "text",
            "aiter auto cutlass deep_gemm experimental_sgl_marlin experimental_sgl_trtllm "
            "flashinfer_cutedsl flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4 "
            "flashinfer_trtllm flashinfer_trtllm_routed hpc_ops humming intel_xpu lora_cutedsl "
            "lora_marlin lora_triton marlin megamoe triton triton_kernel",
        ),
    ),
    "speculative_ngram_capacity": (Form("0.5.11", "0.5.23", "speculative-ngram-capacity", "int"),),
    "speculative_ngram_external_corpus_max_tokens": (
        Form("0.5.11", "0.5.23", "speculative-ngram-external-corpus-max-tokens", "int"),
    ),
    "speculative_ngram_external_corpus_path": (
        Form("0.5.11", "0.5.23", "speculative-ngram-external-corpus-path", "text"),
    ),
    "speculative_ngram_external_sam_budget": (
        Form("0.5.11", "0.5.23", "speculative-ngram-external-sam-budget", "int"),
    ),
    "speculative_ngram_match_type": (Form("0.5.11", "0.5.23", "speculative-ngram-match-type", "text", "BFS PROB"),),
    "speculative_ngram_max_bfs_breadth": (Form("0.5.11", "0.5.23", "speculative-ngram-max-bfs-breadth", "int"),),
    "speculative_ngram_max_trie_depth": (Form("0.5.11", "0.5.23", "speculative-ngram-max-trie-depth", "int"),),
    "speculative_ngram_min_bfs_breadth": (Form("0.5.11", "0.5.23", "speculative-ngram-min-bfs-breadth", "int"),),
    "speculative_num_draft_tokens": (Form("0.5.11", "0.5.23", "speculative-num-draft-tokens", "int"),),
    "speculative_num_steps": (Form("0.5.11", "0.5.23", "speculative-num-steps", "int"),),
    "speculative_skip_dp_mlp_sync": (Form("0.5.11", "0.5.22", "speculative-skip-dp-mlp-sync", "flag"),),
    "speculative_token_map": (Form("0.5.11", "0.5.23", "speculative-token-map", "text"),),
    "speculative_use_block_verification": (Form("0.5.22", "0.5.23", "speculative-use-block-verification", "flag"),),
    "speculative_use_rejection_sampling": (Form("0.5.14", "0.5.23", "speculative-use-rejection-sampling", "flag"),),
    "ssl_ca_certs": (Form("0.5.11", "0.5.23", "ssl-ca-certs", "text"),),
    "ssl_certfile": (Form("0.5.11", "0.5.23", "ssl-certfile", "text"),),
    "ssl_keyfile": (Form("0.5.11", "0.5.23", "ssl-keyfile", "text"),),
    "ssl_keyfile_password": (Form("0.5.11", "0.5.23", "ssl-keyfile-password", "text"),),
    "startup_weight_load_mode": (Form("0.5.18", "0.5.23", "startup-weight-load-mode", "text", "overlap serial"),),
    "stream_interval": (Form("0.5.11", "0.5.23", "stream-interval", "int"),),
    "stream_response_default_include_usage": (
        Form("0.5.11", "0.5.23", "stream-response-default-include-usage", "flag"),
    ),
    "strip_thinking_cache": (Form("0.5.11", "0.5.23", "strip-thinking-cache", "flag"),),
    "swa_full_tokens_ratio": (Form("0.5.11", "0.5.23", "swa-full-tokens-ratio", "float"),),
    "swa_prefix_tails": (Form("0.5.21", "0.5.23", "swa-prefix-tails", "int"),),
    "tbo_token_distribution_threshold": (Form("0.5.11", "0.5.23", "tbo-token-distribution-threshold", "float"),),
    "tokenizer_backend": (Form("0.5.11", "0.5.23", "tokenizer-backend", "text", "fastokens huggingface"),),
    "tokenizer_metrics_allowed_custom_labels": (
        Form("0.5.11", "0.5.23", "tokenizer-metrics-allowed-custom-labels", "texts"),
    ),
    "tokenizer_metrics_custom_labels_header": (
        Form("0.5.11", "0.5.23", "tokenizer-metrics-custom-labels-header", "text"),
    ),
    "tokenizer_mode": (Form("0.5.11", "0.5.23", "tokenizer-mode", "text", "auto slow"),),
    "tokenizer_path": (Form("0.5.11", "0.5.23", "tokenizer-path", "text"),),
    "tokenizer_worker_num": (Form("0.5.11", "0.5.23", "tokenizer-worker-num", "int"),),
    "tool_call_parser": (
        Form(
            "0.5.11",
            "0.5.11",
            "tool-call-parser",
            "text",
            "deepseekv3 deepseekv31 deepseekv32 gemma4 gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan "
            "interns1 kimi_k2 lfm2 llama3 mimo minimax-m2 mistral pythonic qwen qwen25 qwen3_coder "
            "step3 step3p5 trinity",
        ),
        Form(
            "0.5.12",
            "0.5.12",
            "tool-call-parser",
            "text",
            "auto deepseekv3 deepseekv31 deepseekv32 deepseekv4 gemma4 gigachat3 glm glm45 glm47 "
            "gpt-oss hermes hunyuan interns1 kimi_k2 lfm2 llama3 mimo minimax-m2 mistral poolside_v1 "
            "pythonic qwen qwen25 qwen3_coder step3 step3p5 trinity",
        ),
        Form(
            "0.5.13",
            "0.5.15",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan interns1 kimi_k2 lfm2 llama3 mimo "
            "minicpm5 minimax-m2 mistral poolside_v1 pythonic qwen qwen25 qwen3_coder step3 step3p5 "
            "trinity",
        ),
        Form(
            "0.5.16",
            "0.5.16",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 kimi_k2 lfm2 llama3 mimo "
            "minicpm5 minimax-m2 minimax-m3 mistral poolside_v1 pythonic qwen qwen25 qwen3_coder step3 "
            "step3p5 trinity",
        ),
        Form(
            "0.5.17",
            "0.5.17",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 kimi_k2 kimi_k3 lfm2 "
            "llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral poolside_v1 pythonic qwen qwen25 "
            "qwen3_coder step3 step3p5 trinity",
        ),
        Form(
            "0.5.18",
            "0.5.18",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 kimi_k2 kimi_k3 lfm2 "
            "llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse poolside_v1 pythonic qwen qwen25 "
            "qwen3_coder step3 step3p5 trinity",
        ),
        Form(
            "0.5.19",
            "0.5.19",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 dots gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 kimi_k2 kimi_k3 lfm2 "
            "ling3 llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse poolside_v1 pythonic qwen "
            "qwen25 qwen3_coder spark25 step3 step3p5 trinity",
        ),
        Form(
            "0.5.20",
            "0.5.20",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 dots gemma4 "
            "gigachat3 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 k2_horizon kimi_k2 "
            "kimi_k3 lfm2 ling3 llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse nanbeige "
            "poolside_v1 pythonic qwen qwen25 qwen3_coder spark25 step3 step3p5 trinity",
        ),
        Form(
            "0.5.21",
            "0.5.22",
            "tool-call-parser",
            "text",
            "apertus2509 auto cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 "
            "dots gemma4 gigachat3 gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 "
            "iquest_q1 k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3 mimo minicpm5 minimax-m2 minimax-m3 "
            "mistral muse nanbeige poolside_v1 pythonic qwen qwen25 qwen3_coder spark25 step3 step3p5 "
            "trinity",
        ),
        Form(
            "0.5.23",
            "0.5.23",
            "tool-call-parser",
            "text",
            "apertus2509 auto beam cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 "
            "deepseekv41 dots gemma4 gigachat3 gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan "
            "inkling interns1 iquest_q1 k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3 mimo minicpm5 "
            "minimax-m2 minimax-m3 mistral muse nanbeige poolside_v1 pythonic qwen qwen25 qwen3_coder "
            "response_template spark25 step3 step3p5 trinity",
        ),
    ),
    "tool_server": (Form("0.5.11", "0.5.23", "tool-server", "text"),),
    "torch_compile_max_bs": (Form("0.5.11", "0.5.23", "torch-compile-max-bs", "int"),),
    "torchao_config": (Form("0.5.11", "0.5.17", "torchao-config", "text"),),
    "tp_size": (Form("0.5.11", "0.5.23", "tp-size", "int"),),
    "trace_modules": (Form("0.5.13", "0.5.23", "trace-modules", "text"),),
    "triton_attention_num_kv_splits": (Form("0.5.11", "0.5.23", "triton-attention-num-kv-splits", "int"),),
    "triton_attention_reduce_in_fp32": (Form("0.5.11", "0.5.23", "triton-attention-reduce-in-fp32", "flag"),),
    "triton_attention_split_tile_size": (Form("0.5.11", "0.5.23", "triton-attention-split-tile-size", "int"),),
    "trust_mm_content_hashes": (Form("0.5.18", "0.5.23", "trust-mm-content-hashes", "flag"),),
    "trust_remote_code": (Form("0.5.11", "0.5.23", "trust-remote-code", "flag"),),
    "trust_request_chat_template": (Form("0.5.21", "0.5.23", "trust-request-chat-template", "flag"),),
    "unified_cache_external_linker_backend": (
        Form("0.5.20", "0.5.22", "unified-cache-external-linker-backend", "text", "mooncake mori"),
        Form("0.5.23", "0.5.23", "unified-cache-external-linker-backend", "text", "dynamic mooncake mori"),
    ),
    "unified_cache_external_linker_config": (Form("0.5.23", "0.5.23", "unified-cache-external-linker-config", "json"),),
    "uno_lora_path": (Form("0.5.20", "0.5.23", "uno-lora-path", "text"),),
    "use_ray": (Form("0.5.11", "0.5.23", "use-ray", "flag"),),
    "uvicorn_access_log_exclude_prefixes": (Form("0.5.11", "0.5.23", "uvicorn-access-log-exclude-prefixes", "texts"),),
    "warmups": (Form("0.5.11", "0.5.23", "warmups", "text"),),
    "watchdog_timeout": (Form("0.5.11", "0.5.23", "watchdog-timeout", "float"),),
    "watermark_config": (Form("0.5.22", "0.5.23", "watermark-config", "text"),),
    "weight_cache_mode": (Form("0.5.17", "0.5.23", "weight-cache-mode", "text", "client daemon off"),),
    "weight_cache_socket": (Form("0.5.17", "0.5.23", "weight-cache-socket", "text"),),
    "weight_cache_timeout": (Form("0.5.17", "0.5.23", "weight-cache-timeout", "int"),),
    "weight_loader_disable_mmap": (Form("0.5.11", "0.5.23", "weight-loader-disable-mmap", "flag"),),
    "weight_loader_drop_cache_after_load": (Form("0.5.12", "0.5.23", "weight-loader-drop-cache-after-load", "flag"),),
    "weight_loader_prefetch_checkpoints": (Form("0.5.11", "0.5.23", "weight-loader-prefetch-checkpoints", "flag"),),
    "weight_loader_prefetch_num_threads": (Form("0.5.11", "0.5.23", "weight-loader-prefetch-num-threads", "int"),),
    "weight_version": (Form("0.5.11", "0.5.23", "weight-version", "text"),),
}

# Other spellings, and earlier names, of the fields above.
RENAMED = {
    "attention_context_parallel_size": "attn_cp_size",
    "attention_data_parallel_size": "attn_dp_size",
    "context_bucket": "cuda_graph_prefill_max_context",
    "cuda_graph_bs": "cuda_graph_bs_decode",
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "data_parallel_size": "dp_size",
    "decode_context_parallel_size": "dcp_size",
    "elastic_ep_join_mode": "ep_join_mode",
    "elastic_ep_join_rank_offset": "ep_join_rank_offset",
    "enable_gdn_replayssm_spec": "enable_linear_replayssm_spec",
    "enable_hicache": "enable_hierarchical_cache",
    "enable_nsa_prefill_context_parallel": "enable_dsa_prefill_context_parallel",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "fp4_gemm_backend": "fp4_gemm_runner_backend",
    "fp8_gemm_backend": "fp8_gemm_runner_backend",
    "grpc_http_sidecar_port": "smg_http_sidecar_port",
    "hierarchical_sparse_attention_extra_config": "hisparse_config",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
    "model": "model_path",
    "moe_data_parallel_size": "moe_dp_size",
    "nccl_init_addr": "dist_init_addr",
    "nsa_decode_backend": "dsa_decode_backend",
    "nsa_prefill_backend": "dsa_prefill_backend",
    "nsa_prefill_cp_mode": "dsa_prefill_cp_mode",
    "piecewise_cuda_graph_compiler": "cuda_graph_tc_compiler",
    "piecewise_cuda_graph_max_tokens": "cuda_graph_max_bs_prefill",
    "piecewise_cuda_graph_tokens": "cuda_graph_bs_prefill",
    "pipeline_parallel_size": "pp_size",
    "speculative_dflash_draft_window_size": "speculative_draft_window_size",
    "speculative_draft_model": "speculative_draft_model_path",
    "stream_output": "incremental_streaming_output",
    "tensor_parallel_size": "tp_size",
}

# What SGLang itself names as the successor of an option that it has given up.
INSTEAD = {
    "disable_cuda_graph": "--cuda-graph-backend-{decode,prefill}=disabled",
    "disable_piecewise_cuda_graph": "--cuda-graph-backend-prefill=disabled",
    "dsa_prefill_cp_mode": "--cp-strategy",
    "enable_breakable_cuda_graph": "--cuda-graph-backend-prefill=breakable",
    "enable_dp_attention": "--attn-dp-size <dp-size>",
    "enable_dsa_prefill_context_parallel": "--enable-prefill-cp",
    "enable_prefill_context_parallel": "--enable-prefill-cp",
    "enforce_piecewise_cuda_graph": "--cuda-graph-backend-prefill=tc_piecewise",
    "monokernel_backend": "--enable-amd-monokernel",
    "prefill_cp_mode": "--cp-strategy",
}
