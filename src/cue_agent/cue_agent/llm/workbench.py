"""Runs Python that nobody has read: without network, without other files, with limits of time, memory and disk.

The code gets namespaces of its own (user, mount, network, processes): it sees Python with its packages and the data of
the session, all read-only, and one small folder in memory to write to. It has no privilege within them either. Whether
that holds is tried once, by code that attempts what must fail; where it does not, nothing is run.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cue_core.errors import CueError

_MOST_TEXT = 8000
_MOST_PICTURES = 4
_PROCESSES = 32
_SPARE_S = 3.0  # to set up and tear down, beyond what the code may take
_PICTURE_SIDE = 8 << 20

_PROBE = """
import ctypes, os, socket
def fails(act):
    try:
        act()
    except Exception:
        return True
    return False
def reach():
    socket.create_connection(("192.0.2.1", 9), 0.2)
def privileged():
    lines = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
    return int(lines["CapEff"], 16) | int(lines["CapBnd"], 16)
names = [n for n in os.listdir("/sys/class/net")] if os.path.isdir("/sys/class/net") else []
checks = {
    "network": fails(reach) and not [n for n in names if n != "lo"],
    "write": fails(lambda: open("/usr/probe", "w")) and fails(lambda: open("/probe", "w")),
    "files": not os.path.exists("/home") and not os.path.exists("/root") and not os.path.exists("/etc/shadow"),
    "privileges": privileged() == 0 and ctypes.CDLL(None).unshare(0x10000000) != 0,
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]) <= 6,
    "environment": not any("KEY" in k or "TOKEN" in k for k in os.environ),
}
print("broken:" + ",".join(k for k, v in checks.items() if not v))
"""

_ENTER = r"""
set -e
root=$1; stage=$2; disk=$3; shift 3
mount --make-rprivate /
mount -t tmpfs -o size=1m,mode=755 none "$root"
show() { # read-only, where it is on the outside
  mkdir -p "$root$1"; mount --bind "$1" "$root$1"; mount -o remount,bind,ro,nosuid,nodev "$root$1"
}
for d in usr bin lib lib64 sbin; do
  if [ -L "/$d" ]; then ln -s "$(readlink "/$d")" "$root/$d"; elif [ -d "/$d" ]; then show "/$d"; fi
