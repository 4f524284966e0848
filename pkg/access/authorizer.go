package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity"
)

// Verifier verifies signed instance identity documents.
type Verifier interface {
	Verify(encoded string) (instanceidentity.Document, error)
}

// Instances answers what EC2 knows of one instance, or with an error that is
// instance.ErrNotFound. Strangers decide how often it is asked.
type Instances interface {
	Instance(ctx context.Context, id instance.ID) (instance.Instance, error)
}

// Gate knows without a call for which instances the endpoint is closed.
type Gate interface {
	// Open returns an error when it is.
	Open(id instance.ID) error
	// Reissued reports whether an operator opened it again on purpose.
	Reissued(id instance.ID) bool
}

// Config says what else is asked of a caller.
type Config struct {
	// MaxAge is how long after its start an instance may fetch; 1 hour when zero.
	// An operator's reissue lifts it.
	MaxAge time.Duration
	// PublicAddress lets in requests that come from the instance's own public
	// addresses, Networks those that come from these. With neither, requests may
	// come from anywhere.
	PublicAddress bool
	Networks      []netip.Prefix
}

const (
	defaultMaxAge = time.Hour
	// skew is how far AWS's clock and ours may differ.
	skew = 5 * time.Minute
	// youth is how long after an instance's start EC2's answers may lack it or
	// show the state before.
	youth = 2 * time.Minute
)

// Authorizer lets an instance fetch its own artifacts. It implements
// httpserver.Authorizer.
type Authorizer struct {
	verifier  Verifier
	instances Instances
	gate      Gate
	cfg       Config
}

// New returns an Authorizer.
func New(v Verifier, instances Instances, gate Gate, cfg Config) *Authorizer {
	if cfg.MaxAge == 0 {
		cfg.MaxAge = defaultMaxAge
	}
	return &Authorizer{verifier: v, instances: instances, gate: gate, cfg: cfg}
}

// Authorize returns nil when the request carries the instance's own document and
// the instance is joining. The checks go from cheap to dear: the document, what
// is known without a call, EC2. What the instance was given is read only by who
// renders it, once all of this has passed.
func (a *Authorizer) Authorize(r *http.Request, id instance.ID) error {
	encoded, err := credentials(r)
	if err != nil {
		return err
	}
	document, err := a.verifier.Verify(encoded)
	if err != nil {
		return err
	}
	if document.InstanceID != id {
		return refuse(reasonInstance, "the document is instance %s's", document.InstanceID)
	}
	if err := a.checkAge(document); err != nil {
		return err
	}
	if err := a.gate.Open(id); err != nil {
		return err
	}
	inst, err := a.living(r.Context(), document)
	if err != nil {
		return err
	}
	return a.checkSource(httpserver.SourceOf(r), inst)
}

func (a *Authorizer) checkAge(d instanceidentity.Document) error {
	age := time.Since(d.PendingTime)
	switch {
	case age < -skew:
		return refuse(reasonAge, "the document is of an instance that starts in %s: is the clock right?", (-age).Round(time.Second))
	case age > a.cfg.MaxAge && !a.gate.Reissued(d.InstanceID):
		return refuse(reasonAge, "the instance started %s ago, more than %s: dynk8s-provisioner reissue lets it in again",
			age.Round(time.Second), a.cfg.MaxAge)
	}
	return nil
}

// living returns what EC2 says of an instance that it says is pending or
// running.
func (a *Authorizer) living(ctx context.Context, d instanceidentity.Document) (instance.Instance, error) {
	inst, err := a.instances.Instance(ctx, d.InstanceID)
	young := time.Since(d.PendingTime) < youth
	switch {
	case errors.Is(err, instance.ErrNotFound) && !young:
		return inst, refuse(reasonState, "EC2 does not know the instance: are region and account right?")
	case err != nil:
		return inst, fmt.Errorf("%w: %w", httpserver.ErrUndecided, err)
	case inst.State.Starting():
		return inst, nil
	case young && !inst.State.Ending():
		return inst, fmt.Errorf("%w: EC2 still says %s", httpserver.ErrUndecided, inst.State)
	default:
		return inst, refuse(reasonState, "the instance is %s", inst.State)
	}
}

func (a *Authorizer) checkSource(source netip.Addr, inst instance.Instance) error {
	if !a.cfg.PublicAddress && len(a.cfg.Networks) == 0 {
		return nil
	}
	if a.cfg.PublicAddress && slices.Contains(inst.PublicAddresses, source) {
		return nil
	}
	if slices.ContainsFunc(a.cfg.Networks, func(n netip.Prefix) bool { return n.Contains(source) }) {
		return nil
	}
	return refuse(reasonSource, "the request comes from %s", source)
}
