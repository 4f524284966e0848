//go:build linux

package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// component is one program of the control plane's module.
type component struct{ name, pkg, takes string }

// The order matters: what comes later reuses what was compiled before, and
// takes says how long that is on two idle cores with an empty build cache.
var components = []component{
	{"etcd", "go.etcd.io/etcd/server/v3", "2 min"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "9 min"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "3 min"},
	{"kubeadm", "k8s.io/kubernetes/cmd/kubeadm", "45 s"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", "40 s"},
	{"kubelet", "k8s.io/kubernetes/cmd/kubelet", "45 s"},
	{"fakecri", "./fakecri", "5 s"},
}

// nodeComponents is how many of them, from the end, a node needs, and who looks
// at it.
const nodeComponents = 4

// ControlPlane returns a folder with etcd, kube-apiserver,
// kube-controller-manager, kubeadm, kubectl, kubelet and fakecri. It builds them
// when the cache does not hold them, which takes about a quarter of an hour on
// two cores and the network for the Go modules; lines about that go to w (nil:
// nowhere).
func ControlPlane(ctx context.Context, w io.Writer) (string, error) {
	pt, err := kubernetesPart("control plane", "controlplane", components)
	if err != nil {
		return "", err
	}
	return pt.ensure(ctx, w)
}

// NodePrograms returns a folder with at least kubeadm, kubectl, kubelet and
// fakecri, for use with a cluster that has a control plane already.
func NodePrograms(ctx context.Context, w io.Writer) (string, error) {
	all, err := kubernetesPart("control plane", "controlplane", components)
	if err != nil {
		return "", err
	}
	if dir, err := all.dir(); err == nil && all.found(dir) {
		return dir, nil
	}
	pt, err := kubernetesPart("node's programs", "node", components[len(components)-nodeComponents:])
	if err != nil {
		return "", err
	}
	return pt.ensure(ctx, w)
}

// kubernetesPart describes programs of the module test/controlplane.
func kubernetesPart(name, folder string, which []component) (part, error) {
	root, err := Root()
	if err != nil {
		return part{}, err
	}
	src := filepath.Join(root, "test", "controlplane")
	pins, err := readAll(src, "go.mod", "go.sum", filepath.Join("fakecri", "main.go"))
	if err != nil {
		return part{}, err
	}
	version, err := kubernetesVersion(pins[0])
	if err != nil {
		return part{}, err
	}
	return part{
		name:   name,
		folder: fmt.Sprintf("%s-%s-%s", folder, version, hash(pins...)),
		build: func(ctx context.Context, dir string, p *progress) error {
			return buildComponents(ctx, which, src, dir, version, p)
		},
	}, nil
}

func readAll(dir string, names ...string) ([][]byte, error) {
	var contents [][]byte
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		contents = append(contents, b)
	}
	return contents, nil
}

var requiredKubernetes = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\S+)`)

// kubernetesVersion returns the version of Kubernetes that a go.mod pins.
func kubernetesVersion(gomod []byte) (string, error) {
	m := requiredKubernetes.FindSubmatch(gomod)
	if m == nil {
		return "", errors.New("test/controlplane/go.mod does not require k8s.io/kubernetes")
	}
	return string(m[1]), nil
}

func buildComponents(ctx context.Context, which []component, src, dir, version string, p *progress) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("%w: install Go and put it on PATH", err)
	}
	p.printf("building Kubernetes %s once for this machine: up to 17 min on two cores if nothing is compiled yet", version)
	for i, c := range which {
		out := filepath.Join(dir, c.name)
		if _, err := os.Stat(out); err == nil { // of a build that was interrupted
			continue
		}
		done := p.step("%s %d/%d, about %s", c.name, i+1, len(which), c.takes)
		err := buildComponent(ctx, src, out, version, c)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// buildComponent links under another name first: what has the component's name
// is whole.
func buildComponent(ctx context.Context, src, out, version string, c component) error {
	// The flags of a caller's environment (-race, -mod, a workspace) are for
	// another module than this one; without cgo no C compiler is needed.
	env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	err := run(ctx, src, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", linkerFlags(version), "-o", out+".tmp", c.pkg)
	if err != nil {
		return err
	}
	return os.Rename(out+".tmp", out)
}

// linkerFlags stamps the version as the Kubernetes build scripts do. Unstamped,
// the programs call themselves v0.0.0-master+$Format:%H$.
func linkerFlags(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, set := range []string{
			"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor,
			"gitTreeState=clean", "gitCommit=" + strings.Repeat("0", 40), "buildDate=1970-01-01T00:00:00Z",
		} {
			flags = append(flags, "-X", pkg+"."+set)
		}
	}
	return strings.Join(flags, " ")
}
