"""Sizes of pictures on pages."""

from __future__ import annotations

import struct
from pathlib import Path

PIXELS_PER_CSS_PIXEL = 2
"""Figures have twice the resolution of a usual screen."""


def size(png: Path) -> tuple[int, int]:
    """Width and height of a PNG on a page, from its header (PNG specification, 11.2.1). They keep
    the layout fixed while pictures load.
    """
    with png.open("rb") as stream:
        width, height = struct.unpack(">II", stream.read(24)[16:])
    return width // PIXELS_PER_CSS_PIXEL, height // PIXELS_PER_CSS_PIXEL
