"""Builds CUE's workspace: the virtual environment, the message underlay, the colcon packages, the shell variables.

Every stage has a stamp, a hash of all that it was made from, and is done again when the hash differs. `current`
exits 0 when every stamp agrees and 1 otherwise; `build` does what is out of date. Only the standard library is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts"
VENV = ROOT / ".venv"
UNDERLAY = VENV / "underlay"
INSTALL = ROOT / "install"
ENVIRONMENT_FILE = VENV / "environment.sh"
WORKERS = "2"

# Python files are linked into the install space: an edit needs no build, a new file does.
_LINKED_SUFFIXES = {".py", ".yaml", ".xml", ".rviz", ".md", ".json", ".txt", ".j2", ".svg", ".png", ".css"}
# These shape the build though their suffix is among the linked ones.
_BUILD_FILES = {"CMakeLists.txt", "package.xml"}
_NO_SOURCES = {"test", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


class SetupError(Exception):
    """A stage that could not be done; its message is one line for the user."""


def say(message: str) -> None:
    """Tells the user which stage runs."""
    print(f"setup: {message}", flush=True)


# --- Where ROS 2 comes from -------------------------------------------------------------------------------------------


def sourced_ros() -> list[Path]:
    """Returns the prefixes of a sourced ROS 2 that has rclpy, or nothing.

    Prefixes of this project, and of any other virtual environment with the wheels, do not count.
    """
    if not os.environ.get("ROS_DISTRO"):
        return []
    prefixes = [Path(entry) for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if entry]
    foreign = [
        prefix
        for prefix in prefixes
        if ROOT not in prefix.parents and not any((p / "pyvenv.cfg").exists() for p in (prefix, *prefix.parents))
    ]
    return foreign if any((prefix / "share/rclpy/package.xml").exists() for prefix in foreign) else []


@dataclass(frozen=True)
class Ros:
    """The ROS 2 installation the workspace is built against.

    Attributes:
        prefixes: Its prefixes, the most specific first; the virtual environment itself for the wheels.
        distro: Its name, `kilted` for the wheels.
        wheels: Whether it is the wheels'.
    """

    prefixes: tuple[Path, ...]
    distro: str
    wheels: bool

    @classmethod
    def find(cls) -> Ros:
        """Finds the sourced ROS 2, or settles for the wheels.

        With nothing sourced, an environment that was built on an installed ROS 2 stays with it while that is there.
        """
        sourced = sourced_ros()
        if sourced:
            return cls(tuple(sourced), os.environ["ROS_DISTRO"], wheels=False)
        remembered = VENV / "ros"
        if remembered.exists():
            distro, *lines = remembered.read_text(encoding="utf-8").splitlines()
            prefixes = tuple(Path(line) for line in lines)
            if prefixes and VENV not in prefixes and all(prefix.is_dir() for prefix in prefixes):
                return cls(prefixes, distro, wheels=False)
        return cls((VENV,), "kilted", wheels=True)

    def remember(self) -> None:
        """Notes the choice for shells in which nothing is sourced."""
        lines = [self.distro, *map(str, self.prefixes)]
        (VENV / "ros").write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- Stamps -----------------------------------------------------------------------------------------------------------


def digest(files: Iterable[Path], *facts: str) -> str:
    """Hashes facts and files, each with its path below the root; a folder's or missing file's content is empty."""
    total = hashlib.sha256("\0".join(facts).encode())
    for file in files:
        total.update(f"\0{file.relative_to(ROOT)}\0".encode())
        if file.is_file():
            total.update(file.read_bytes())
    return total.hexdigest()


def environment_stamp(ros: Ros) -> str:
    """Hashes what the virtual environment is made from."""
    files = [ROOT / ("requirements.lock" if ros.wheels else "requirements.in"), SCRIPTS / "mend_wheels.py"]
    return digest(files, str(ROOT), sys.version, ros.distro, *map(str, ros.prefixes))


def _source_files(folder: Path) -> list[Path]:
    """Lists the files below a folder that are built or installed, sorted."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NO_SOURCES)
        found += [Path(parent, name) for name in sorted(names) if not name.endswith((".pyc", ".swp", "~"))]
    return found


