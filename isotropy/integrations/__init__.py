"""The metrics and penalties in other libraries: a module for each, which needs that library."""
