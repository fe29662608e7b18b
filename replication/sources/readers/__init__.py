"""Readers, a module per format: from payload files, as published, to rows or vectors.

A reader is a function `read(content, folder)`; `sources.formats` loads it by the format's
name. Jobs import no reader: the code digest of a job covers only the formats of its sources.
"""