def underlay_stamp(ros: Ros) -> str:
    """Hashes what the underlay is made from."""
    return digest(_source_files(SCRIPTS / "underlay"), environment_stamp(ros))


def build_stamp(ros: Ros) -> str:
    """Hashes what the install space is made from: all that is compiled or generated, and the list of the rest."""
    sources = [file for name in ("src", "launch", "config") for file in _source_files(ROOT / name)]
    built = [file for file in sources if file.name in _BUILD_FILES or file.suffix not in _LINKED_SUFFIXES]
    names = [str(file.relative_to(ROOT)) for file in sources]
    return digest([*built, SCRIPTS / "workspace.py"], underlay_stamp(ros), *names)


@dataclass(frozen=True)
class Stage:
    """A step of the set-up.

    Attributes:
        mark: The file that holds the stamp of what was last made.
        stamp: Computes the stamp of what should be there.
        make: Makes it.
    """

    mark: Path
    stamp: Callable[[Ros], str]
    make: Callable[[Ros], None]

    def is_current(self, ros: Ros) -> bool:
        """Tells whether the stage's result is there and up to date."""
        return self.mark.exists() and self.mark.read_text(encoding="utf-8") == self.stamp(ros)

    def bring_up_to_date(self, ros: Ros) -> None:
        """Makes the stage's result unless it is there; a stage that fails leaves no stamp."""
        if not self.is_current(ros):
            stamp = self.stamp(ros)  # of what is there now: an edit during the build counts as a change after it
            self.mark.unlink(missing_ok=True)
            self.make(ros)
            self.mark.parent.mkdir(parents=True, exist_ok=True)
            self.mark.write_text(stamp, encoding="utf-8")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keeps a second set-up of this workspace waiting until the first is done."""
    handle = os.open(SCRIPTS, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this workspace")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# --- Running programs -------------------------------------------------------------------------------------------------


def run(command: Sequence[str | Path], what: str, env: dict[str, str] | None = None) -> None:
    """Runs a program quietly.

    Args:
        command: The program and its arguments.
        what: What it does, for the error message.
        env: Its environment; this one's by default.

    Raises:
        SetupError: It failed; all it wrote has been shown.
    """
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode:
        sys.stderr.write(result.stdout)
        raise SetupError(f"{what} failed with exit code {result.returncode}; its output is above")


def python_folder(prefix: Path) -> Path | None:
    """Returns where CMake packages put Python modules below an install prefix, if they did."""
    patterns = ("local/lib/python3*/dist-packages", "lib/python3*/dist-packages", "lib/python3*/site-packages")
    return next((folder for pattern in patterns for folder in sorted(prefix.glob(pattern))), None)


def library_folders(ros: Ros, prefixes: Iterable[Path]) -> list[str]:
    """Returns where the shared libraries of install prefixes lie, with those that the wheels bring along."""
    bundled = sorted(VENV.glob("lib/python3*/site-packages/ros_*.libs")) if ros.wheels else []
    return [f"{prefix}/lib" for prefix in prefixes] + [str(folder) for folder in bundled]


def build_environment(ros: Ros) -> dict[str, str]:
    """Returns the environment colcon runs in: this one, less what an active CUE shell or another venv put there."""
    env = dict(os.environ)
    for name in ("VIRTUAL_ENV", "PYTHONHOME", "COLCON_PREFIX_PATH", "CUE_ROOT"):
        env.pop(name, None)
    prefixes = [UNDERLAY, *ros.prefixes]
    python_path = [str(folder) for folder in map(python_folder, [UNDERLAY]) if folder]
    if ros.wheels:
        for name in ("ROS_PYTHON_VERSION", "ROS_VERSION"):
            env.pop(name, None)
    else:
        python_path += [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    existing = [str(prefix) for prefix in prefixes if prefix.is_dir()]
    libraries = library_folders(ros, map(Path, existing))
    if not ros.wheels:
        libraries += [entry for entry in env.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
    env.update(
        AMENT_PREFIX_PATH=os.pathsep.join(existing),
        CMAKE_PREFIX_PATH=os.pathsep.join(existing),
        LD_LIBRARY_PATH=os.pathsep.join(libraries),
        PYTHONPATH=os.pathsep.join(python_path),
        PATH=os.pathsep.join([f"{VENV}/bin", env.get("PATH", os.defpath)]),
        ROS_DISTRO=ros.distro,
        _ROS_WHEELS_BOOTSTRAP_COMPLETE="1",
        MAKEFLAGS="",  # or colcon's make would look for the job server of the make that started this
    )
    return env


def colcon_build(ros: Ros, sources: Sequence[Path], build: Path, install: Path, log: Path, what: str) -> None:
    """Builds packages with colcon into one merged prefix, with links to the sources.

    Args:
        ros: The ROS 2 installation to build against.
        sources: Folders that are or hold packages.
        build: Where to put intermediate files.
        install: The prefix to install into.
        log: Where to put colcon's logs.
        what: What is being built, for the error message.

    Raises:
        SetupError: A package failed to build; the whole log has been shown.
    """
    env = build_environment(ros)
    colcon = shutil.which("colcon", path=env["PATH"])  # the virtual environment's, or that of a ROS 2 installation
    if colcon is None:
        raise SetupError("colcon was not installed; run 'make distclean' and try again")
    python = VENV / "bin/python"
    command: list[str | Path] = [colcon, "--log-base", log, "build", "--base-paths", *sources]
    command += ["--build-base", build, "--install-base", install, "--merge-install", "--symlink-install"]
    command += ["--continue-on-error", "--parallel-workers", WORKERS]
    command += ["--event-handlers", "console_cohesion+", "desktop_notification-"]
    command += ["--cmake-args", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-Wno-dev"]
    # The first for FindPython3, the second for the older find modules in the ROS packages.
    command += [f"-DPython3_EXECUTABLE={python}", "-DPython3_FIND_VIRTUALENV=ONLY", f"-DPYTHON_EXECUTABLE={python}"]
    run(command, what, env)


# --- The stages -------------------------------------------------------------------------------------------------------


def _requirements(ros: Ros) -> list[str]:
    """Returns pip's arguments: the locked versions, or on a sourced ROS 2 what goes with its NumPy."""
    if ros.wheels:
        # The lock is complete: resolving it again would cost time and could add to it.
        return ["--no-deps", "-r", str(ROOT / "requirements.lock")]
    asked = subprocess.run(
        [VENV / "bin/python", "-c", "import numpy; print(numpy.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise SetupError(f"ROS 2 {os.environ.get('ROS_DISTRO', '')} is sourced, but python3-numpy is not installed")
    # The installed messages are compiled against that NumPy; another major version would crash them.
    return ["-r", str(ROOT / "requirements.in"), f"numpy=={asked.stdout.strip()}"]


def make_environment(ros: Ros) -> None:
    """Makes the virtual environment anew."""
    say(f"making .venv ({'ROS 2 wheels' if ros.wheels else f'on ROS 2 {ros.distro}'}, a minute or so)")
    interpreter = os.path.realpath(sys.executable)  # also from within another virtual environment
    for folder in (VENV, ROOT / "build", INSTALL):  # what was built with the old one refers to it
        shutil.rmtree(folder, ignore_errors=True)
    options = [] if ros.wheels else ["--system-site-packages"]
    run([interpreter, "-m", "venv", *options, VENV], "making the virtual environment")
    python = VENV / "bin/python"
    (VENV / "base-python").write_text(interpreter + "\n", encoding="utf-8")
    (VENV / "COLCON_IGNORE").touch()
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, *_requirements(ros)], "installing the Python packages")
    if ros.wheels:
        run([python, SCRIPTS / "mend_wheels.py"], "mending the ROS 2 wheels", build_environment(ros))
    ros.remember()


