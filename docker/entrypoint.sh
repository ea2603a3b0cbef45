#!/usr/bin/env bash
# Runs a command with ROS 2 and CUE activated: this folder's own workspace if there is one, else the image's.
set -eo pipefail # not -u: ROS's setup reads unset variables

# shellcheck disable=SC1090  # which ROS 2 it is, the image says
source "/opt/ros/${ROS_DISTRO:?no ROS 2 in this image}/setup.bash"
workspace=/opt/cue
if [[ -f env.sh && -f .venv/environment.sh ]]; then
  workspace=$PWD
fi
if [[ -f $workspace/.venv/environment.sh ]]; then
  # shellcheck disable=SC1091
  source "$workspace/env.sh"
fi
exec "$@"
