package artifact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// Grants tells what an instance was given. It answers with
// lifecycle.ErrNotAllocated when the instance holds nothing; any other error
// means that asking again may help.
type Grants interface {
	Grant(ctx context.Context, id instance.ID) (lifecycle.Grant, error)
}

// ClusterInfo tells how the cluster is reached.
type ClusterInfo interface {
	ClusterInfo(ctx context.Context) (Cluster, error)
}

// errOtherInstance guards the promise that nobody sees another's secrets.
var errOtherInstance = errors.New("the grant belongs to another instance")

// Renderer renders the artifacts of instances. It is safe for concurrent use.
type Renderer struct {
	grants   Grants
	cluster  ClusterInfo
	cfg      Config
	log      *slog.Logger
	settings atomic.Pointer[map[string]NodeSettings]
}

// New returns a Renderer that knows no profile's node settings yet.
func New(g Grants, c ClusterInfo, cfg Config) *Renderer {
	cfg = cfg.withDefaults()
	r := &Renderer{grants: g, cluster: c, cfg: cfg, log: cfg.Logger}
	r.SetNodeSettings(nil)
	return r
}

// SetNodeSettings replaces the node settings of the named profiles. Those of
// profiles that are not named stay: instances that were admitted under them may
// still be joining. What the settings hold must not be changed afterwards. Calls
// must not overlap.
func (r *Renderer) SetNodeSettings(byProfile map[string]NodeSettings) {
	settings := map[string]NodeSettings{}
	if before := r.settings.Load(); before != nil {
		maps.Copy(settings, *before)
	}
	maps.Copy(settings, byProfile)
	r.settings.Store(&settings)
}

// WireGuardConfig returns the instance's wg-quick configuration, byte for byte
// as the operator wrote it.
func (r *Renderer) WireGuardConfig(ctx context.Context, id instance.ID) ([]byte, error) {
	grant, err := r.grant(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("wireguard config: %w", err)
	}
	return renderWireGuardConfig(grant)
}

// Kubeconfig returns the instance's discovery kubeconfig.
func (r *Renderer) Kubeconfig(ctx context.Context, id instance.ID) ([]byte, error) {
	// The grant comes first: who has none costs no read of cluster-info.
	grant, err := r.grant(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	cluster, err := r.cluster.ClusterInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	return renderKubeconfig(cluster, grant.Token, r.cfg)
}

// JoinConfiguration returns the instance's kubeadm JoinConfiguration.
func (r *Renderer) JoinConfiguration(ctx context.Context, id instance.ID) ([]byte, error) {
	grant, err := r.grant(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("join configuration: %w", err)
	}
	return renderJoinConfiguration(grant, r.settingsOf(grant), r.cfg)
}

// NodeName returns the name that the join configuration gives to the Node of an
// instance. Nothing secret of the grant is needed.
func (r *Renderer) NodeName(g lifecycle.Grant) (string, error) { return NodeName(r.settingsOf(g), g) }

func (r *Renderer) grant(ctx context.Context, id instance.ID) (lifecycle.Grant, error) {
	grant, err := r.grants.Grant(ctx, id)
	if err != nil {
		return lifecycle.Grant{}, err
	}
	if grant.Instance != id {
		return lifecycle.Grant{}, errOtherInstance
	}
	return grant, nil
}

// settingsOf falls back to the default: an instance admitted under a profile
// that was removed before the program started can still join.
func (r *Renderer) settingsOf(grant lifecycle.Grant) NodeSettings {
	settings, found := (*r.settings.Load())[grant.Profile]
	if !found {
		r.log.Warn("profile is not configured any more, default node settings are used",
			"instance", grant.Instance, "profile", grant.Profile)
	}
	return settings
}
