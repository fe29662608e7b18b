"""A rehearsal of the full-scale study (`config/paper.yaml`): all of its sources synthetic, in the
file formats of their original hosts.
"""