def make_underlay(ros: Ros) -> None:
    """Builds those message packages that the ROS 2 installation lacks."""
    shutil.rmtree(UNDERLAY, ignore_errors=True)
    packages = sorted(folder.parent for folder in (SCRIPTS / "underlay").glob("*/package.xml"))
    lacking = [
        package
        for package in packages
        if not any((prefix / "share" / package.name / "package.xml").exists() for prefix in ros.prefixes)
    ]
    if lacking:
        say(f"building {', '.join(package.name for package in lacking)}, which ROS 2 {ros.distro} lacks here")
        scratch = VENV / "underlay-build"
        colcon_build(ros, lacking, scratch / "build", UNDERLAY, scratch / "log", "building the message underlay")


def make_packages(ros: Ros) -> None:
    """Builds the project's own packages and writes the shell variables."""
    write_shell_variables(ros)  # already now: env.sh should work where a package does not build
    if any((ROOT / "src").glob("*/package.xml")):
        say("building the packages of src/")
        known = INSTALL / ".built"
        before = set(known.read_text(encoding="utf-8").split("\n")) if known.exists() else set()
        now = {str(file.relative_to(ROOT)) for file in _source_files(ROOT / "src")}
        if before - now:
            # colcon installs, but never removes: what vanished from the sources must vanish here.
            shutil.rmtree(INSTALL, ignore_errors=True)
        colcon_build(ros, [ROOT / "src"], ROOT / "build", INSTALL, ROOT / "log", "building the packages of src/")
        known.write_text("\n".join(sorted(now)), encoding="utf-8")
    write_shell_variables(ros)


