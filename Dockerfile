# The server of `elmo serve` for CPUs: the wheel with its compiled kernels, without a compiler.
#   docker build -t elmo .
#   docker run --rm -p 127.0.0.1:8000:8000 elmo --set 'allow_hosts=["localhost", "127.0.0.1"]'
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
# pip reads this variable. With the index of PyTorch's builds for CPUs, whose versions end in +cpu and
# which pip prefers, the image is a tenth of the size.
ARG PIP_EXTRA_INDEX_URL
WORKDIR /install
COPY constraints.txt ./
COPY --from=build /wheels ./
RUN pip install --no-cache-dir --constraint constraints.txt "$(ls ./*.whl)[serve,index]" \
    && rm -rf /install/* \
    && useradd --create-home --uid 1000 elmo
USER elmo
WORKDIR /home/elmo
# Two cores or more: set it to the cores that the container may use.
ENV OMP_NUM_THREADS=2 ELMO_KERNELS=prebuilt
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["elmo", "serve", "--host", "0.0.0.0", "--port", "8000"]
