//go:build linux

package terraform

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const namespace = "dynk8s"

// world is what one plan, applied, and a real daemon are in.
type world struct {
	t      *testing.T
	ctx    context.Context
	stack  *stack.Stack
	ec2    *ec2world.World
	client kubernetes.Interface
	path   stack.EventPath
	tags   map[string]string // that Auto Scaling gives an instance at launch
	daemon *daemon.Daemon
}

// newWorld applies the plan and starts a daemon with the configuration that the
// chart would get from it.
func newWorld(t *testing.T, s *stack.Stack, p plan, group string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, stack: s, ec2: ec2world.New(s), path: applied(ctx, t, s, p), tags: launchTags(t, p, group)}
	c, err := s.RESTConfig()
	must(t, err)
	w.client, err = kubernetes.NewForConfig(c)
	must(t, err)
	_, err = w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(t, err)
	w.start(p)
	return w
}

// launchTags are those tags of the group that its instances get.
func launchTags(t *testing.T, p plan, group string) map[string]string {
	t.Helper()
	tags := map[string]string{}
	for _, item := range p.get(t, fmt.Sprintf("aws_autoscaling_group.nodes[%q]", group))["tag"].([]any) {
		tag := item.(map[string]any)
		if tag["propagate_at_launch"] == true {
			tags[tag["key"].(string)] = tag["value"].(string)
		}
	}
	return tags
}

// start runs the daemon with the planned values. Changed is only what is of this
// machine: ports, the stand-in's queue URL, and waits that are short.
func (w *world) start(p plan) {
	w.t.Helper()
	dir := w.t.TempDir()
	config := p.outputs["helm_values"].(map[string]any)["config"].(map[string]any)
	config["queue"] = map[string]any{"url": w.path.QueueURL, "region": stack.Region, "visibilityTimeout": "10s", "waitTime": "1s"}
	config["kubernetes"] = map[string]any{"kubeconfig": w.stack.Kubeconfig(), "namespace": namespace}
	config["operations"] = map[string]any{"address": "127.0.0.1:0"}
	config["reconcile"] = map[string]any{"interval": "2s"}
	config["artifacts"].(map[string]any)["address"] = "127.0.0.1:0"
	content, err := yaml.Marshal(config)
	must(w.t, err)
	program, err := daemon.Build(w.ctx, dir, false)
	must(w.t, err)
	env := []string{"HOME=" + dir}
	for k, v := range w.stack.Env() {
		env = append(env, k+"="+v)
	}
	w.daemon, err = daemon.Start(w.ctx, daemon.Options{Program: program, Dir: dir, Name: "daemon", Config: string(content), Env: env, TLS: true})
	must(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if code, err := w.daemon.Stop(ctx); err != nil || code != 0 {
			w.t.Errorf("the daemon ended with %d, %v", code, err)
		}
	})
	must(w.t, w.daemon.Ready(w.ctx))
}

func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within 90 s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// holds returns nil when the instance has that many keys and tokens.
func (w *world) holds(id instance.ID, want int) error {
	held, err := keys.ByHolder(w.ctx, w.client, namespace)
	if err != nil {
		return err
	}
	tokens, err := keys.Tokens(w.ctx, w.client, id)
	if err != nil {
		return err
	}
	if len(held[id]) != want || len(tokens) != want {
		return fmt.Errorf("%s holds %d keys and %d tokens, want %d", id, len(held[id]), len(tokens), want)
	}
	return nil
}

func (w *world) launch() instance.ID {
	w.t.Helper()
	id, err := w.ec2.Launch(w.ctx, w.tags)
	must(w.t, err)
	must(w.t, w.ec2.Announce(w.ctx, w.path, id, instance.Running))
	return id
}

// operation is a request to AWS as the daemon's metric counts it.
var operation = regexp.MustCompile(`(?m)^dynk8s_aws_requests_total\{code="[^"]*",operation="(\w+)",service="(\w+)"\} [1-9]`)

