//go:build linux

package stack_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// TestStack starts two stacks side by side, so that whatever they might share
// shows.
func TestStack(t *testing.T) {
	ctx := t.Context()
	s, other := start(ctx, t, stack.Options{}), start(ctx, t, stack.Options{})

	t.Run("API server keeps its port and its data", func(t *testing.T) { restartAPIServer(ctx, t, s) })
	t.Run("an event travels its own path only", func(t *testing.T) { sendEvent(ctx, t, s) })
	t.Run("instances are launched, tagged and ended", func(t *testing.T) { lifeOfAnInstance(ctx, t, s) })
	t.Run("somebody else's cluster is used and spared", func(t *testing.T) { useCluster(ctx, t, other) })
	t.Run("stacks share nothing", func(t *testing.T) {
		for name, value := range s.Env() {
			if value == other.Env()[name] && strings.Contains(value, "127.0.0.1") {
				t.Errorf("both have %s=%s", name, value)
			}
		}
		list, err := client(t, other).CoreV1().ConfigMaps(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range list.Items {
			if cm.Name == "kept" {
				t.Error("what was made in one stack is in the other")
			}
		}
	})
}

func start(ctx context.Context, t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	o.Progress = os.Stderr
	s, err := stack.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Dir()); err == nil {
			t.Errorf("%s is left behind", s.Dir())
		}
	})
	return s
}

func client(t *testing.T, s *stack.Stack) kubernetes.Interface {
	t.Helper()
	c, err := s.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func useCluster(ctx context.Context, t *testing.T, theirs *stack.Stack) {
	s := start(ctx, t, stack.Options{Kubeconfig: theirs.Kubeconfig()})
	if got := s.Env()["KUBECONFIG"]; got != theirs.Kubeconfig() {
		t.Errorf("KUBECONFIG is %s", got)
	}
	for _, p := range s.Status() {
		if p.Name != "ministack" && p.Name != "moto" {
			t.Errorf("%s was started", p.Name)
		}
	}
	if err := s.StopAPIServer(ctx); err == nil {
		t.Error("a cluster that is not its own was stopped")
	}
	newPath(ctx, t, s, "mine")
}

func restartAPIServer(ctx context.Context, t *testing.T, s *stack.Stack) {
	configMaps := client(t, s).CoreV1().ConfigMaps(corev1.NamespaceDefault)
	_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Get(ctx, "kept", metav1.GetOptions{}); err == nil {
		t.Error("the API server answers although it was stopped")
	}
	if err := s.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func sendEvent(ctx context.Context, t *testing.T, s *stack.Stack) {
	mine := newPath(ctx, t, s, "mine")
	theirs := newPath(ctx, t, s, "theirs")
	when := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const id = instance.ID("i-0123456789abcdef0")

	if err := ec2world.New(s).Announce(ctx, mine, id, instance.Running, ec2world.At(when)); err != nil {
		t.Fatal(err)
	}
	event := unwrap(t, receive(ctx, t, s, mine))
	for field, want := range map[string]any{
		"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification",
		"region": stack.Region, "time": "2026-11-30T12:00:00Z", "version": "0",
	} {
		if event[field] != want {
			t.Errorf("%s is %v, want %v", field, event[field], want)
		}
	}
	detail, ok := event["detail"].(map[string]any)
	if !ok || detail["instance-id"] != string(id) || detail["state"] != "running" {
		t.Errorf("detail is %v", event["detail"])
	}
	if body := receive(ctx, t, s, theirs); body != "" {
		t.Errorf("the event took another path as well: %s", body)
	}

	if err := ec2world.New(s).AnnounceRaw(ctx, theirs, "no event"); err != nil {
		t.Fatal(err)
	}
	if body := receive(ctx, t, s, theirs); body != "no event" {
		t.Errorf("got %q", body)
	}
}

func newPath(ctx context.Context, t *testing.T, s *stack.Stack, name string) stack.EventPath {
	t.Helper()
	p, err := s.NewPath(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// receive returns the body of the next message, "" when none comes.
func receive(ctx context.Context, t *testing.T, s *stack.Stack, p stack.EventPath) string {
	t.Helper()
	out, err := s.SQS().ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String(p.QueueURL), WaitTimeSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Messages) == 0 {
		return ""
	}
	return aws.ToString(out.Messages[0].Body)
}

func unwrap(t *testing.T, body string) (event map[string]any) {
	t.Helper()
	var envelope struct{ Message string }
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	if err := json.Unmarshal([]byte(envelope.Message), &event); err != nil {
		t.Fatalf("%v: %q", err, envelope.Message)
	}
	return event
}

func lifeOfAnInstance(ctx context.Context, t *testing.T, s *stack.Stack) {
	w := ec2world.New(s)
	id, err := w.Launch(ctx, map[string]string{"dynk8s.du5t1n.me/cluster": "home"}, ec2world.InZone("us-east-2b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func() error
		want instance.State
	}{
		{func() error { return w.Tag(ctx, id, map[string]string{"Name": "k8s-1"}) }, instance.Running},
		{func() error { return w.Untag(ctx, id, "Name") }, instance.Running},
		{func() error { return w.Stop(ctx, id) }, instance.Stopped},
		{func() error { return w.Terminate(ctx, id) }, instance.Terminated},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := w.State(ctx, id); err != nil || got != step.want {
			t.Errorf("state is %q, %v, want %q", got, err, step.want)
		}
	}
}

// TestStartRefusesAFolderOfSomebodyElse: a run folder is emptied at start.
func TestStartRefusesAFolderOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(file, []byte("ten years' work"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stack.Start(t.Context(), stack.Options{Dir: dir}); err == nil {
		t.Error("the folder was taken")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
