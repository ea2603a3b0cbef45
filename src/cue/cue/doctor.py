"""``cue doctor``: what of this machine CUE needs, whether it is there, and what to do if not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cue.arguments import ArgumentError
from cue.discovery import check_here, describe

_TIME_LIMIT = 15.0  # [s] for one check; they run side by side
_PACKAGES = (
    "numpy",
    "scipy",
    "mujoco",
    "cma",
    "mink",
    "cv2",
    "ruckig",
    "matplotlib",
    "jinja2",
    "rich",
    "yaml",
    "circus",
)
_INTERFACES = (
    "cue_msgs.action", "control_msgs.action", "diagnostic_msgs.msg", "geometry_msgs.msg", "rosgraph_msgs.msg",
    "sensor_msgs.msg", "std_srvs.srv", "tf2_msgs.msg", "trajectory_msgs.msg", "visualization_msgs.msg",
)  # fmt: skip
_RENDER = """
import mujoco, numpy
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom type='sphere' size='.2' rgba='1 0 0 1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 48, 64) as renderer:
    renderer.update_scene(data)
    red = renderer.render()[:, :, 0]
raise SystemExit(0 if numpy.ptp(red) > 50 else "rendered nothing")
"""


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        ok: nothing needs to be done.
        text: what is there.
        advice: what to do if it is not.
    """

    ok: bool
    text: str
    advice: str = ""


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    good = (3, 10) <= sys.version_info[:2] <= (3, 14) and sys.maxsize > 2**32 and sys.platform == "linux"
    return Finding(good, f"{version} on {sys.platform}", "use CPython 3.10 to 3.14 on 64-bit Linux")


def _packages() -> Finding:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Finding(False, f"missing {', '.join(missing)}", "run 'make setup', then 'source env.sh'")
    return Finding(True, f"{len(_PACKAGES)} libraries found")


def _run_python(code: str, environment: Mapping[str, str] | None = None) -> str:
    """Run code in a process of its own; return the last line of its complaint, nothing when it worked."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=dict(environment) if environment is not None else None,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"took more than {_TIME_LIMIT:.0f} s"
    if result.returncode == 0:
        return ""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"ended with exit code {result.returncode}"


def _ros() -> Finding:
    if not os.environ.get("AMENT_PREFIX_PATH"):
        return Finding(False, "no ROS environment is active", "run 'source env.sh' in CUE's folder")
    imports = "\n".join(f"import {name}" for name in ("rclpy", *_INTERFACES))
    problem = _run_python(f"{imports}\nrclpy.get_rmw_implementation_identifier()")
    if problem:
        return Finding(False, problem, "run 'make setup', then 'source env.sh'")
    return Finding(True, f"ROS 2 {os.environ.get('ROS_DISTRO', '')}, rclpy and {len(_INTERFACES)} interface packages")


def _discovery() -> Finding:
    problem = check_here(os.environ)
    if problem:
        return Finding(False, problem, "see the fault named; 'cue doctor discovery' checks again")
    return Finding(True, f"two processes exchanged a message ({describe(os.environ)})")


def _gl() -> Finding:
    given = os.environ.get("MUJOCO_GL", "")
    problem = _run_python(_RENDER)
    if not problem:
        return Finding(True, f"MuJoCo renders ({given or 'default'})")
    for backend in ("egl", "osmesa"):
        if backend != given and not _run_python(_RENDER, {**os.environ, "MUJOCO_GL": backend}):
            return Finding(
                False, f"MuJoCo does not render with MUJOCO_GL={given or 'unset'}", f"set MUJOCO_GL={backend}"
            )
    advice = "install libegl1 and libgl1-mesa-dri, or libosmesa6 (apt)"
    return Finding(False, f"MuJoCo cannot render: {problem}", advice)


def _kernel() -> Finding:
    problem = _run_python("from cue_sim.kernel import library; library()")
    return Finding(not problem, problem or "the twin's compiled kernel loads", "run 'make setup'")


def _cpu() -> Finding:
    count = len(os.sched_getaffinity(0))
    started = time.perf_counter()
    sum(i * i for i in range(1_000_000))
    seconds = time.perf_counter() - started
    load = os.getloadavg()[0]
    text = f"{count} CPUs, a million additions in {seconds * 1000:.0f} ms, load {load:.1f}"
    if count < 2 or seconds > 0.5:
        return Finding(False, text, "give CUE two CPUs of its own: a calibration would take hours")
    return Finding(True, text)


def _clock() -> Finding:
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.5)  # the measurement itself
    drift = (time.time() - wall) - (time.monotonic() - steady)
    if abs(drift) > 0.05:
        return Finding(
            False, f"the system clock jumped by {drift * 1000:+.0f} ms in 0.5 s", "let NTP settle, or stop it"
        )
    if wall < Path(__file__).stat().st_mtime - 86400:
        return Finding(False, "the system clock is earlier than CUE's own files", "set the clock")
    return Finding(True, "system and steady clock agree")


def _folders() -> Finding:
    for folder, advice in (
        (Path.cwd(), "change to a folder where runs/ can be made, or give run_dir:=PATH"),
        (Path(tempfile.gettempdir()), "set TMPDIR to a folder that can be written"),
        (Path("/dev/shm"), "mount it: ROS exchanges images through it"),
    ):
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            return Finding(False, f"{folder} cannot be written ({error.strerror})", advice)
    return Finding(True, f"{Path.cwd()}, {tempfile.gettempdir()} and /dev/shm can be written")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    return Finding(free >= 1.0, f"{free:.1f} GB free", "free at least 1 GB")


CHECKS: Mapping[str, Callable[[], Finding]] = {
    "python": _python,
    "packages": _packages,
    "ros": _ros,
    "discovery": _discovery,
    "gl": _gl,
    "kernel": _kernel,
    "cpu": _cpu,
    "clock": _clock,
    "folders": _folders,
    "disk": _disk,
}


def run_checks(
    write: Callable[[str], object], only: Sequence[str] = (), checks: Mapping[str, Callable[[], Finding]] = CHECKS
) -> int:
    """Run the checks, write a line each, and return 0 if all is well, else 1.

    Raises:
        ArgumentError: a check of that name does not exist.
    """
    unknown = sorted(set(only) - set(checks))
    if unknown:
        raise ArgumentError(f"unknown check {', '.join(unknown)}; known are {', '.join(checks)}")
    chosen = {name: check for name, check in checks.items() if not only or name in only}
    wrong = 0
    # Speed first and alone; the rest mostly waits for processes of its own.
    early = {name: _guarded(check) for name, check in chosen.items() if name == "cpu"}
    with ThreadPoolExecutor(max_workers=len(chosen) or 1) as pool:
        pending = {name: pool.submit(_guarded, check) for name, check in chosen.items() if name not in early}
        for name in chosen:
            finding = early[name] if name in early else pending[name].result()
            wrong += not finding.ok
            advice = "" if finding.ok else f"; {finding.advice}"
            write(f"{'ok   ' if finding.ok else 'WRONG'}  {name:<10} {finding.text}{advice}")
    return 1 if wrong else 0


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # a check that fails is a finding, not an end
        return Finding(False, f"the check itself failed: {type(error).__name__}: {error}", "report this")
