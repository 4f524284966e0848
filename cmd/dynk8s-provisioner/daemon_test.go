package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/spf13/pflag"

	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// nowhere is an address that refuses connections.
const nowhere = "127.0.0.1:1"

// offline is a configuration with which nobody can be reached.
func offline(t *testing.T, artifacts, operations string) string {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"AWS_ENDPOINT_URL": "http://" + nowhere, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	kubeconfig := writeFile(t, "kubeconfig", `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://`+nowhere+`"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: hush-hush-token}}]
current-context: c
`)
	return writeFile(t, "config.yaml", fmt.Sprintf(`
queue: {url: http://%s/123456789012/dynk8s, region: us-east-2}
profiles: [{name: all, matchAll: true}]
kubernetes: {kubeconfig: %s, namespace: dynk8s}
artifacts: {address: "%s", identity: {required: false}}
operations: {address: "%s"}
`, nowhere, kubeconfig, artifacts, operations))
}

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func start(t *testing.T, file string) (d *daemon, log *lines) {
	t.Helper()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(flags)
	log = &lines{}
	inv := invocation{file: file, flags: flags, stderr: log}
	cfg, _, err := config.Load(inv.file, flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	level := new(slog.LevelVar)
	d, err = newDaemon(t.Context(), cfg, inv, level, newLogger(log, "json", level))
	if err != nil {
		t.Fatal(err)
	}
	return d, log
}

func get(t *testing.T, addr net.Addr, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Nobody can be reached: the program says so, keeps trying and stops when it is
// told to.
func TestDaemonOutlivesAWorldThatIsDown(t *testing.T) {
	d, log := start(t, offline(t, "127.0.0.1:0", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()

	if code, body := get(t, d.operations.Addr(), "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := get(t, d.operations.Addr(), "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not synced") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, body := get(t, d.artifacts.Addr(), "/kubeadm/join/i-0123456789abcdef0"); code != http.StatusServiceUnavailable || strings.Contains(body, nowhere) {
		t.Errorf("artifact: %d %s", code, body)
	}
	_, metrics := get(t, d.operations.Addr(), "/metrics")
	for _, name := range []string{
		"dynk8s_last_receive_timestamp_seconds", `dynk8s_wireguard_keys{state="free"} 0`, "dynk8s_bootstrap_tokens 0",
		`dynk8s_reconcile_corrections_total{kind="retired"} 0`, "dynk8s_join_seconds_count 0", "dynk8s_never_joined_total 0",
		"dynk8s_artifact_requests_total{", "dynk8s_config_reloads_total", "go_goroutines",
	} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no metric %s", name)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("ended by itself: %v", err)
	default:
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(25 * time.Second):
		t.Fatal("it does not stop")
	}
	for _, secret := range []string{"hush-hush", "wJalrXUtnFEMI"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

func TestPortsInUseAreErrorsAtStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, tc := range []struct{ artifacts, operations, want string }{
		{taken.Addr().String(), "127.0.0.1:0", "artifacts"},
		{"127.0.0.1:0", taken.Addr().String(), "operations"},
	} {
		file := offline(t, tc.artifacts, tc.operations)
		_, _, err := runCommand(t, file)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%s: %v", tc.want, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	file := offline(t, "127.0.0.1:0", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log lines
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := run(ctx, invocation{file: file, flags: flags, stderr: &log}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `"msg":"stopped"`) {
		t.Errorf("log: %s", &log)
	}
}

// runCommand starts the program with a file, and expects it to fail.
func runCommand(t *testing.T, file string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs([]string{"run", "-c", file})
	err = cmd.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

func TestRequestCode(t *testing.T) {
	t.Parallel()
	answer := func(status int) middleware.DeserializeOutput {
		return middleware.DeserializeOutput{RawResponse: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}}
	}
	for want, tc := range map[string]struct {
		out middleware.DeserializeOutput
		err error
	}{
		"200":       {answer(200), nil},
		"Throttled": {answer(400), fmt.Errorf("call: %w", &smithy.GenericAPIError{Code: "Throttled"})},
		"error":     {middleware.DeserializeOutput{}, errors.New("connection refused")},
	} {
		if got := requestCode(tc.out, tc.err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"text": "msg=hello", "json": `"msg":"hello"`} {
		var buf bytes.Buffer
		newLogger(&buf, format, config.Log{Level: "info"}.SlogLevel()).Info("hello")
		if !strings.Contains(buf.String(), want) {
			t.Errorf("%s: %s", format, &buf)
		}
	}
}

// Without the Nodes an instance that has joined looks like one that has not.
func TestNothingIsServedBeforeTheCachesSync(t *testing.T) {
	t.Parallel()
	var synced atomic.Bool
	asked := 0
	s := serving{synced: &synced}
	answer := func(context.Context, instance.ID) ([]byte, error) { asked++; return []byte("secret"), nil }
	if body, err := s.render(t.Context(), "i-0123456789abcdef0", answer); !errors.Is(err, errNotSynced) || body != nil || asked != 0 {
		t.Errorf("%q, %v", body, err)
	}
	synced.Store(true)
	if body, err := s.render(t.Context(), "i-0123456789abcdef0", answer); err != nil || asked != 1 || string(body) != "secret" {
		t.Errorf("%q, %v", body, err)
	}
}
