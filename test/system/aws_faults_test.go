//go:build linux

package system

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/faultproxy"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// throughProxies puts a proxy in front of SQS and one in front of EC2. The
// returned function starts a daemon that asks through them.
func (w *world) throughProxies() (sqs, ec2 *faultproxy.Proxy, start func(extra string) *daemon.Daemon) {
	w.t.Helper()
	env := w.stack.Env()
	proxies := map[string]*faultproxy.Proxy{}
	overrides := map[string]string{}
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"} {
		p, err := faultproxy.AWS(env[name])
		must(w.t, err)
		w.t.Cleanup(p.Stop)
		proxies[name], overrides[name] = p, p.URL()
	}
	return proxies["AWS_ENDPOINT_URL"], proxies["AWS_ENDPOINT_URL_EC2"], func(extra string) *daemon.Daemon {
		w.t.Helper()
		w.replicas++
		return w.startNamed(fmt.Sprintf("replica-%d", w.replicas), w.configText(extra), overrides)
	}
}

// befell checks that a fault was at work at all.
func befell(t *testing.T, rule *faultproxy.Rule, least int) {
	t.Helper()
	if hits := rule.Hits(); hits < least {
		t.Errorf("the fault befell %d requests, want at least %d: this test tested nothing", hits, least)
	}
}

// seenMore returns nil once an operation was asked for that many times more.
func seenMore(p *faultproxy.Proxy, operation string, more int) func() error {
	before := p.Seen()[operation]
	return func() error {
		if n := p.Seen()[operation] - before; n < more {
			return fmt.Errorf("%s was asked for %d times, want %d", operation, n, more)
		}
		return nil
	}
}

// AWS throttles every kind of call, breaks down now and then and is slow; then
// all is done as if it had not been so.
func TestThrottlingIsWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(6)
	sqs, ec2, start := w.throughProxies()
	slow := ec2.On("DescribeInstances", faultproxy.First(2), faultproxy.Delay(2*time.Second)) // those that are not throttled
	rules := []*faultproxy.Rule{
		ec2.On("DescribeInstances", faultproxy.First(8), faultproxy.EC2Error(http.StatusServiceUnavailable, "RequestLimitExceeded")),
		sqs.On("ReceiveMessage", faultproxy.First(5), faultproxy.SQSError(http.StatusBadRequest, "RequestThrottled")),
		sqs.On("DeleteMessageBatch", faultproxy.First(4), faultproxy.SQSError(http.StatusInternalServerError, "InternalFailure")),
		sqs.On("ChangeMessageVisibilityBatch", faultproxy.First(4), faultproxy.SQSError(http.StatusServiceUnavailable, "ServiceUnavailable")),
	}
	ids := w.launch(5)
	w.announce(instance.Running, ids...)
	d := start(slowReconcile)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	befell(t, slow, 1)
	for _, rule := range rules[:3] { // whether a visibility is changed depends on the others
		befell(t, rule, 4)
	}
	w.eventually("throttling counted", func() error {
		return w.metricAtLeast(d, `dynk8s_aws_requests_total{code="RequestLimitExceeded",operation="DescribeInstances",service="EC2"}`, 8)
	})
}

