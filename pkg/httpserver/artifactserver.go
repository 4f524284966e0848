package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Artifacts renders what is served. An error that is lifecycle.ErrClosed means
// that the instance may fetch nothing any more and is answered as if the
// Authorizer had refused; lifecycle.ErrNotAllocated that there is nothing to
// fetch; any other that asking again may help.
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
	// Limits bound the requests; the zero value is the defaults.
	Limits Limits
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is
	// believed: see SourceOf. Nil believes nobody. The proxies should set it, else
	// all that they forward share their limits.
	TrustedProxies []netip.Prefix
	// Registerer may be nil: the metrics are registered nowhere.
	Registerer prometheus.Registerer
	// Logger may be nil for slog.Default().
	Logger *slog.Logger
}

var errNoAuthorizer = errors.New("no authorizer: who may fetch artifacts must be decided")

// NewArtifactServer opens the port and returns a server of the three artifact
// routes. auth must not be nil; AnyCaller lets everyone in.
func NewArtifactServer(a Artifacts, auth Authorizer, cfg ArtifactConfig) (*Server, error) {
	s, err := newArtifactServer(a, auth, cfg, listen)
	if err != nil {
		return nil, fmt.Errorf("artifact server: %w", err)
	}
	return s, nil
}

func newArtifactServer(a Artifacts, auth Authorizer, cfg ArtifactConfig, open func(address string) (net.Listener, error)) (*Server, error) {
	if auth == nil {
		return nil, errNoAuthorizer
	}
	cfg.Logger = orDefault(cfg.Logger)
	trusted, err := newNetworks(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := newTLSConfig(cfg, cfg.Logger)
	if err != nil {
		return nil, err
	}
	listener, err := open(cfg.Address)
	if err != nil {
		return nil, err
	}
	return newServer(serverConfig{
		listener: capConnections(listener, trusted, cfg.Logger),
		handler:  newArtifactHandler(a, auth, trusted, cfg),
		tls:      tlsConfig,
		shutdown: artifactShutdown,
		log:      cfg.Logger,
	}), nil
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
