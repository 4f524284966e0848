//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// play shows the main job.
func (s *scene) play(ctx context.Context) error {
	s.act("Cluster Autoscaler launches two instances; a stranger starts, too")
	ours, stranger, err := s.launch(ctx)
	if err != nil {
		return err
	}
	for _, id := range ours {
		if err := s.await(ctx, string(id)+" has a WireGuard key and a bootstrap token", func() error { return s.holds(ctx, id, 1, 1) }); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "all messages are settled", func() error { return s.settled(ctx) }); err != nil {
		return err
	}
	if err := s.holds(ctx, stranger, 0, 0); err != nil {
		return fmt.Errorf("the stranger %s: %w", stranger, err)
	}
	s.say("✓ %s (the stranger) has nothing", stranger)
	if err := s.showSecrets(ctx); err != nil {
		return err
	}

	joining := ours[0]
	s.act("%s boots, fetches its artifacts and joins", joining)
	if err := s.join(ctx, joining); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "nodes"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "nodes", "-o",
		"custom-columns=NAME:.metadata.name,ADDRESS:.status.addresses[0].address,PROVIDER-ID:.spec.providerID"); err != nil {
		return err
	}

	s.act("%s is terminated", joining)
	if err := s.end(ctx, joining); err != nil {
		return err
	}
	s.act("What is left: %s, which has not joined yet, keeps what it has", ours[1])
	if err := s.holds(ctx, ours[1], 1, 1); err != nil {
		return fmt.Errorf("%s: %w", ours[1], err)
	}
	if err := s.showSecrets(ctx); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "nodes"); err != nil {
		return err
	}

	s.act("It dies before it joins; everything is free again")
	if err := s.terminate(ctx, ours[1]); err != nil {
		return err
	}
	if err := s.await(ctx, "Events tell of all four changes", func() error { return s.eventsTold(ctx, 4) }); err != nil {
		return err
	}
	if err := s.showSecrets(ctx); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "-n", namespace, "get", "events",
		"-o", "custom-columns=REASON:.reason,KEY:.involvedObject.name,MESSAGE:.message"); err != nil {
		return err
	}
	s.say("done")
	return nil
}

func (s *scene) launch(ctx context.Context) (ours []instance.ID, stranger instance.ID, err error) {
	ours, err = s.ec2.LaunchMany(ctx, 2, map[string]string{clusterTag: "demo", "Name": "k8s-worker"})
	if err != nil {
		return nil, "", err
	}
	stranger, err = s.ec2.Launch(ctx, map[string]string{"Name": "database"})
	if err != nil {
		return nil, "", err
	}
	for _, id := range append([]instance.ID{stranger}, ours...) {
		for _, state := range []instance.State{instance.Pending, instance.Running} {
			if err := s.ec2.Announce(ctx, s.stack.Path(), id, state); err != nil {
				return nil, "", err
			}
		}
		s.say("%s is running: EventBridge → SNS → SQS", id)
	}
	return ours, stranger, nil
}

// holds returns nil when the instance holds so many keys and tokens.
func (s *scene) holds(ctx context.Context, id instance.ID, wantKeys, wantTokens int) error {
	held, err := keys.ByHolder(ctx, s.client, namespace)
	if err != nil {
		return err
	}
	tokens, err := keys.Tokens(ctx, s.client, id)
	if err != nil {
		return err
	}
	if len(held[id]) != wantKeys || len(tokens) != wantTokens {
		return fmt.Errorf("it holds %d keys and %d tokens, want %d and %d", len(held[id]), len(tokens), wantKeys, wantTokens)
	}
	return nil
}

func (s *scene) showSecrets(ctx context.Context) error {
	s.raw("")
	if err := s.kubectl(ctx, "-n", namespace, "get", "secrets", "-L", keys.InstanceLabel); err != nil {
		return err
	}
	return s.kubectl(ctx, "-n", "kube-system", "get", "secrets", "-l", keys.InstanceLabel, "-L", keys.InstanceLabel)
}

// join does what an instance does at its first boot, but for the VPN: this
// machine's kernel need not have WireGuard.
func (s *scene) join(ctx context.Context, id instance.ID) error {
	artifacts, err := s.fetch(ctx, id)
	if err != nil {
		return err
	}
	s.raw("\n" + redact(string(artifacts["kubeadm/join"])))
	if err := s.validate(ctx, artifacts["kubeadm/join"], artifacts["kubeadm/kubeconfig"]); err != nil {
		return err
	}
	s.node = &join.Node{
		Dir: filepath.Join(s.dir, string(id)), Programs: s.stack.Programs(),
		Discovery: artifacts["kubeadm/kubeconfig"], JoinConfiguration: artifacts["kubeadm/join"],
		APIServer: s.apiServer, // cluster-info may name it as only other nodes reach it
	}
	log, err := s.node.Join(ctx)
	if err != nil {
		return fmt.Errorf("kubeadm join: %w\n%s", err, redact(log))
	}
	s.say("kubeadm join: This node has joined the cluster")
	if err := s.await(ctx, "the Node is Ready", func() error { return s.ready(ctx, id) }); err != nil {
		return err
	}
	if err := s.await(ctx, "its token is revoked, its key stays", func() error { return s.holds(ctx, id, 1, 0) }); err != nil {
		return err
	}
	return s.await(ctx, "the endpoint is closed: all three routes answer 403", func() error { return s.closed(ctx, id) })
}

