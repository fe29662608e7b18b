# The environment of requirements.lock with the workflow in it: docker build -t isotropy .
# For torch's build for CPUs, which is not on PyPI: --build-arg PIP_EXTRA_INDEX_URL=ADDRESS, torch's own documentation has it.
FROM python:3.11-slim

ARG PIP_EXTRA_INDEX_URL
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends make npm && rm -rf /var/lib/apt/lists/*
WORKDIR /isotropy
COPY . .
RUN make environment VENV=/opt/isotropy && rm -rf /root/.cache
ENV PATH=/opt/isotropy/bin:$PATH
CMD ["isotropy", "--help"]
