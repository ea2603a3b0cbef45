# shellcheck shell=bash
# Activates CUE in this shell, from any folder: source env.sh (bash and zsh). `make setup` must have run once.

if [ -n "${ZSH_VERSION:-}" ]; then
  eval '_cue_file=${(%):-%x}' # zsh's name of the sourced file; bash could not even parse it
else
  _cue_file=${BASH_SOURCE[0]}
fi
_cue_root=$(CDPATH='' cd -- "$(dirname -- "$_cue_file")" && pwd -P)

# Puts the entries of a colon-separated list in front of a path variable, each once.
_cue_prepend() {
  local name=$1 rest=$2 entry old new=''
  while [ -n "$rest" ]; do
    entry=${rest%%:*}
    rest=${rest#"$entry"}
    rest=${rest#:}
    new=${new:+$new:}$entry
  done
  eval "old=\${$name:-}"
  while [ -n "$old" ]; do
    entry=${old%%:*}
    old=${old#"$entry"}
    old=${old#:}
    case ":$new:" in
      *":$entry:"*) ;;
      *) new=${new:+$new:}$entry ;;
    esac
  done
  eval "export $name=\$new"
}

_cue_activate() {
  local _cue_built_for='' _cue_prefixes='' _cue_libraries='' _cue_modules='' _cue_programs='' _cue_ros_distro=''
  local _cue_ros_setup='' _cue_setup
  if [ ! -f "$_cue_root/.venv/environment.sh" ]; then
    echo "env.sh: not set up yet; run: make -C $_cue_root setup" >&2
    return 1
  fi
  # shellcheck disable=SC1091  # written by scripts/workspace.py
  . "$_cue_root/.venv/environment.sh"
  if [ "$_cue_built_for" != "$_cue_root" ]; then
    echo "env.sh: $_cue_root was set up as $_cue_built_for; run: make -C $_cue_root setup" >&2
    return 1
  fi

  if [ -n "$_cue_ros_setup" ]; then
    if [ -z "${AMENT_PREFIX_PATH:-}" ]; then
      # ROS 2 was sourced at set-up: it is needed here too, and its scripts read unset variables.
      _cue_setup=$_cue_ros_setup/setup.${ZSH_VERSION:+z}
      [ -n "${ZSH_VERSION:-}" ] || _cue_setup=${_cue_setup}ba
      case $- in
        *u*)
          set +u
          # shellcheck disable=SC1090
          . "${_cue_setup}sh"
          set -u
          ;;
        *)
          # shellcheck disable=SC1090
          . "${_cue_setup}sh"
          ;;
      esac
    fi
  else
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1 # the library path is set here, so Python need not start twice
  fi
  export ROS_DISTRO=$_cue_ros_distro ROS_VERSION=2 ROS_PYTHON_VERSION=3
  export VIRTUAL_ENV=$_cue_root/.venv CUE_ROOT=$_cue_root
  _cue_prepend AMENT_PREFIX_PATH "$_cue_prefixes"
  _cue_prepend CMAKE_PREFIX_PATH "$_cue_prefixes"
  _cue_prepend LD_LIBRARY_PATH "$_cue_libraries"
  _cue_prepend PYTHONPATH "$_cue_modules"
  _cue_prepend PATH "$_cue_programs"

  # Nodes find each other on this machine only, unless the user wants more.
  export ROS_AUTOMATIC_DISCOVERY_RANGE=${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}
  # Without a screen MuJoCo renders through EGL.
  [ -n "${DISPLAY:-}${MUJOCO_GL:-}" ] || export MUJOCO_GL=egl
  hash -r 2>/dev/null || true
}

_cue_status=0
_cue_activate || _cue_status=$?
unset -f _cue_prepend _cue_activate
unset _cue_file _cue_root
if [ "$_cue_status" -ne 0 ]; then
  unset _cue_status
  # shellcheck disable=SC2317  # `false` is for a shell that executes this file
  return 1 2>/dev/null || false
else
  unset _cue_status
fi
