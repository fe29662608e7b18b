"""The Python of the workflow: papers, stages, records, pages and commands."""
