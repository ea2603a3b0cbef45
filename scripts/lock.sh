#!/usr/bin/env bash
# Resolves requirements.in and requirements-ros.in for every supported CPython into requirements.lock.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check uv
{
  echo "# Made by \`make lock\` from requirements.in and requirements-ros.in: edit those."
  "$tools/bin/uv" pip compile --quiet --universal --python-version 3.10 --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links "$@" requirements.in requirements-ros.in |
    grep -vE "sys_platform == '(win32|emscripten)'|implementation_name == 'pypy'"
} >"$tools/lock"
cp "$tools/lock" requirements.lock