// actions are the IAM actions that the daemon has needed so far.
func (w *world) actions() ([]string, error) {
	_, body, err := daemon.Get(w.ctx, w.daemon.OperationsURL()+"/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, m := range operation.FindAllStringSubmatch(string(body), -1) {
		found[action(m[2], m[1])] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// action is the IAM action that an operation needs: SQS has none of its own for
// batches.
func action(service, operation string) string {
	if service = strings.ToLower(service); service == "sqs" {
		operation = strings.TrimSuffix(operation, "Batch")
	}
	return service + ":" + operation
}

// allowed are the actions in the daemon's planned policy.
func allowed(t *testing.T, p plan) []string {
	t.Helper()
	var all []string
	for _, s := range statements(t, p.get(t, "module.daemon.aws_iam_policy.this")["policy"]) {
		all = append(all, s.actions...)
	}
	slices.Sort(all)
	return all
}

// daemonOnThePath: from an event on the bus to a key and a token, and
// back; and what the daemon asked of AWS on the way is what its policy allows, no
// more and no less.
func daemonOnThePath(t *testing.T, s *stack.Stack) {
	p := plannedModule(t, stack.Region, inputs{"name": "home"})
	w := newWorld(t, s, p, "burst")

	first := w.launch()
	w.eventually("an instance without a free key has its message given back", func() error { return w.asked("sqs:ChangeMessageVisibility") })
	_, err := keys.Add(w.ctx, w.client, namespace, 1, 1)
	must(t, err)
	w.eventually("provisioned from the event", func() error { return w.holds(first, 1) })

	stranger, err := w.ec2.Launch(w.ctx, map[string]string{"dynk8s.du5t1n.me/cluster": "home", "dynk8s.du5t1n.me/group": "other"})
	must(t, err)
	must(t, w.ec2.Announce(w.ctx, w.path, stranger, instance.Running))
	must(t, w.ec2.AnnounceRaw(w.ctx, w.path, "no event"))
	must(t, w.ec2.Terminate(w.ctx, first))
	must(t, w.ec2.Announce(w.ctx, w.path, first, instance.Terminated))
	w.eventually("retired", func() error { return w.holds(first, 0) })
	w.eventually("the malformed message has it ask for the redrive policy", func() error { return w.asked("sqs:GetQueueAttributes") })
	must(t, w.holds(stranger, 0))

	_, err = w.ec2.Launch(w.ctx, w.tags) // nobody announces it
	must(t, err)
	w.eventually("the reconcile pass finds an instance that was not announced", w.allKeysHeld)
	got, err := w.actions()
	must(t, err)
	if want := allowed(t, p); !slices.Equal(got, want) {
		t.Errorf("the daemon did\n%v, its policy allows\n%v", got, want)
	}
}

func (w *world) asked(want string) error {
	got, err := w.actions()
	if err == nil && !slices.Contains(got, want) {
		err = fmt.Errorf("so far %v", got)
	}
	return err
}

func (w *world) allKeysHeld() error {
	held, err := keys.ByHolder(w.ctx, w.client, namespace)
	if err == nil && len(held) != 1 {
		err = fmt.Errorf("%d instances hold keys", len(held))
	}
	return err
}

// The policy is also what the program could ever ask for: every operation of an
// AWS client that stands in its source.
func TestPolicyIsWhatTheCodeCanCall(t *testing.T) {
	t.Parallel()
	possible := map[string]bool{}
	for _, folder := range []string{"pkg", "cmd"} {
		must(t, callsIn(filepath.Join(where.root, folder), possible))
	}
	if got, want := slices.Sorted(maps.Keys(possible)), allowed(t, plannedModule(t, stack.Region, inputs{})); !slices.Equal(got, want) {
		t.Errorf("the code can do\n%v, the policy allows\n%v", got, want)
	}
}
