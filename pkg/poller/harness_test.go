package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

// in runs test inside a bubble of fake time.
func in(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// daemon is one Poller that runs over a queue in memory.
type daemon struct {
	t      *testing.T
	poller *Poller
	logs   *logs
	reg    *prometheus.Registry
	cancel context.CancelFunc
	ended  chan struct{}
}

const visibility = 60 * time.Second

// start runs a Poller until the test stops it or ends.
func start(t *testing.T, q *sqsqueuetest.Queue, h Handler, change ...func(*Config)) *daemon {
	t.Helper()
	return startOver(t, sqsqueue.New(q, sqsqueue.Config{VisibilityTimeout: visibility, Logger: slog.New(slog.DiscardHandler)}), h, change...)
}

func startOver(t *testing.T, q Queue, h Handler, change ...func(*Config)) *daemon {
	t.Helper()
	d := &daemon{t: t, logs: &logs{}, reg: prometheus.NewRegistry(), ended: make(chan struct{})}
	cfg := Config{VisibilityTimeout: visibility, Registerer: d.reg,
		Logger: slog.New(slog.NewJSONHandler(d.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&cfg)
	}
	d.poller = New(q, h, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	go func() {
		defer close(d.ended)
		if err := d.poller.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-d.ended
		time.Sleep(2 * time.Minute) // handlers that outlive Run
	})
	return d
}

// stop tells Run to end and returns how long it took.
func (d *daemon) stop() time.Duration {
	d.t.Helper()
	began := time.Now()
	d.cancel()
	<-d.ended
	took := time.Since(began)
	if took > 25*time.Second {
		d.t.Errorf("stopping took %v", took)
	}
	return took
}

func (d *daemon) outcome(word string) int {
	return int(testutil.ToFloat64(d.poller.metrics.messages.WithLabelValues(word)))
}

// advance lets fake time pass.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// logs collects JSON log lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines returns the lines with that message.
func (l *logs) lines(message string) (out []map[string]any) {
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == message {
			out = append(out, m)
		}
	}
	return out
}

func instanceID(n int) instance.ID { return instance.ID(fmt.Sprintf("i-%017x", n)) }

// change is the body of a state change that happens now.
func change(n int, state instance.State) string { return changeAt(n, state, time.Now()) }

func changeAt(n int, state instance.State, at time.Time) string {
	return fmt.Sprintf(`{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602",
 "detail-type":"EC2 Instance State-change Notification","source":"aws.ec2",
 "account":"123456789012","time":%q,"region":"us-east-1",
 "resources":["arn:aws:ec2:us-east-1:123456789012:instance/%s"],
 "detail":{"instance-id":%q,"state":%q}}`, at.UTC().Format(time.RFC3339), instanceID(n), instanceID(n), state)
}

// handlerFunc is a Handler.
type handlerFunc func(context.Context, ec2event.Event) (string, error)

func (f handlerFunc) Handle(ctx context.Context, e ec2event.Event) (string, error) { return f(ctx, e) }

// call is one call of a Handler.
type call struct {
	instance   instance.ID
	state      instance.State
	began, end time.Time
	err        error
}

// recorder is a Handler that notes the calls of another, and complains when two
// run at once for one instance.
type recorder struct {
	t      *testing.T
	handle handlerFunc // nil: succeeds at once

	mu    sync.Mutex
	calls []call
	busy  map[instance.ID]bool
	most  int
}

func (r *recorder) Handle(ctx context.Context, e ec2event.Event) (result string, err error) {
	c := call{instance: e.InstanceID, state: e.State, began: time.Now(), err: errPanicked}
	r.begin(e.InstanceID)
	defer func() { r.finish(c) }()
	if r.handle != nil {
		result, err = r.handle(ctx, e)
	}
	c.err = err
	return result, err
}

func (r *recorder) begin(id instance.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = map[instance.ID]bool{}
	}
	if r.busy[id] {
		r.t.Errorf("two handlers run at once for %s", id)
	}
	r.busy[id] = true
	r.most = max(r.most, len(r.busy))
}

func (r *recorder) finish(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.end = time.Now()
	delete(r.busy, c.instance)
	r.calls = append(r.calls, c)
}

func (r *recorder) done() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

// takes returns a handler that needs d, or ends with its context.
func takes(d time.Duration) handlerFunc {
	return func(ctx context.Context, _ ec2event.Event) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(d):
			return "", nil
		}
	}
}

func wantEmpty(t *testing.T, q *sqsqueuetest.Queue) {
	t.Helper()
	if left := q.Left(); len(left) > 0 {
		t.Errorf("left in the queue: %v", left)
	}
}

func wantCalls(t *testing.T, r *recorder, want int) {
	t.Helper()
	if got := len(r.done()); got != want {
		t.Errorf("handler called %d times, want %d: %v", got, want, r.done())
	}
}
