"""A rehearsal of the full-scale study (`config/paper.yaml`): all sources are synthetic, in the file
formats of their original hosts.
"""
