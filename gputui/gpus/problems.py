"""Why NVML gives nothing: each cause its own sentence and remedy."""

from pathlib import Path

from gputui.gpus.reading import Problem

NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
VERSION_MISMATCH = 18


def is_tegra(root: Path = Path("/")) -> bool:
    """Whether this machine is an NVIDIA Tegra (Jetson), whose GPU NVML does not serve."""
    if (root / "etc/nv_tegra_release").exists():
        return True
    try:
        return b"nvidia,tegra" in (root / "proc/device-tree/compatible").read_bytes()
    except OSError:
        return False


_INIT = {
    LIBRARY_NOT_FOUND: Problem(
        "driver_missing",
        "No NVIDIA driver was found (libnvidia-ml.so.1 is missing).",
        "Install the NVIDIA driver, or set GPUTUI_SIMULATED_GPUS=8 to try gputui without GPUs.",
    ),
    DRIVER_NOT_LOADED: Problem(
        "driver_missing",
        "The NVIDIA driver is installed but not loaded.",
        "Load it with `sudo modprobe nvidia`, or reboot after an installation.",
    ),
    VERSION_MISMATCH: Problem(
        "version_mismatch",
        "The NVIDIA library and the loaded kernel module have different versions, as after an upgrade.",
        "Reboot, or end all GPU programs and load the module anew: "
        "`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; sudo modprobe nvidia`.",
    ),
    NO_PERMISSION: Problem(
        "no_permission",
        "The NVIDIA driver does not let this user in.",
        "Check who may open /dev/nvidiactl and /dev/nvidia0; often membership of the group `video` is missing.",
    ),
}


def init_problem(error: int, text: str, *, tegra: bool) -> Problem:
    """What it means that initialising NVML failed with this error code and its `text`."""
    if tegra:
        return Problem(
            "tegra",
            "This is an NVIDIA Tegra (Jetson): its GPU has no NVML, so only the host is shown.",
            "Use `tegrastats` for this machine's GPU.",
        )
    return _INIT.get(error) or Problem(
        "driver_missing",
        f"The NVIDIA driver could not be started: {text}.",
        "Run `nvidia-smi`, and look at `dmesg | grep -i nvrm`.",
    )


def no_gpu() -> Problem:
    """The driver works, and sees no GPU."""
    return Problem(
        "no_gpu",
        "The NVIDIA driver is loaded, but it sees no GPU.",
        "Check `lspci | grep -i nvidia`, and in a container whether GPUs were passed in.",
    )
