# One image for every part: `serve`, `gateway api`, `gateway worker`, `gateway migrate`.
#   docker build -t dsh-lightrag .
# The base is named by digest; `docker buildx imagetools inspect python:3.12-slim-bookworm` tells
# the present one.
FROM python:3.12-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3 AS build
COPY . /source
RUN python -m venv /app && /app/bin/pip install --no-cache-dir '/source[gateway,postgres]'

FROM python:3.12-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3
COPY --from=build /app /app
RUN useradd --system --uid 10001 --user-group dsh \
    && install -d -o dsh -g dsh -m 0700 /data
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001:10001
VOLUME /data
ENTRYPOINT ["dsh-lightrag"]
CMD ["--help"]
