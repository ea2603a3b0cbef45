"""Boards on paper: a PDF of vector graphics, or a PNG that knows its resolution, both to exact scale."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from cue_core.errors import CueError
from cue_core.files import write_atomically
from cue_perception.boards import Board

PAPERS = {"a4": (297.0, 210.0), "a3": (420.0, 297.0), "letter": (279.4, 215.9)}
"""Widths and heights in landscape [mm]."""
_POINT = 72 / 25.4  # PDF's unit per mm
_DPI = 600
_LEAST_MARGIN = 4.0  # mm: printers leave this blank


def paper_size(text: str) -> tuple[float, float]:
    """Return width and height [mm] of a paper by name, or of ``WIDTHxHEIGHT``.

    Raises:
        CueError: it is neither.
    """
    if text.lower() in PAPERS:
        return PAPERS[text.lower()]
    width, _, height = text.lower().partition("x")
    try:
        size = float(width), float(height)
    except ValueError:
        size = 0.0, 0.0
    if not all(20 <= v <= 5000 for v in size):
        raise CueError(f"paper is {', '.join(PAPERS)} or WIDTHxHEIGHT in mm, not {text!r}")
    return size


def print_board(board: Board, path: Path | str, paper: str = "a4") -> None:
    """Write a board to a ``.pdf`` or ``.png`` file.

    Raises:
        CueError: another kind of file, a board that does not fit on the paper, or a file that cannot be written.
    """
    path = Path(path)
    size = paper_size(paper)
    board_mm = 1000 * board.square * board.columns, 1000 * board.square * board.rows
    room = [s - 2 * _LEAST_MARGIN for s in size]
    if board_mm[0] > room[0] or board_mm[1] > room[1]:
        fits = min(room[0] / board.columns, room[1] / board.rows)
        raise CueError(
            f"a board of {board_mm[0]:g} x {board_mm[1]:g} mm does not fit on {size[0]:g} x {size[1]:g} mm of paper;"
            f" squares of {np.floor(10 * fits) / 10:g} mm do, or a larger paper"
        )
    if path.suffix.lower() == ".pdf":
        write_atomically(path, _pdf(board, size, board_mm))
    elif path.suffix.lower() == ".png":
        write_atomically(path, _png(board, size, board_mm))
    else:
        raise CueError(f"a board is printed to a .pdf or .png file, not to {path.name}")


def _pdf(board: Board, size: tuple[float, float], board_mm: tuple[float, float]) -> bytes:
    """Return a PDF: one rectangle per run of black cells, and a ruler to check the printer's scale with."""
    left, bottom = (size[0] - board_mm[0]) / 2, (size[1] - board_mm[1]) / 2
    cell = 1000 * board.square / (board.cells.shape[0] / board.rows)
    marks = []
    for row, line in enumerate(board.cells):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(np.int8), [0]])))
        y = bottom + board_mm[1] - (row + 1) * cell
        for start, end in edges.reshape(-1, 2):
            # A hair higher than the cell, so that no viewer leaves white lines between rows.
            over = 0.0 if row == 0 or not board.cells[row - 1, start:end].all() else 0.05
            marks.append(_rectangle(left + start * cell, y, (end - start) * cell, cell + over))
    text = f"CUE {board.describe()} - print at 100 %, glue to something flat, measure a square"
    if bottom >= 7:
        marks.append(f"BT /F 7 Tf {left * _POINT:.4f} {(bottom - 3.2) * _POINT:.4f} Td ({text}) Tj ET")
        right, low = left + board_mm[0], bottom - 3.5
        marks.append(_rectangle(right - 100, low, 100, 0.25))
        marks += [_rectangle(right - 100 + 10 * k - 0.1, low, 0.2, 1.2) for k in range(11)]
        marks.append(f"BT /F 7 Tf {(right - 118) * _POINT:.4f} {low * _POINT:.4f} Td (100 mm:) Tj ET")
    content = zlib.compress("\n".join(marks).encode("ascii"))
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size[0] * _POINT:.4f} {size[1] * _POINT:.4f}]/Contents 4 0 R"
    objects = [
        # No scaling is the default of the print dialogue of viewers that heed this.
        b"<</Type/Catalog/Pages 2 0 R/ViewerPreferences<</PrintScaling/None>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"{page}/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>".encode(),
        b"<</Length %d/Filter/FlateDecode>>stream\n" % len(content) + content + b"\nendstream",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj" % number + body + b"endobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    return (
        out
        + b"xref\n0 %d\n0000000000 65535 f \n" % count
        + table
        + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(out))
    )


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return " ".join(f"{v * _POINT:.4f}" for v in (x, y, width, height)) + " re f"


def _png(board: Board, size: tuple[float, float], board_mm: tuple[float, float]) -> bytes:
    """Return a grey PNG whose resolution makes every cell a whole number of pixels."""
    per_square = board.cells.shape[0] // board.rows
    cell = max(round(1000 * board.square / per_square / 25.4 * _DPI), 1)
    per_mm = cell * per_square / (1000 * board.square)
    pattern = np.kron(board.cells, np.ones((cell, cell), bool))
    image = np.full((round(size[1] * per_mm), round(size[0] * per_mm)), 255, np.uint8)
    top, left = ((image.shape[k] - pattern.shape[k]) // 2 for k in (0, 1))
    image[top : top + pattern.shape[0], left : left + pattern.shape[1]][pattern] = 0

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.concatenate([np.zeros((len(image), 1), np.uint8), image], axis=1)
    per_metre = round(1000 * per_mm)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 0, 0, 0, 0))
        + chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1))
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
        + chunk(b"IEND", b"")
    )
