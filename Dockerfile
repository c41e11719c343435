# The image of `assizes`: this tree, and its dependencies from the lock with their hashes checked.
#
#     docker build -t assizes .
#     docker run --rm -v "$PWD:/data" -e OPENAI_API_KEY assizes run -c assizes.toml
#     docker run --rm -v "$PWD:/data" -p 127.0.0.1:8320:8320 -e ASSIZES_API_TOKEN assizes serve --host 0.0.0.0
#
# It runs as user 10001, who must be able to write to what is mounted at /data; `--user` names another.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /opt/builder && python -m venv /opt/assizes
COPY requirements.lock requirements-runtime.lock ./
RUN /opt/assizes/bin/python -m pip install --no-deps --require-hashes -r requirements-runtime.lock
# Of the lock of development only what builds a wheel.
RUN awk '/^[a-z]/ {keep = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/} keep' requirements.lock > builder.lock
RUN /opt/builder/bin/python -m pip install --no-deps --require-hashes -r builder.lock
COPY . .
RUN /opt/builder/bin/python -m hatchling build --target wheel --directory /build/dist
RUN /opt/assizes/bin/python -m pip install --no-deps --no-index --find-links /build/dist assizes

FROM python:${PYTHON}
RUN useradd --uid 10001 --create-home assizes && install --directory --owner 10001 --group 10001 /data
COPY --from=build /opt/assizes /opt/assizes
ENV PATH=/opt/assizes/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /data
USER 10001:10001
EXPOSE 8320
ENTRYPOINT ["assizes"]
CMD ["--help"]
