"""Everything but nodes and the ROS edge can be imported without ROS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
ROS_EDGE = {"cue_core.ros", "cue.ros_launch"}
PACKAGES = ("cue_core", "cue_perception", "cue_sim", "cue_identify", "cue_agent", "cue_arm", "cue")

BLOCK = """
import importlib, importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {'rclpy', 'cue_msgs', 'sensor_msgs', 'geometry_msgs', 'launch', 'launch_ros'}:
            raise ImportError('ROS is blocked: ' + name)
sys.meta_path.insert(0, Block())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def pure_modules(package: str) -> list[str]:
    root = SOURCE / package / package
    names = []
    for path in sorted(root.rglob("*.py")):
        name = ".".join((package, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        if not name.endswith("_node") and not any(name.startswith(edge) for edge in ROS_EDGE):
            names.append(name)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_core_modules_import_without_ros(package: str) -> None:
    modules = pure_modules(package)
    assert modules
    done = subprocess.run([sys.executable, "-c", BLOCK, *modules], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
