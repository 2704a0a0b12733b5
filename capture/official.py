"""The artifact's own configuration and modeling code, imported read-only.

Nothing is imported whose SHA-256 is not pinned. The bytes that were hashed are the bytes
that are compiled: the file is read once and never looked up again, nothing is written
beside it, and no source is patched.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from capture.errors import Refusal

CONFIGURATION = "configuration_deepseek.py"
MODELING = "modeling_deepseek.py"


@dataclass(frozen=True)
class OfficialCode:
    """The classes that the capture uses of an artifact's code."""

    config_class: Any
    layer_class: Any
    causal_lm_class: Any
    rms_norm_class: Any


class _FromBytes(importlib.abc.Loader):
    """Loader of one module from source bytes that were already read and hashed."""

    def __init__(self, source: bytes, filename: str) -> None:
        self.source, self.filename = source, filename

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, self.filename, "exec"), module.__dict__)


def load_official_code(artifact_dir: Path, pins: dict[str, str]) -> OfficialCode:
    """Import configuration and modeling code of `artifact_dir`.

    `pins` maps file names to SHA-256. Raises Refusal for a file that is missing, not
    pinned, or whose hash differs.
    """
    sources = {name: _pinned_bytes(artifact_dir / name, pins) for name in (CONFIGURATION, MODELING)}
    # One package per content: the same code is imported once a process, other code never mixes.
    digest = sha256(b"".join(sources.values())).hexdigest()[:16]
    package_name = f"_artifact_{digest}"
    if package_name not in sys.modules:
        package = ModuleType(package_name)
        package.__path__ = []
        sys.modules[package_name] = package
        try:
            for name, source in sources.items():
                _import_module(f"{package_name}.{name.removesuffix('.py')}", source, name)
        except Exception as error:
            for name in [n for n in sys.modules if n.split(".")[0] == package_name]:
                del sys.modules[name]
            raise Refusal(
                where=MODELING,
                what="modeling code cannot be imported",
                expected="transformers 4.41.2",
                found=f"{type(error).__name__}: {error}",
            ) from error
    modeling = sys.modules[f"{package_name}.{MODELING.removesuffix('.py')}"]
    return OfficialCode(
        config_class=modeling.DeepseekV2Config,
        layer_class=modeling.DeepseekV2DecoderLayer,
        causal_lm_class=modeling.DeepseekV2ForCausalLM,
        rms_norm_class=modeling.DeepseekV2RMSNorm,
    )


def _pinned_bytes(path: Path, pins: dict[str, str]) -> bytes:
    expected = pins.get(path.name)
    if expected is None:
        raise Refusal(
            where=path.name, what="code without a pin is not imported", expected="a pinned SHA-256"
        )
    try:
        source = path.read_bytes()
    except OSError as error:
        raise Refusal(
            where=path.name, what="file cannot be read", expected=expected, found=error.strerror
        ) from error
    found = sha256(source).hexdigest()
    if found != expected:
        raise Refusal(
            where=path.name, what="SHA-256 differs from the pin", expected=expected, found=found
        )
    return source


def _import_module(name: str, source: bytes, filename: str) -> None:
    spec = importlib.util.spec_from_loader(name, _FromBytes(source, f"<pinned {filename}>"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