def write_shell_variables(ros: Ros) -> None:
    """Writes the file that env.sh reads, so that a shell starts without running colcon's set-up scripts."""
    overlays = [INSTALL, *([UNDERLAY] if UNDERLAY.is_dir() else [])]
    prefixes = [*overlays, *([VENV] if ros.wheels else [])]
    modules = [str(folder) for folder in map(python_folder, overlays) if folder]
    values = {
        "_cue_built_for": str(ROOT),
        "_cue_prefixes": os.pathsep.join(map(str, prefixes)),
        "_cue_libraries": os.pathsep.join(library_folders(ros, prefixes)),
        "_cue_modules": os.pathsep.join(modules),
        "_cue_programs": os.pathsep.join([f"{INSTALL}/bin", f"{VENV}/bin"]),
        "_cue_ros_distro": ros.distro,
        "_cue_ros_setup": "" if ros.wheels else str(ros.prefixes[-1]),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    ENVIRONMENT_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


STAGES = (
    Stage(VENV / "environment.stamp", environment_stamp, make_environment),
    Stage(VENV / "underlay.stamp", underlay_stamp, make_underlay),
    Stage(INSTALL / ".stamp", build_stamp, make_packages),
)


def main(arguments: Sequence[str]) -> int:
    """Runs the command line: `current` or `build`."""
    if list(arguments) not in (["current"], ["build"]):
        print(f"workspace.py: expected 'current' or 'build', not '{' '.join(arguments)}'", file=sys.stderr)
        return 2
    ros = Ros.find()
    if arguments[0] == "current":
        return 0 if all(stage.is_current(ros) for stage in STAGES) else 1
    started = time.monotonic()
    try:
        with one_at_a_time():
            for stage in STAGES:
                stage.bring_up_to_date(ros)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    say(f"ready after {time.monotonic() - started:.0f} s; 'source env.sh' gives the cue command")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
