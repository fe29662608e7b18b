"""Replication of four papers on the geometry of embedding spaces. Import the part that you need."""
