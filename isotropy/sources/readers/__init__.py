"""Readers: a module per format, from payload files as their home publishes them to rows or vectors.

A reader is `read(content, folder)`; `isotropy.sources.formats` loads it by the format's name. Jobs
import none of them: the code of a job is that of the formats that its sources have.
"""
