package host

import (
	"context"
	"fmt"
	"net/netip"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// Cluster tells how the cluster is reached.
type Cluster interface {
	ClusterInfo(ctx context.Context) (artifact.Cluster, error)
}

// Registrar adds hosts and takes them back. All its fields must be set.
type Registrar struct {
	Tokens  *bootstraptoken.HostIssuer
	Nodes   *node.Nodes
	Cluster Cluster
}

// Request says which host is to be added, and how it joins.
type Request struct {
	// Name is that of the host's Node; see artifact.ValidateHostName.
	Name string
	// Profile is the name of the profile that the settings are from, if any.
	Profile string
	Token   bootstraptoken.Settings
	Node    artifact.NodeSettings
	// NodeIP is for the kubelet; the zero Addr leaves the choice to it.
	NodeIP netip.Addr
	// Artifacts says how join configurations are written.
	Artifacts artifact.Config
}

// Added is what a host was given.
type Added struct {
	Token bootstraptoken.HostToken
	How   bootstraptoken.Ensured
	// Replaces says that there is a Node of the name that is not Ready.
	Replaces bool
	// Kubeconfig and JoinConfiguration hold the token: they are secret.
	Kubeconfig, JoinConfiguration []byte
}

// Add makes or renews the host's token and writes what kubeadm needs to join with
// it. It may be called again at any time.
func (r Registrar) Add(ctx context.Context, q Request) (Added, error) {
	if err := artifact.ValidateHostName(q.Name); err != nil {
		return Added{}, err
	}
	there, found, err := r.Nodes.Named(ctx, q.Name)
	switch {
	case err != nil:
		return Added{}, err
	case found && there.InstanceID != "":
		return Added{}, fmt.Errorf("node %s is that of EC2 instance %s: choose another name", q.Name, there.InstanceID)
	case found && there.Ready():
		return Added{}, fmt.Errorf("node %s is Ready, and kubeadm refuses to join beside it: choose another name, or delete that node first", q.Name)
	}
	cluster, err := r.Cluster.ClusterInfo(ctx)
	if err != nil {
		return Added{}, err
	}
	render := func(token bootstraptoken.Token) ([]byte, []byte, error) {
		return artifact.RenderHost(cluster, artifact.Host{Name: q.Name, Token: token, NodeIP: q.NodeIP}, q.Node, q.Artifacts)
	}
	// What cannot be rendered is known before there is a token.
	if _, _, err := render(bootstraptoken.NewToken("abcdef", "0123456789abcdef")); err != nil {
		return Added{}, err
	}
	added := Added{Replaces: found}
	added.Token, added.How, err = r.Tokens.Ensure(ctx, bootstraptoken.HostRequest{Name: q.Name, Profile: q.Profile, Settings: q.Token})
	if err != nil {
		return Added{}, err
	}
	added.Kubeconfig, added.JoinConfiguration, err = render(added.Token.Token)
	return added, err
}

// Removed is what was taken back.
type Removed struct {
	// TokenIDs are the public ids of the tokens that were revoked.
	TokenIDs []string
	// Node says that the host's Node was deleted.
	Node bool
}

// Remove revokes the tokens of a host and deletes its Node. A Node that does not
// carry the host's label was added by other means and is deleted only by force;
// that of an instance never. What was revoked before an error is told beside it.
func (r Registrar) Remove(ctx context.Context, name string, force bool) (Removed, error) {
	var removed Removed
	if err := artifact.ValidateHostName(name); err != nil {
		return removed, err
	}
	tokens, err := r.Tokens.FindAll(ctx, name)
	if err != nil {
		return removed, err
	}
	for _, token := range tokens {
		deleted, err := r.Tokens.Revoke(ctx, token)
		if err != nil {
			return removed, err
		}
		if deleted {
			removed.TokenIDs = append(removed.TokenIDs, token.Token.ID())
		}
	}
	there, found, err := r.Nodes.Named(ctx, name)
	switch {
	case err != nil || !found:
		return removed, err
	case there.InstanceID != "":
		return removed, fmt.Errorf("node %s is that of EC2 instance %s and stays", name, there.InstanceID)
	case there.Host != name && !force:
		return removed, fmt.Errorf("node %s stays: it has no label %s=%s, so it was not added by host add; --force deletes it all the same", name, bootstraptoken.HostLabel, name)
	}
	removed.Node, err = r.Nodes.DeleteNamed(ctx, there)
	return removed, err
}
