# syntax=docker/dockerfile:1
# docker build --tag epagcl .                       for CPUs
# docker build --tag epagcl:cuda --target cuda .    for NVIDIA GPUs
# Packages have the versions of constraints.txt. EXTRAS are those of pyproject.toml.
ARG EXTRAS=networkx,parquet,tune

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/epagcl/bin:$PATH
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
# torch for CUDA needs a triton of its own version, so that triton is not pinned.
RUN python -m venv /opt/epagcl && grep -v '^triton==' constraints.txt > /pins.txt

FROM build AS build-cpu
RUN pip install --constraint /pins.txt --index-url https://download.pytorch.org/whl/cpu torch
COPY epagcl epagcl
ARG EXTRAS
RUN pip install --constraint /pins.txt ".[${EXTRAS}]"

FROM build AS build-cuda
RUN pip install --constraint /pins.txt torch
COPY epagcl epagcl
ARG EXTRAS
RUN pip install --constraint /pins.txt ".[${EXTRAS}]"

FROM python:3.13-slim AS runtime
# Any user may run it (docker run --user), so that files in /work belong to whoever started the container.
RUN useradd --create-home --uid 1000 epagcl && chmod 0777 /home/epagcl && mkdir --mode=0777 /work
ENV HOME=/home/epagcl PATH=/opt/epagcl/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /work
ENTRYPOINT ["epagcl"]
CMD ["--help"]

FROM runtime AS cuda
# Triton compiles its kernels on first use, with a C compiler.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=build-cuda /opt/epagcl /opt/epagcl
USER 1000

FROM runtime AS cpu
COPY --from=build-cpu /opt/epagcl /opt/epagcl
USER 1000
