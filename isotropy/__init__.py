"""Metrics, transforms and penalties for embedding spaces. Import the part that you need."""

from importlib import import_module
from typing import Any

__version__ = "1.0.0"

# Imported on first use, and by name: no job's code identity contains them
_MODULE_OF = {
    "compare": "isotropy.measurement.api",
    "measure": "isotropy.measurement.api",
    "plot_layers": "isotropy.measurement.plot",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
