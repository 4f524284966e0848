package main

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/util/flowcontrol"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// serving marks the calls to the API server that an instance's request brings
// about, so that they have a rate of their own. What instances ask the API server
// for, certificates, belongs to it too.
//
// Until the caches have synced nothing is served: without the Nodes an instance
// that has joined looks like one that has not.
type serving struct {
	renderer *artifact.Renderer
	synced   *atomic.Bool
}

type servingKey struct{}

var errNotSynced = errors.New("the caches of the API server's objects have not synced")

func mark(ctx context.Context) context.Context { return context.WithValue(ctx, servingKey{}, true) }

func (s serving) WireGuardConfig(ctx context.Context, id instance.ID) ([]byte, error) {
	return s.render(ctx, id, s.renderer.WireGuardConfig)
}

func (s serving) Kubeconfig(ctx context.Context, id instance.ID) ([]byte, error) {
	return s.render(ctx, id, s.renderer.Kubeconfig)
}

func (s serving) JoinConfiguration(ctx context.Context, id instance.ID) ([]byte, error) {
	return s.render(ctx, id, s.renderer.JoinConfiguration)
}

func (s serving) render(ctx context.Context, id instance.ID, f func(context.Context, instance.ID) ([]byte, error)) ([]byte, error) {
	if !s.synced.Load() {
		return nil, errNotSynced
	}
	return f(mark(ctx), id)
}

// byPurpose is a rate limiter with two buckets, so that no number of requests of
// instances holds up the handling of events.
type byPurpose struct {
	flowcontrol.RateLimiter // of all that is not serving
	serving                 flowcontrol.RateLimiter
}

func newRateLimiter(qps float32, burst int) flowcontrol.RateLimiter {
	return byPurpose{flowcontrol.NewTokenBucketRateLimiter(qps, burst), flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
}

// Wait waits for the bucket that the call belongs to.
func (b byPurpose) Wait(ctx context.Context) error {
	if ctx.Value(servingKey{}) != nil {
		return b.serving.Wait(ctx)
	}
	return b.RateLimiter.Wait(ctx)
}
