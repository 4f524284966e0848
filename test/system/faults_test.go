//go:build linux

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// Messages that cannot be understood end in the dead-letter queue with their
// reason in one log line; what is well formed and not for us is deleted; and
// the daemon goes on.
func TestBadMessagesEndInTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stack.MaxReceiveCount(3))
	w.addKeys(1)
	d := w.start(slowReconcile)
	event := func(source, kind, id, state string) string {
		return fmt.Sprintf(`{"source":%q,"detail-type":%q,"time":"2026-01-02T03:04:05Z","detail":{"instance-id":%q,"state":%q}}`, source, kind, id, state)
	}
	const change = "EC2 Instance State-change Notification"
	bad := map[string]string{
		"no JSON":     "no JSON at all",
		"noise":       strings.Repeat("x", 256<<10),
		"array":       `[1,2,3]`,
		"base64":      "eyJzb3VyY2UiOiJhd3MuZWMyIn0=",
		"no object":   `"text"`,
		"empty":       `{}`,
		"empty state": event("aws.ec2", change, "i-0123456789abcdef0", ""),
		"path as id":  event("aws.ec2", change, "../../etc/passwd", "running"),
		"comma in id": event("aws.ec2", change, "i-0123456789abcdef0,i-1123456789abcdef0", "running"),
		"label as id": event("aws.ec2", change, "i-0123456789abcdef0=x", "running"),
	}
	foreign := map[string]string{
		"another source":    event("aws.s3", change, "i-0123456789abcdef0", "running"),
		"another kind":      event("aws.ec2", "EBS Volume Notification", "i-0123456789abcdef0", "running"),
		"unknown state":     event("aws.ec2", change, "i-0123456789abcdef0", "dancing"),
		"test notification": `{"Service":"AWS Auto Scaling","Event":"autoscaling:TEST_NOTIFICATION","RequestId":"x","AccountId":"123456789012","AutoScalingGroupName":"g"}`,
	}
	for name, body := range bad {
		if err := w.ec2.AnnounceRaw(w.ctx, w.path, body); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, body := range foreign {
		if err := w.ec2.AnnounceRaw(w.ctx, w.path, body); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	good := w.launch(1)[0]
	withoutVersion := event("aws.ec2", change, string(good), "running")
	must(t, w.ec2.AnnounceRaw(w.ctx, w.path, "\ufeff"+withoutVersion))
	w.eventually("the good one among them is provisioned", func() error { return w.provisioned(good) })
	w.eventuallyWithin(2*time.Minute, "bad ones are dead letters, the others gone", func() error {
		return w.queuesHold(0, len(bad))
	})
	if !d.Running() {
		t.Fatal("the daemon ended because of a message")
	}
	w.reasonsLogged(d, len(bad))
}

// reasonsLogged checks that so many messages were logged as not understood,
// each once at a level above debug.
func (w *world) reasonsLogged(d *daemon.Daemon, want int) {
	w.t.Helper()
	content, err := d.Log()
	must(w.t, err)
	lines := map[string]int{}
	for line := range bytes.Lines(content) {
		var entry struct {
			Level     string
			Msg       string
			MessageID string `json:"message_id"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Level == "WARN" && entry.Msg == "message cannot be understood" {
			lines[entry.MessageID]++
			if len(line) > 2048 {
				w.t.Errorf("a log line has %d bytes", len(line))
			}
		}
	}
	for id, n := range lines {
		if n != 1 {
			w.t.Errorf("message %s was logged %d times", id, n)
		}
	}
	if len(lines) != want {
		w.t.Errorf("%d messages were logged with their reason, want %d", len(lines), want)
	}
}

// The API server is away for half a minute: events that come meanwhile are kept
// and done afterwards, and the daemon does not end.
func TestAPIServerIsAwayForHalfAMinute(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	own, err := stack.Start(ctx, stack.Options{})
	must(t, err)
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := newWorldOn(t, own)
	w.addKeys(4)
	replicas := []*daemon.Daemon{w.start(slowReconcile), w.start(slowReconcile)}
	early, late := w.launch(2), w.launch(2)
	w.announce(instance.Running, early...)
	w.eventually("provisioned", func() error { return w.provisioned(early...) })

	must(t, own.StopAPIServer(ctx))
	away := time.NewTimer(30 * time.Second)
	w.announce(instance.Running, late...)
	must(t, w.ec2.Terminate(ctx, early[0]))
	w.announce(instance.Terminated, early[0])
	<-away.C
	must(t, own.StartAPIServer(ctx))

	w.eventually("the rest is done", func() error { return w.provisioned(early[1], late[0], late[1]) })
	w.eventually("taken back", func() error { return w.takenBack(early[0]) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	for _, d := range replicas {
		if !d.Running() {
			t.Error("a daemon ended while the API server was away")
		}
	}
}

// SIGTERM in the middle of a burst: the daemon ends by itself within 25 s, and
// what it had in hand is done by another at once, not after a visibility
// time-out.
func TestSigtermGivesBackWhatIsInFlight(t *testing.T) {
	t.Parallel()
	const instances = 60
	w := newWorld(t, stack.MaxReceiveCount(50))
	w.addKeys(instances)
	longHold := strings.Replace(w.configText(slowReconcile), "visibilityTimeout: 10s", "visibilityTimeout: 10m", 1)
	first := w.startNamed("first", longHold, nil)
	ids := w.launch(instances)
	w.announce(instance.Running, ids...)
	w.eventually("under way", func() error {
		held, err := w.keysOf()
		if err == nil && len(held) < 5 {
			err = fmt.Errorf("%d instances hold keys", len(held))
		}
		return err
	})
	w.stop(first)
	w.startNamed("second", longHold, nil)
	w.eventually("all provisioned", func() error { return w.provisioned(ids...) })
	w.eventually("queues empty", func() error { return w.queuesHold(0, 0) })
}

// Selectors reload without a restart; a bad file is refused and the old one
// stays in force.
func TestConfigurationReloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	d := w.start(slowReconcile)
	odd, err := w.ec2.LaunchMany(w.ctx, 2, map[string]string{clusterTag: w.name, "Name": "odd.Name/with space"})
	must(t, err)
	w.announce(instance.Running, odd[0])
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	must(t, w.takenBack(odd...))

	good, err := os.ReadFile(d.ConfigFile())
	must(t, err)
	wider := bytes.ReplaceAll(good, []byte(`"k8s-*"`), []byte(`"k8s-*", "odd.*/with ?pace"`))
	must(t, os.WriteFile(d.ConfigFile(), wider, 0o600))
	w.eventually("reload counted", func() error { return w.metricAtLeast(d, `dynk8s_config_reloads_total{result="success"}`, 1) })
	w.announce(instance.Running, odd[0])
	w.eventually("provisioned under the new selector", func() error { return w.provisioned(odd[0]) })

	must(t, os.WriteFile(d.ConfigFile(), bytes.ReplaceAll(wider, []byte("selector:"), []byte("selektor:")), 0o600))
	w.eventually("bad reload counted", func() error { return w.metricAtLeast(d, `dynk8s_config_reloads_total{result="failure"}`, 1) })
	w.announce(instance.Running, odd[1])
	w.eventually("the old selector is in force", func() error { return w.provisioned(odd...) })
}

// metricAtLeast reads one series from the operations port.
func (w *world) metricAtLeast(d *daemon.Daemon, series string, least float64) error {
	code, body, err := daemon.Get(w.ctx, d.OperationsURL()+"/metrics")
	if err != nil || code != http.StatusOK {
		return fmt.Errorf("metrics answer %d, %w", code, err)
	}
	for line := range strings.Lines(string(body)) {
		rest, found := strings.CutPrefix(line, series+" ")
		if !found {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest, &value); err != nil {
			return err
		}
		if value < least {
			return fmt.Errorf("%s is %v, want at least %v", series, value, least)
		}
		return nil
	}
	return fmt.Errorf("there is no series %s", series)
}

// The names of the design's metrics are all there, and none has an instance's
// or a message's id in a label.
func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	d := w.start(slowReconcile)
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	_, err := w.fetch(d, "wireguard/config", id, http.StatusOK)
	must(t, err)
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })

	for series, least := range map[string]float64{
		`dynk8s_messages_total{outcome="admitted"}`:                                         1,
		`dynk8s_message_age_seconds_count`:                                                  1,
		`dynk8s_handle_seconds_count{action="running"}`:                                     1,
		`dynk8s_last_receive_timestamp_seconds`:                                             1,
		`dynk8s_wireguard_keys{state="free"}`:                                               1,
		`dynk8s_wireguard_keys{state="allocated"}`:                                          1,
		`dynk8s_bootstrap_tokens`:                                                           1,
		`dynk8s_reconcile_corrections_total{kind="retired"}`:                                0,
		`dynk8s_artifact_requests_total{artifact="wireguard_config",code="200"}`:            1,
		`dynk8s_join_seconds_count`:                                                         0,
		`dynk8s_never_joined_total`:                                                         0,
		`dynk8s_aws_requests_total{code="200",operation="ReceiveMessage",service="SQS"}`:    1,
		`dynk8s_aws_requests_total{code="200",operation="DescribeInstances",service="EC2"}`: 1,
		`dynk8s_config_reloads_total{result="success"}`:                                     0,
	} {
		w.eventually(series, func() error { return w.metricAtLeast(d, series, least) })
	}
	_, body, err := daemon.Get(w.ctx, d.OperationsURL()+"/metrics")
	must(t, err)
	if bytes.Contains(body, []byte(id)) {
		t.Error("an instance id stands in a label")
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/debug/pprof/": 404} {
		code, _, err := daemon.Get(w.ctx, d.OperationsURL()+path)
		if err != nil || code != want {
			t.Errorf("%s answers %d, %v, want %d", path, code, err, want)
		}
	}
	if code, _, err := d.Fetch(w.ctx, "/metrics", ""); err != nil || code != http.StatusNotFound {
		t.Errorf("the artifact port answers %d, %v for /metrics, want 404", code, err)
	}
}
