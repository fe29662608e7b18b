"""The script that draws interactive figures: uPlot 1.6.32 by Leon Sorokin (MIT), as npm has it, and
the drawing on top of it. All pages share it, and load it when a reader asks for values.
"""

from __future__ import annotations

import json
from pathlib import Path

from replication.palette import SERIES

FOLDER = Path(__file__).parent
FILE = "index.explore.js"
"""Its name in the folder of the results, where it belongs to the start page."""


def explore_script() -> str:
    """Return the text of the script."""
    licence, library, style, drawing = (
        (FOLDER / f"explore.{name}").read_text("utf8")
        for name in ("licence.js", "uPlot.js", "uPlot.css", "js")
    )
    values = {"EXPLORE_STYLE": style, "EXPLORE_COLOURS": SERIES}
    constants = [f"const {name} = {json.dumps(value)};\n" for name, value in values.items()]
    return "".join([licence, library, *constants, drawing])
