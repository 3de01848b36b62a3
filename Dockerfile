# The image of docker-compose.yml: runner and ledgerctl, nothing else of ours.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Both binaries are pure Go, SQLite included.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/ ./cmd/runner ./cmd/ledgerctl

FROM alpine:3
RUN adduser -D -H -u 10001 daybook
COPY --from=build /out/ /usr/local/bin/
USER daybook
CMD ["runner", "worker"]
