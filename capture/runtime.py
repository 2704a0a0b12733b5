"""Torch set up for repeatable runs, and the environment as it is recorded."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

from atlas.contract.identity import Environment
from capture.errors import Refusal

TRANSFORMERS = "4.41.2"


def prepare(device: str) -> torch.device:
    """Deterministic algorithms, TF32 off. Raises Refusal for a device that is not there, or
    another transformers than the official code runs on."""
    found = version("transformers")
    if found != TRANSFORMERS:
        raise Refusal(where="transformers", what="version", expected=TRANSFORMERS, found=found)
    if device == "cuda" and not torch.cuda.is_available():
        raise Refusal(where="--device", what="no such device", expected="a CUDA GPU", found="none")
    # cuBLAS is repeatable only with a fixed workspace; read when CUDA starts
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # as use_deterministic_algorithms(True), which would also import the compiler: 1.4 s a run
    torch.set_deterministic_debug_mode("error")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_default_dtype(torch.float32)
    return torch.device(device)


def describe(device: torch.device) -> Environment:
    """Everything that may change the bits of a run."""
    on_gpu = device.type == "cuda"
    return Environment(
        python=platform.python_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        transformers=version("transformers"),
        tokenizers=version("tokenizers"),
        safetensors=version("safetensors"),
        numpy=version("numpy"),
        device=torch.cuda.get_device_name(device) if on_gpu else _cpu_name(),
        instruction_set=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        dtype="bfloat16",
        tf32=bool(torch.backends.cuda.matmul.allow_tf32),
        deterministic_algorithms=torch.are_deterministic_algorithms_enabled(),
        attention="eager",
    )


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