// artifactPaths are what an instance fetches, in this order.
var artifactPaths = []string{"wireguard/config", "kubeadm/kubeconfig", "kubeadm/join"}

// fetch fetches the artifacts of an instance with its signed identity document,
// and shows that nobody else can.
func (s *scene) fetch(ctx context.Context, id instance.ID) (map[string][]byte, error) {
	document, err := s.ec2.Document(ctx, id)
	if err != nil {
		return nil, err
	}
	forged, err := ec2world.New(s.stack).Document(ctx, id) // signed by somebody else
	if err != nil {
		return nil, err
	}
	artifacts := map[string][]byte{}
	for _, path := range artifactPaths {
		for _, try := range []struct {
			who, document string
			want          int
		}{
			{"without a document", "", http.StatusUnauthorized},
			{"with a forged document", forged, http.StatusForbidden},
			{"with its own document", document, http.StatusOK},
		} {
			code, body, err := s.daemon.Fetch(ctx, "/"+path+"/"+string(id), try.document)
			if err != nil {
				return nil, err
			}
			if code != try.want {
				return nil, fmt.Errorf("GET /%s/%s %s answers %d, want %d", path, id, try.who, code, try.want)
			}
			artifacts[path] = body
			if path == artifactPaths[0] || code == http.StatusOK {
				s.say("GET /%s/%s %s → %d, %d bytes", path, id, try.who, code, len(body))
			}
		}
	}
	return artifacts, nil
}

// closed returns nil when the endpoint refuses an instance that proves who it
// is.
func (s *scene) closed(ctx context.Context, id instance.ID) error {
	document, err := s.ec2.Document(ctx, id)
	if err != nil {
		return err
	}
	for _, path := range artifactPaths {
		code, _, err := s.daemon.Fetch(ctx, "/"+path+"/"+string(id), document)
		if err != nil {
			return err
		}
		if code != http.StatusForbidden {
			return fmt.Errorf("GET /%s/%s answers %d", path, id, code)
		}
	}
	return nil
}

// validate asks kubeadm, which wants the discovery file to exist.
func (s *scene) validate(ctx context.Context, configuration, discovery []byte) error {
	file, discoveryFile := filepath.Join(s.dir, "join.yaml"), filepath.Join(s.dir, "discovery.conf")
	here := strings.ReplaceAll(string(configuration), "/etc/kubernetes/dynk8s/discovery.conf", discoveryFile)
	if err := errors.Join(os.WriteFile(file, []byte(here), 0o600), os.WriteFile(discoveryFile, discovery, 0o600)); err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }() // it holds the token; the folder goes too, in the end
	out, err := exec.CommandContext(ctx, s.program("kubeadm"), "config", "validate", "--config", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubeadm config validate: %w\n%s", err, out)
	}
	s.say("kubeadm config validate: %s", strings.TrimSpace(string(out)))
	return nil
}

func (s *scene) ready(ctx context.Context, id instance.ID) error {
	n, err := s.client.CoreV1().Nodes().Get(ctx, string(id), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if of, ok := instance.IDFromProviderID(n.Spec.ProviderID); !ok || of != id {
		return fmt.Errorf("its provider id is %q", n.Spec.ProviderID)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("it is not Ready")
}

func (s *scene) end(ctx context.Context, id instance.ID) error {
	if err := s.ec2.Announce(ctx, s.stack.Path(), id, instance.ShuttingDown); err != nil {
		return err
	}
	if err := s.node.Stop(); err != nil {
		return err
	}
	s.node = nil
	if err := s.terminate(ctx, id); err != nil {
		return err
	}
	return s.await(ctx, "its Node is gone", func() error {
		_, err := s.client.CoreV1().Nodes().Get(ctx, string(id), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

// terminate ends an instance and waits until nothing is left with it.
func (s *scene) terminate(ctx context.Context, id instance.ID) error {
	if err := s.ec2.Terminate(ctx, id); err != nil {
		return err
	}
	if err := s.ec2.Announce(ctx, s.stack.Path(), id, instance.Terminated); err != nil {
		return err
	}
	s.say("%s is terminated: EventBridge → SNS → SQS", id)
	return s.await(ctx, "its token is gone, its key is free again", func() error { return s.holds(ctx, id, 0, 0) })
}

// settled returns nil when neither queue holds a message.
func (s *scene) settled(ctx context.Context) error {
	path := s.stack.Path()
	for _, url := range []string{path.QueueURL, path.DLQURL} {
		n, err := s.stack.Messages(ctx, url)
		if err != nil {
			return err
		}
		if n != 0 {
			return fmt.Errorf("%d messages are in %s", n, url)
		}
	}
	return nil
}

// eventsTold returns nil when so many Kubernetes Events about keys are there.
func (s *scene) eventsTold(ctx context.Context, want int) error {
	list, err := s.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("there are %d Events, want %d", len(list.Items), want)
	}
	return nil
}
