# The program alone, on nothing: no shell, no package, no user database.
#
#   docker buildx build --build-arg VERSION=v1.2.3 --platform linux/amd64,linux/arm64 .
#
# Base images are arguments, so that they can be pinned by digest or come from
# a registry of one's own. The same source and Go version give the same binary.
ARG GO_IMAGE=docker.io/library/golang:1.26.8
ARG BASE_IMAGE=scratch

# Go compiles for any platform on any platform: no emulation.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=""
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X main.version=${VERSION}" -o /out/dynk8s-provisioner ./cmd/dynk8s-provisioner

FROM ${BASE_IMAGE}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/dynk8s-provisioner /dynk8s-provisioner
ENV PATH=/
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/dynk8s-provisioner"]
CMD ["run", "--config", "/etc/dynk8s/config.yaml"]
