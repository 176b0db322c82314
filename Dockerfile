# The platform on one machine (docs/self-host.md). Not the sandboxes' image of AWS, which is runner/Dockerfile.
# The base needs Debian, perl and Node 24 with npm; it comes from Amazon's public mirror, which asks for no account.
ARG BASE=public.ecr.aws/docker/library/node:24-bookworm

FROM ${BASE} AS packages
WORKDIR /platform
COPY package.json package-lock.json ./
COPY cli/package cli/package
COPY dashboard/package.json dashboard/package.json
# The base has Node itself; no package of the platform builds anything.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund && rm -rf node_modules/.cache

# The dashboard and the documentation, which need none of their packages once they are built.
FROM ${BASE} AS pages
WORKDIR /platform
COPY package.json package-lock.json ./
COPY cli/package cli/package
COPY dashboard/package.json dashboard/package.json
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY cli cli
COPY client client
COPY core core
COPY dashboard dashboard
COPY docs docs
COPY examples examples
COPY local local
COPY scripts scripts
COPY README.md ./
RUN node node_modules/vite/bin/vite.js build --configLoader native --logLevel warn dashboard && node scripts/build-docs-site.ts

FROM ${BASE}
# Agents in Python need python3, and pip for their packages.
ARG PACKAGES="ca-certificates curl git python3 python3-pip"
RUN if [ -n "$PACKAGES" ]; then apt-get update && apt-get install -y --no-install-recommends $PACKAGES; fi \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt \
  && mkdir /data && chown 1000:1000 /data && chmod 700 /data
WORKDIR /platform
COPY --from=packages /platform/node_modules node_modules
COPY package.json LICENSE ./
COPY adapters adapters
COPY cli cli
COPY client client
COPY core core
COPY --from=pages /platform/dashboard/dist dashboard/dist
COPY --from=pages /platform/dist/docs-site dist/docs-site
COPY docs docs
COPY local local
COPY runner runner
COPY sdk sdk
COPY examples examples
RUN ln -s /platform/cli/package/platform.js /usr/local/bin/platform
USER 1000:1000
# `npm run release -- version` sets it.
LABEL org.opencontainers.image.title="agent-platform" org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="0.1.0"
# All settings are variables: docs/settings.md.
ENV NODE_ENV=production HOME=/tmp PLATFORM_DATA=/data PLATFORM_HOST=0.0.0.0
WORKDIR /data
VOLUME /data
EXPOSE 4280
# Calls under way may end first: `docker stop --time 310`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "--max-semi-space-size=8", "/platform/local/start.ts"]
