#!/usr/bin/env bash
# Brings the workspace up to date: system packages, .venv, message underlay, colcon build. Fast when nothing changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "setup: $*" >&2
  exit 1
}

# Which command or library comes with which system package.
missing_packages() {
  local libraries pair
  libraries=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null || true)
  for pair in gcc:gcc g++:g++ cmake:cmake make:make git:git; do
    command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
  done
  for pair in libEGL.so.1:libegl1 libGL.so.1:libgl1 libOpenGL.so.0:libopengl0; do
    [[ $libraries == *"${pair%%:*}"* ]] || echo "${pair##*:}"
  done
  # The software renderer behind EGL, where no graphics driver brings another.
  [[ -n $(find /usr/share/glvnd/egl_vendor.d /etc/glvnd/egl_vendor.d -name '*.json' -print -quit 2>/dev/null) ]] ||
    echo libegl-mesa0
  [[ -n $(find /usr/lib/x86_64-linux-gnu -maxdepth 2 '(' -path '*/dri/swrast_dri.so' -o -name 'libgallium-*.so' ')' \
    -print -quit 2>/dev/null) ]] ||
    echo libgl1-mesa-dri
  if ! command -v "$python" >/dev/null; then
    printf '%s\n' python3 python3-venv python3-dev
  else
    # Debian splits ensurepip and the headers off into packages of the same version.
    "$python" - <<'PYTHON'
import importlib.util
import os
import sys
import sysconfig

is_default = os.path.realpath(sys.executable) == os.path.realpath("/usr/bin/python3")
name = "python3" if is_default else f"python3.{sys.version_info.minor}"
if importlib.util.find_spec("ensurepip") is None:
    print(f"{name}-venv")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    print(f"{name}-dev")
PYTHON
  fi
}

install_packages() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    { command -v sudo >/dev/null && sudo -n true 2>/dev/null; } ||
      fail "system packages are missing; run: sudo apt-get install $*"
    as_root=(sudo -n)
  fi
  command -v apt-get >/dev/null || fail "system packages are missing: $* (Debian and Ubuntu names)"
  echo "setup: installing system packages: $*"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install: $*"
  fi
  rm -f "$log"
}

# The sourced ROS 2 brings its messages for the system's interpreter only.
python=${CUE_PYTHON:-python3}
if [[ -z ${CUE_PYTHON:-} && -n ${ROS_DISTRO:-} && -x /usr/bin/python3 ]]; then
  python=/usr/bin/python3
elif [[ -z ${CUE_PYTHON:-} && -f .venv/base-python && -x $(<.venv/base-python) ]]; then
  python=$(<.venv/base-python) # whatever shell this is, the environment stays with its interpreter
fi

if ! [[ -x .venv/bin/python ]] || ! .venv/bin/python -IS scripts/workspace.py current 2>/dev/null; then
  [[ $(uname -m) == x86_64 ]] || fail "needs an x86-64 machine, this one is $(uname -m)"
  mapfile -t packages < <(missing_packages)
  [[ ${#packages[@]} -eq 0 ]] || install_packages "${packages[@]}"
  "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' ||
    fail "needs CPython 3.10 to 3.14, $("$python" --version) is neither; name another one in CUE_PYTHON"
  exec "$python" -I scripts/workspace.py build
fi
