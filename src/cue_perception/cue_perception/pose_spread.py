"""What an uncertain camera pose makes of positions on the bed."""

from __future__ import annotations

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera

_COLUMNS, _ROWS = 9, 5
_STEP = 1e-5  # m and rad


class PoseSpread:
    """Covariance of ball centres that comes from the covariance of the camera's pose; looked up in a grid."""

    def __init__(self, camera: Camera, covariance: np.ndarray, table: TableModel) -> None:
        """Fill the grid.

        Args:
            camera: pose as estimated.
            covariance: (6, 6) over (x, y, z, rot_x, rot_y, rot_z) of table_from_camera [m^2, rad^2].
            table: geometry.
        """
        self._half = np.array([table.length, table.width]) / 2
        x, y = np.linspace(-self._half[0], self._half[0], _COLUMNS), np.linspace(-self._half[1], self._half[1], _ROWS)
        places = np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
        height = table.ball_radius
        pixels = camera.project(np.column_stack([places, np.full(len(places), height)]))
        jacobian = np.zeros((len(places), 2, 6))
        for k in range(6):
            step = np.zeros(6)
            step[k] = _STEP
            table_from_camera = cv2.Rodrigues(step[3:])[0] @ camera.rotation.T
            moved = Camera(camera.intrinsics, table_from_camera.T, -table_from_camera.T @ (camera.position + step[:3]))
            jacobian[:, :, k] = (moved.on_plane(pixels, height) - places) / _STEP
        spread = jacobian @ np.asarray(covariance, float) @ np.swapaxes(jacobian, 1, 2)
        self._grid = spread.reshape(_COLUMNS, _ROWS, 2, 2)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the covariances (n, 2, 2) [m^2] at positions (n, 2) [m]."""
        place = (positions / self._half + 1) / 2 * [_COLUMNS - 1, _ROWS - 1]
        place = np.clip(place, 0, [_COLUMNS - 1, _ROWS - 1])
        low = np.minimum(place.astype(int), [_COLUMNS - 2, _ROWS - 2])
        a, b = ((place - low).T)[..., None, None]
        i, j = low.T
        g = self._grid
        near = (1 - b) * g[i, j] + b * g[i, j + 1]
        far = (1 - b) * g[i + 1, j] + b * g[i + 1, j + 1]
        return np.asarray((1 - a) * near + a * far)
