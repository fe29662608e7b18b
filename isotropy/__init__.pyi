"""What `isotropy` offers, for type checkers and editors."""

from isotropy.measurement.api import compare as compare
from isotropy.measurement.api import measure as measure
from isotropy.measurement.plot import plot_layers as plot_layers

__version__: str
