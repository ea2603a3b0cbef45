"""Mends the CMake exports of the ROS 2 wheels, which carry the paths of the machine that built them."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Mapping
from pathlib import Path

# The builder's interpreter lay in a folder such as /opt/python/cp311-cp311.
_BUILDER_INCLUDE = re.compile(r"/opt/python/[^/;\"]+/include/python3\.\d+")
_BUILDER_PACKAGES = re.compile(r"/opt/python/[^/;\"]+/lib/python3\.\d+/site-packages")


def mend_text(text: str, paths: Mapping[str, str]) -> str:
    """Replaces the builder's folders in one CMake file.

    Args:
        text: What the file says.
        paths: This interpreter's folders, named as `sysconfig.get_paths` names them.

    Returns:
        The text with `include` and `purelib` of this interpreter; unchanged where nothing is foreign.
    """
    text = _BUILDER_INCLUDE.sub(lambda _: paths["include"], text)
    return _BUILDER_PACKAGES.sub(lambda _: paths["purelib"], text)


def mend(prefix: Path, paths: Mapping[str, str] | None = None) -> int:
    """Mends every CMake export below `prefix/share`; a second call changes nothing.

    Args:
        prefix: The virtual environment the wheels are installed in.
        paths: This interpreter's folders; those of the running one by default.

    Returns:
        The number of files changed.
    """
    paths = paths or sysconfig.get_paths()
    changed = 0
    for file in sorted(prefix.glob("share/*/cmake/*.cmake")):
        text = file.read_text(encoding="utf-8")
        mended = mend_text(text, paths)
        if mended != text:
            # A wheel may be a hard link into a cache: write a new file, never through the link.
            file.unlink()
            file.write_text(mended, encoding="utf-8")
            changed += 1
    return changed


if __name__ == "__main__":
    import sys

    print(f"{mend(Path(sys.prefix))} CMake exports mended")
