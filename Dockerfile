# The server of `elmo serve` for CPUs: the wheel with its compiled kernels, without a compiler.
#   docker build -t elmo . && docker run --rm -p 127.0.0.1:8000:8000 elmo
FROM python:3.12-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
# PyTorch's own index has builds without CUDA, a tenth of the size of those on PyPI.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /tmp/wheels
# pip prefers them: their versions end in +cpu.
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" --constraint /tmp/constraints.txt \
        "$(ls /tmp/wheels/*.whl)[serve,index]" \
    && rm -rf /tmp/wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 elmo
USER elmo
WORKDIR /home/elmo
# Two cores or more: set it to the cores that the container may use.
ENV OMP_NUM_THREADS=2 ELMO_KERNELS=prebuilt
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["elmo", "serve", "--host", "0.0.0.0", "--port", "8000"]
