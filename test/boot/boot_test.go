//go:build linux

package boot

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An instance joins by itself, through the tunnel only; a second run and a boot
// change nothing; when it is terminated all is taken back.
func TestBoot(t *testing.T) {
	t.Parallel()
	s := newScene(t, Launching{})
	if route := s.says("ip route get 10.99.0.1"); !strings.Contains(route, "dev eth0") {
		t.Fatalf("there is no way to try without a tunnel: %s", route)
	}
	s.reaches(false, "before the first run")
	s.joins(0, "joined")
	node := s.ready()
	s.checkNode()
	s.tunnelCarries()
	s.eventually("token revoked", s.noToken)
	if mode := s.says("stat -c %a /etc/wireguard/dynk8s.conf"); mode != "600\n" {
		t.Errorf("the WireGuard configuration has mode %s", mode)
	}
	s.absent("/etc/kubernetes/dynk8s/discovery.conf", "/etc/kubernetes/dynk8s/join.yaml",
		"/etc/kubernetes/bootstrap-kubelet.conf", "/run/dynk8s/document", "/run/dynk8s/token")

	s.runAgain()
	s.loseTunnel()
	s.reboot()
	if now, err := s.node(); err != nil || now.UID != node.UID {
		t.Errorf("it is another Node: %v", err)
	}
	if n := s.bootstraps(); n != 1 {
		t.Errorf("it asked for a certificate with a bootstrap token %d times", n)
	}

	must(t, shared.Terminate(s.ctx, s.Instance))
	s.eventually("taken back", s.takenBack)
}

// checkNode checks what the join configuration was for.
func (s *scene) checkNode() {
	s.t.Helper()
	s.eventually("restricted label", func() error {
		n, err := s.node()
		if _, ok := n.Labels["node-role.kubernetes.io/burst"]; err == nil && !ok {
			err = errors.New("it is not there")
		}
		return err
	})
	n, err := s.node()
	must(s.t, err)
	if want := "aws:///us-east-2a/" + string(s.ID); n.Spec.ProviderID != want {
		s.t.Errorf("provider id is %q, want %q", n.Spec.ProviderID, want)
	}
	for label, want := range map[string]string{
		"example.org/from":                 "ec2",
		"topology.kubernetes.io/zone":      "us-east-2a",
		"node.kubernetes.io/instance-type": "t3.small",
		"dynk8s.du5t1n.me/ec2-instance-id": string(s.ID),
	} {
		if n.Labels[label] != want {
			s.t.Errorf("label %s is %q, want %q", label, n.Labels[label], want)
		}
	}
	var addresses []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			addresses = append(addresses, a.Address)
		}
	}
	if fmt.Sprint(addresses) != fmt.Sprint([]string{s.key.Address}) {
		s.t.Errorf("internal addresses are %v, want WireGuard's %s", addresses, s.key.Address)
	}
	tainted := false
	for _, taint := range n.Spec.Taints {
		tainted = tainted || (taint.Key == "example.org/cloud" && taint.Value == "aws" && taint.Effect == corev1.TaintEffectPreferNoSchedule)
	}
	if !tainted {
		s.t.Errorf("the profile's taint is missing: %v", n.Spec.Taints)
	}
}

// tunnelCarries checks that a request to the API server is counted at both ends.
func (s *scene) tunnelCarries() {
	s.t.Helper()
	here, err := s.Tunnel(s.ctx)
	must(s.t, err)
	there, err := shared.ServerTunnel(s.ctx, s.key)
	must(s.t, err)
	s.reaches(true, "with the tunnel")
	hereAfter, err := s.Tunnel(s.ctx)
	must(s.t, err)
	thereAfter, err := shared.ServerTunnel(s.ctx, s.key)
	must(s.t, err)
	if hereAfter.Sent <= here.Sent || hereAfter.Received <= here.Received ||
		thereAfter.Sent <= there.Sent || thereAfter.Received <= there.Received {
		s.t.Errorf("the request did not go through the tunnel: here %v, then %v; there %v, then %v", here, hereAfter, there, thereAfter)
	}
}

// settled is what a second run must not change: every file of the join with its
// time, the tunnel and the kubelet's process.
const settled = `find /etc/kubernetes /etc/wireguard /etc/dynk8s /etc/systemd/system -type f -printf '%p %m %T@ %s\n' | sort
	find /etc/kubernetes /etc/wireguard -type f -exec sha256sum {} + | sort
	wg show dynk8s public-key; wg show dynk8s listen-port; wg show dynk8s peers; cat /run/systemctl/kubelet`

// runAgain runs the script on a node that has joined.
func (s *scene) runAgain() {
	s.t.Helper()
	before := s.says(settled)
	node, err := s.node()
	must(s.t, err)
	s.joins(0, "this node has joined: nothing to do")
	if after := s.says(settled); after != before {
		s.t.Errorf("a second run changed:\n%s\nto\n%s", before, after)
	}
	after, err := s.node()
	must(s.t, err)
	if after.UID != node.UID || fmt.Sprint(after.Spec) != fmt.Sprint(node.Spec) || fmt.Sprint(after.Labels) != fmt.Sprint(node.Labels) {
		s.t.Errorf("a second run changed the Node:\n%v\n%v\nto\n%v\n%v", node.Labels, node.Spec, after.Labels, after.Spec)
	}
	s.reaches(true, "after a second run")
}

// loseTunnel takes the interface away, behind the back of its unit.
func (s *scene) loseTunnel() {
	s.t.Helper()
	s.says("wg-quick down dynk8s 2>&1")
	s.reaches(false, "without the tunnel")
	s.joins(0, "this node has joined: nothing to do")
	s.reaches(true, "after the run that found no tunnel")
}

// reboot cuts the power and boots; systemd would start the kubelet, too.
func (s *scene) reboot() {
	s.t.Helper()
	before := s.says("cat /etc/kubernetes/kubelet.conf /etc/wireguard/dynk8s.conf | sha256sum")
	must(s.t, s.PowerOff())
	must(s.t, s.PowerOn(s.ctx))
	s.reaches(false, "after the boot")
	s.joins(0, "this node has joined: nothing to do")
	s.reaches(true, "after the boot's run")
	booted := time.Now()
	s.says("systemctl start kubelet")
	s.eventually("the kubelet is back", func() error {
		lease, err := shared.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(s.ctx, string(s.ID), metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(booted) {
			err = errors.New("it does not renew its lease")
		}
		return err
	})
	if after := s.says("cat /etc/kubernetes/kubelet.conf /etc/wireguard/dynk8s.conf | sha256sum"); after != before {
		s.t.Error("a boot changed the node's credentials")
	}
}

// bootstraps counts the certificate requests that were made with a bootstrap
// token for this Node.
func (s *scene) bootstraps() (n int) {
	s.t.Helper()
	list, err := shared.Client.CertificatesV1().CertificateSigningRequests().List(s.ctx, metav1.ListOptions{})
	must(s.t, err)
	seen := map[types.UID]bool{}
	for _, r := range list.Items {
		if strings.HasPrefix(r.Spec.Username, "system:bootstrap:") && requestedFor(r.Spec.Request, string(s.ID)) && !seen[r.UID] {
			seen[r.UID] = true
			n++
		}
	}
	return n
}
