package nodeowner

import (
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// The token of a host may become the host's Node, once.
func TestOfTokenOfAHost(t *testing.T) {
	t.Parallel()
	living := bootstraptoken.HostToken{Host: "worker-1", Expires: time.Now().Add(time.Hour)}
	for name, tt := range map[string]struct {
		change func(*facts, *bootstraptoken.HostToken)
		err    error
		want   string
	}{
		"joining":              {func(*facts, *bootstraptoken.HostToken) {}, nil, yes},
		"no such token":        {func(*facts, *bootstraptoken.HostToken) {}, bootstraptoken.ErrNotFound, notOurs},
		"API server is away":   {func(*facts, *bootstraptoken.HostToken) {}, errAway, later},
		"expired":              {func(_ *facts, h *bootstraptoken.HostToken) { h.Expires = time.Now() }, nil, refused},
		"named as an instance": {func(_ *facts, h *bootstraptoken.HostToken) { h.Host = string(instanceA) }, nil, refused},
		"has joined": {func(f *facts, _ *bootstraptoken.HostToken) {
			f.named = node.Node{Name: "worker-1", ReadySince: time.Now()}
		}, nil, refused},
		"comes back": {func(f *facts, _ *bootstraptoken.HostToken) { f.named = node.Node{Name: "worker-1"} }, nil, yes},
		"an instance's node": {func(f *facts, _ *bootstraptoken.HostToken) {
			f.named = node.Node{Name: "worker-1", InstanceID: instanceA}
		}, nil, refused},
		"nodes cannot be read":     {func(f *facts, _ *bootstraptoken.HostToken) { f.namedErr = errAway }, nil, later},
		"EC2 has nothing to do":    {func(f *facts, _ *bootstraptoken.HostToken) { f.instErr = errAway }, nil, yes},
		"claims cannot be read":    {func(f *facts, _ *bootstraptoken.HostToken) { f.claimErr = errAway }, nil, later},
		"an instance's by its own": {func(f *facts, _ *bootstraptoken.HostToken) { f.claimErr = nil }, nil, yes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts(t)
			f.claimErr = bootstraptoken.ErrNotFound
			token := living
			f.hosts = func(id string) (bootstraptoken.HostToken, error) {
				if id != "abcdef" {
					t.Errorf("asked for token %s", id)
				}
				return token, tt.err
			}
			tt.change(f, &token)
			got, err := f.owners().OfToken(t.Context(), "abcdef")
			if kindOf(err) != tt.want {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			isHost := f.claimErr != nil
			if tt.want == yes && (got.Host != isHost || (got.InstanceID == "") != isHost || (got.NodeName == "worker-1") != isHost) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