// EC2 answers for a while as if there were no instances: the living lose
// nothing, those that are announced meanwhile are given what they need
// afterwards.
func TestEmptyDescribeInstancesTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stack.MaxReceiveCount(50))
	w.addKeys(6)
	_, ec2, start := w.throughProxies()
	d := start(fastReconcile)
	early := w.launch(3)
	w.announce(instance.Running, early...)
	w.eventually("provisioned", func() error { return w.provisioned(early...) })
	before, err := w.keysOf()
	must(t, err)

	empty := ec2.On("DescribeInstances", faultproxy.Always(), faultproxy.NoInstances())
	late := w.launch(2)
	w.announce(instance.Running, late...)
	// A pass asks once for what matches, and for each of the recorded twice.
	w.eventually("some passes", seenMore(ec2, "DescribeInstances", 60))
	must(t, w.provisioned(early...))
	empty.End()
	befell(t, empty, 60)

	w.eventually("the late ones too", func() error { return w.provisioned(append(early, late...)...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	after, err := w.keysOf()
	must(t, err)
	for _, id := range early {
		if after[id][0].Name != before[id][0].Name {
			t.Errorf("%s held %s and now holds %s", id, before[id][0].Name, after[id][0].Name)
		}
	}
	must(t, w.metricAtMost(d, `dynk8s_reconcile_corrections_total{kind="retired"}`, 0))
}

// metricAtMost reads one series from the operations port.
func (w *world) metricAtMost(d *daemon.Daemon, series string, most float64) error {
	if err := w.metricAtLeast(d, series, most); err != nil {
		return err
	}
	if w.metricAtLeast(d, series, most+0.5) == nil {
		return fmt.Errorf("%s is more than %v", series, most)
	}
	return nil
}

// Batches are deleted in part only, or not at all: what is left is deleted
// later, and no message becomes a dead letter for it.
func TestPartialDeletesAreMadeUpFor(t *testing.T) {
	t.Parallel()
	const instances = 30
	w := newWorld(t)
	w.addKeys(instances)
	sqs, _, start := w.throughProxies()
	partial := sqs.On("DeleteMessageBatch", faultproxy.Every(2), faultproxy.FailEntries(2, "InternalError", false))
	whole := sqs.On("DeleteMessageBatch", faultproxy.Every(5), faultproxy.SQSError(http.StatusServiceUnavailable, "ServiceUnavailable"))
	ids := w.launch(instances)
	w.announceShuffled(newRandom(t), instance.Running, 3, ids)
	start(slowReconcile)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	must(t, w.provisioned(ids...))
	befell(t, partial, 3)
	befell(t, whole, 1)

	w.terminate(ids...)
	w.eventually("taken back", func() error { return w.takenBack(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
}

// The queue takes no receipt handle for a while: the messages come again after
// their visibility time-out, are settled again, and change nothing.
func TestInvalidReceiptHandlesBringTheMessageAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(5)
	sqs, _, start := w.throughProxies()
	invalid := sqs.On("DeleteMessageBatch", faultproxy.First(4), faultproxy.FailEntries(1, "ReceiptHandleIsInvalid", true))
	ids := w.launch(5)
	w.announce(instance.Running, ids...)
	d := start(slowReconcile)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	befell(t, invalid, 1)
	must(t, w.provisioned(ids...))
	must(t, w.metricAtLeast(d, `dynk8s_messages_total{outcome="admitted"}`, float64(len(ids)+1)))
}

// The queue hands messages out and the connection breaks in the middle of the
// answer: they come again after their visibility time-out.
func TestMessagesLostOnTheWayComeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(20)
	sqs, _, start := w.throughProxies()
	ids := w.launch(20)
	w.announce(instance.Running, ids...) // before the daemon: so the first answers hold messages
	cut := sqs.On("ReceiveMessage", faultproxy.First(6), faultproxy.CutAnswer())
	start(slowReconcile)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	befell(t, cut, 6)
}

// The queue is not available: the daemon says that it is not ready, and why,
// and is ready again by itself when the queue is back. What came meanwhile is
// done.
func TestUnavailableQueueShowsInReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	sqs, _, start := w.throughProxies()
	d := start(slowReconcile)
	down := sqs.On("ReceiveMessage", faultproxy.Always(), faultproxy.SQSError(http.StatusServiceUnavailable, "ServiceUnavailable"))
	begun := time.Now()
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("not ready", func() error { return w.notReady(d, "last good receive") })
	// Three waits of two seconds, and nothing before.
	if took := time.Since(begun); took < 4*time.Second {
		t.Errorf("the daemon was not ready any more after %s", took)
	}
	if code, _, err := daemon.Get(w.ctx, d.OperationsURL()+"/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("healthz answers %d, %v: a restart would not help", code, err)
	}
	befell(t, down, 2)
	down.End()
	w.eventually("ready again", func() error {
		code, body, err := daemon.Get(w.ctx, d.OperationsURL()+"/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("readyz answers %d: %s", code, body)
		}
		return err
	})
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	w.eventually("queues empty", func() error { return w.queuesHold(0, 0) })
}

// notReady returns nil when /readyz says so and gives the reason.
func (w *world) notReady(d *daemon.Daemon, reason string) error {
	code, body, err := daemon.Get(w.ctx, d.OperationsURL()+"/readyz")
	switch {
	case err != nil:
		return err
	case code == http.StatusOK:
		return errors.New("it is ready")
	case code != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(reason)):
		return fmt.Errorf("readyz answers %d: %s", code, body)
	}
	return nil
}
