# SPDX-License-Identifier: Apache-2.0
"""The facts about a device: its CPU, threads, versions and backends, by its own account.

Test: rpc/test_device_info.py.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_collage
from tvm.target import codegen

from ..backends import list_backends
from ..backends.interface import describe_backend
from ..compile.target import hidden_features, maskable_features
from ..compile.target import host_target as local_host_target
from ..errors import DeviceError, HostTargetError
from ..machine.environment import cpu_model, read_cpu_flags, thread_text
from ..measure.options import MEASURING_VERSION
from ..options.named import option


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """A device, plain text throughout."""

    address: str
    cpu: str
    triple: str  # LLVM's, of the system
    target: str  # the `llvm` target of its CPU, without the triple
    features: tuple[str, ...]  # the kernel's names of its vector instructions
    threads: str  # as in a store's key
    num_threads: int  # TVM's
    backends: dict[str, str]  # versions of those that run there
    missing: dict[str, str]  # why others do not
    software: str  # versions that must be the same here and there

    @classmethod
    def from_json(cls, fields: dict[str, Any], address: str) -> DeviceInfo:
        """Invert describe_this_device. DeviceError when another version of it answered."""
        names = {field.name for field in dataclasses.fields(cls)} - {"address"}
        here = software_versions()
        if set(fields) != names or fields["software"] != here:
            raise DeviceError(
                f"device {address} runs {fields.get('software', 'another version')}, this machine "
                f"{here}: install the same tvm-collage on both"
            )
        return cls(address=address, **{**fields, "features": tuple(fields["features"])})

    def host_target(self, num_cores: int | None = None) -> tvm.target.Target:
        """Return the target of the device's CPU, with its triple where it is not this machine's."""
        text = self.target
        if self.triple != codegen.llvm_get_system_triple():
            text += f" -mtriple={self.triple}"
        return tvm.target.Target(text if num_cores is None else f"{text} -num-cores={num_cores}")

    def check_target(self, target: tvm.target.Target) -> None:
        """HostTargetError, naming both, for a target whose code the device cannot run."""
        reason = self._why_not(target)
        if reason:
            raise HostTargetError(
                f"the host target '{target}' does not fit device {self.address} ({self.cpu}): "
                f"{reason}; use '{self.host_target()}', which collage.host_target(device=...) gives"
            )

    def check_backends(self, names: Sequence[str]) -> None:
        """DeviceError for backends that cannot run on the device."""
        lacking = [f"{name}: {self.missing[name]}" for name in names if name in self.missing]
        if lacking:
            raise DeviceError(
                f"device {self.address} cannot run {'; '.join(lacking)}; install what is named "
                "there, or leave the backend out of the target list"
            )

    def differences(self, other: DeviceInfo) -> list[str]:
        """Return the names of the fields in which two devices differ, as far as costs may."""
        names = {field.name for field in dataclasses.fields(self)} - {"address", "missing"}
        return sorted(name for name in names if getattr(self, name) != getattr(other, name))

    def Summary(self) -> str:
        return f"{self.address}: {self.cpu}, threads {self.threads}, '{self.target}'"

    def _why_not(self, target: tvm.target.Target) -> str:
        triple = str(target.attrs.get("mtriple", "")) or codegen.llvm_get_system_triple()
        if architecture(triple) != architecture(self.triple):
            return f"it is for {architecture(triple)}, the device is {architecture(self.triple)}"
        if architecture(self.triple) == "x86_64":
            missing = hidden_features(str(target), frozenset(self.features))
            return f"the device lacks {', '.join(missing)}" if missing else ""
        # Elsewhere LLVM's features mix instructions with hints for its scheduler.
        here, there = (str(t.attrs.get("mcpu", "")) for t in (target, self.host_target()))
        return f"it is for CPU {here}, the device is {there}" if here not in ("", there) else ""


def describe_this_device() -> dict[str, Any]:
    """Return the fields of DeviceInfo but for the address, as JSON values, for a worker there."""
    rows = [describe_backend(backend) for backend in list_backends()]
    return {
        "cpu": cpu_model(),
        "triple": str(codegen.llvm_get_system_triple()),
        "target": str(local_host_target()),
        "features": sorted(maskable_features() & read_cpu_flags()),
        "threads": thread_text(),
        "num_threads": int(tvm.runtime.num_threads()),
        "backends": {row["name"]: row["version"] for row in rows if row["is_available"]},
        "missing": {row["name"]: row["reason"] for row in rows if not row["is_available"]},
        "software": software_versions(),
    }


def software_versions() -> str:
    collage = f"{tvm_collage.__version__} (measuring {MEASURING_VERSION})"
    return f"TVM {tvm.__version__}, tvm-collage {collage}"


def architecture(triple: str) -> str:
    """Return the first word of a triple; amd64 and arm64 are other words for two of them."""
    first = triple.partition("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(first, first)


def check_compiler(device: DeviceInfo, compiler: str) -> None:
    """DeviceError when `compiler` ("" for this machine's own) cannot link for the device."""
    here, there = architecture(str(codegen.llvm_get_system_triple())), architecture(device.triple)
    named = option("rpc_compiler")
    if compiler and shutil.which(compiler) is None:
        advice = " is not found: install it, or give its path"
        raise DeviceError(f"the compiler {compiler!r} of " + named + advice)
    if here != there and not compiler:
        raise DeviceError(
            f"device {device.address} is {there}, and this {here} machine's compiler cannot link "
            "for it: set " + named + " to a C++ cross compiler, e.g. "
            f"'{there}-linux-gnu-g++' (export_library's cc)"
        )


def check_alike(devices: Sequence[DeviceInfo]) -> None:
    """DeviceError with the list when devices of one key differ: costs would not compare."""
    differing = sorted({name for device in devices for name in devices[0].differences(device)})
    if differing:
        listed = "; ".join(device.Summary() for device in devices)
        raise DeviceError(
            f"devices of one key must be alike, these differ in {', '.join(differing)}: {listed}. "
            "Give each kind a key of its own (the server's --key)"
        )
