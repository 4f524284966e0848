package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Artifacts renders what is served. Errors that are lifecycle.ErrNotAllocated
// mean that the instance has nothing to fetch, any other that asking again may
// help.
type Artifacts interface {
	WireGuardConfig(ctx context.Context, id instance.ID) ([]byte, error)
	Kubeconfig(ctx context.Context, id instance.ID) ([]byte, error)
	JoinConfiguration(ctx context.Context, id instance.ID) ([]byte, error)
}

// ArtifactConfig says where artifacts are served.
type ArtifactConfig struct {
	// Address is the host and port to listen on, such as ":8080".
	Address string
	// CertFile and KeyFile are PEM files, read again when they change. Both
	// empty means plain HTTP.
	CertFile, KeyFile string
	// Registerer may be nil: the metrics are registered nowhere.
	Registerer prometheus.Registerer
	// Logger may be nil for slog.Default().
	Logger *slog.Logger
}

var errNoAuthorizer = errors.New("no authorizer: who may fetch artifacts must be decided")

// NewArtifactServer opens the port and returns a server of the three artifact
// routes. auth must not be nil; AnyCaller lets everyone in.
func NewArtifactServer(a Artifacts, auth Authorizer, cfg ArtifactConfig) (*Server, error) {
	if auth == nil {
		return nil, fmt.Errorf("artifact server: %w", errNoAuthorizer)
	}
	log := orDefault(cfg.Logger)
	tlsConfig, err := newTLSConfig(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("artifact server: %w", err)
	}
	s, err := newServer(cfg.Address, newArtifactHandler(a, auth, cfg.Registerer, log), tlsConfig, artifactShutdown, log)
	if err != nil {
		return nil, fmt.Errorf("artifact server: %w", err)
	}
	return s, nil
}

var errHalfTLS = errors.New("certificate file and key file must be given both or not at all")

// newTLSConfig returns nil when cfg names no files.
func newTLSConfig(cfg ArtifactConfig, log *slog.Logger) (*tls.Config, error) {
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return nil, nil
	}
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, errHalfTLS
	}
	c, err := newCertificate(cfg.CertFile, cfg.KeyFile, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

func orDefault(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
