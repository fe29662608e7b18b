"""Replication of papers on the geometry of embedding spaces. Import the part that you need."""

__version__ = "0.3.0.dev0"