done
for d in "$@"; do show "$d"; done
for f in null zero urandom; do mkdir -p "$root/dev"; : >"$root/dev/$f"; mount --bind "/dev/$f" "$root/dev/$f"; done
mkdir -p "$root/bench/stage" "$root/bench/work" "$root/proc" "$root/old"
mount --bind "$stage" "$root/bench/stage"; mount -o remount,bind,ro,nosuid,nodev "$root/bench/stage"
mount -t tmpfs -o size="$disk",mode=755,nosuid,nodev none "$root/bench/work"
mount -t proc none "$root/proc"
echo 0 >/proc/sys/user/max_user_namespaces 2>/dev/null || true  # no privileges by way of further ones
cd "$root"; pivot_root . old; umount -l /old; rmdir /old; mount -o remount,ro,nosuid,nodev /
cd /bench/work
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /bin/sh /bench/stage/run.sh
"""

_RUN = """
ulimit -v {memory}; ulimit -t {cpu}; ulimit -f {blocks}; ulimit -u {processes} 2>/dev/null || true; ulimit -c 0
{python} -I -B /bench/stage/start.py
code=$?
tar -cf /proc/self/fd/$CUE_PICTURES *.png 2>/dev/null || true
exit $code
"""

_START = """
import runpy, sys
sys.path.insert(0, "/bench/stage")
runpy.run_path("/bench/stage/main.py", run_name="__main__")
"""


class WorkbenchError(CueError):
    """Code cannot be run here."""


@dataclass(frozen=True)
class Run:
    """What came of a run: what it printed, its exit code (124 = took too long), and the pictures that it left."""

    text: str
    code: int
    pictures: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Workbench:
    """See the module.

    Attributes:
        seconds: of one run.
        memory: of one process [MiB].
        disk: of all that it writes [MiB].
        files: that it may read in ``/bench/stage``, by name.
    """

    seconds: float = 30.0
    memory: int = 1024
    disk: int = 64
    files: dict[str, str | bytes] = field(default_factory=dict)
    _problem: str | None = None

    def problem(self) -> str:
        """Return why nothing can be run here, empty = it can; tried once."""
        if self._problem is None:
            missing = [name for name in ("unshare", "setpriv", "pivot_root", "tar") if not _which(name)]
            if missing:
                self._problem = f"isolation needs {', '.join(missing)} (package util-linux), which is not there"
            else:
                found = self._run(_PROBE, {})
                told = found.text.strip()
                if found.code == 0 and told == "broken:":
                    self._problem = ""
                elif told.startswith("broken:"):
                    self._problem = f"isolation does not hold here: {told.removeprefix('broken:')}"
                else:
                    lines = told.splitlines()
                    self._problem = f"namespaces cannot be had here: {lines[-1] if lines else f'code {found.code}'}"
        return self._problem

    def run(self, code: str, modules: Mapping[str, str] | None = None) -> Run:
        """Run Python code.

        Args:
            code: of the main module.
            modules: that it may import from ``skills``, by name.

        Raises:
            WorkbenchError: it cannot be isolated here.
        """
        problem = self.problem()
        if problem:
            raise WorkbenchError(f"the workbench is closed: {problem}")
        return self._run(code, modules or {})

    def _run(self, code: str, modules: Mapping[str, str]) -> Run:
        with tempfile.TemporaryDirectory(prefix="cue-bench-") as folder:
            stage, root = Path(folder, "stage"), Path(folder, "root")
            (stage / "skills").mkdir(parents=True)
            root.mkdir()
            run = _RUN.format(
                memory=self.memory * 1024,
                cpu=max(int(self.seconds) + 1, 1),
                blocks=self.disk * 2048,
                processes=_PROCESSES,
                python=_quoted(sys.executable),
            )
            content: dict[str, str | bytes] = {**self.files, "skills/__init__.py": ""}
            content |= {"main.py": code, "start.py": _START, "run.sh": run}
            content |= {f"skills/{name}.py": text for name, text in modules.items()}
            for name, text in content.items():
                (stage / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
            with open(Path(folder, "out"), "w+b") as out, open(Path(folder, "tar"), "w+b") as tar:
                exit_code = self._enter(str(root), str(stage), out, tar)
                out.seek(0)
                tar.seek(0)
                text = out.read(_MOST_TEXT + 1).decode("utf-8", "replace")
                cut = " ... cut off" if len(text) > _MOST_TEXT else ""
                return Run(text[:_MOST_TEXT] + cut, exit_code, _pictures(tar.read(self.disk << 20)))

    def _enter(self, root: str, stage: str, out: io.BufferedRandom, tar: io.BufferedRandom) -> int:
        words = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork"]
        words += ["--kill-child", "/bin/sh", "-c", _ENTER, "sh", root, stage, f"{self.disk}m", *_shown()]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/bench/work",
            "LANG": "C.UTF-8",
            "CUE_PICTURES": str(tar.fileno()),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "MPLCONFIGDIR": "/bench/work",
        }
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=[tar.fileno()],
            start_new_session=True,
            cwd="/",
        )
        try:
            return process.wait(self.seconds + _SPARE_S)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _which(name: str) -> str | None:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _shown() -> list[str]:
    """Return the folders that Python needs beside the system's."""
    wanted = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent)}
    return sorted(p for p in wanted if not p.startswith("/usr") and Path(p).is_dir() and p != "/")


def _pictures(data: bytes) -> tuple[tuple[str, bytes], ...]:
    found: list[tuple[str, bytes]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if len(found) < _MOST_PICTURES and member.isfile() and member.size <= _PICTURE_SIDE:
                    file = archive.extractfile(member)
                    png = file.read() if file is not None else b""
                    if png.startswith(b"\x89PNG\r\n\x1a\n"):
                        found.append((member.name, png))
    except (tarfile.TarError, EOFError, ValueError):
        pass
    return tuple(found)


def as_json(data: object) -> str:
    """Return plain data as a file for :attr:`Workbench.files`."""
    return json.dumps(data)
