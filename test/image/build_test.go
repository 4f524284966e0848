//go:build linux

package image

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// oci is an image as a registry would get it.
type oci struct {
	arch    string
	config  config
	content map[string][]byte // of the regular files, by path
	size    int64             // compressed, in bytes
}

type config struct {
	User                 string
	Env, Entrypoint, Cmd []string
}

func (o oci) files() []string { return slices.Sorted(maps.Keys(o.content)) }

// builder makes images with buildah, in a store of its own.
type builder struct{ env []string }

// build builds the Dockerfile by `make image`, as a user would, for one
// architecture.
func build(t *testing.T, tree, arch string) oci {
	t.Helper()
	if err := parts.Debian(t.Context(), os.Stderr, "buildah", "busybox"); err != nil {
		t.Fatal(err)
	}
	b := newBuilder(t)
	base := b.goImage(t, arch)
	image, flags := "dynk8s.example.org/provisioner:"+arch, []string{
		"--platform linux/" + arch, "--build-arg GO_IMAGE=" + base,
		"--volume " + goEnv(t, "GOROOT") + ":/usr/local/go:ro",
		"--volume " + goEnv(t, "GOMODCACHE") + ":/go/pkg/mod",
		"--volume " + goEnv(t, "GOCACHE") + ":/root/.cache/go-build",
		"--pull-never",
	}
	cmd := exec.CommandContext(t.Context(), "make", "-C", tree, "image", "IMAGE_BUILDER=buildah",
		"IMAGE="+image, "VERSION="+version, "IMAGE_FLAGS="+strings.Join(flags, " "))
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make image: %v\n%s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "oci")
	b.run(t, "push", "--quiet", image, "oci:"+dir+":image")
	return readOCI(t, dir)
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "storage.conf")
	write(t, conf, []byte("[storage]\ndriver = \"vfs\"\ngraphroot = \""+dir+"/graph\"\nrunroot = \""+dir+"/run\"\n"))
	policy := filepath.Join(dir, "home", ".config", "containers", "policy.json") // there may be none on the machine
	write(t, policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`))
	b := &builder{env: append(os.Environ(), "CONTAINERS_STORAGE_CONF="+conf, "HOME="+filepath.Join(dir, "home"), "GOFLAGS=")}
	t.Cleanup(func() { b.clear(t) })
	return b
}

// clear removes the store, whose folders may be mounts.
func (b *builder) clear(t *testing.T) {
	cmd := exec.Command("buildah", "rm", "--all")
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("buildah rm: %v\n%s", err, out)
	}
}

func (b *builder) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "buildah", args...)
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("buildah %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// goImage makes the stand-in for the image that has the Go compiler. It says that
// it is for arch: builders differ in what platform they take a first stage from.
func (b *builder) goImage(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bin", "busybox")
	write(t, program, read(t, busybox))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "ls", "mkdir", "cat", "cp", "rm", "uname"} {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "etc", "passwd"), []byte("root:x:0:0::/root:/bin/sh\n"))
	write(t, filepath.Join(dir, "etc", "ssl", "certs", "ca-certificates.crt"), certificates(t))
	write(t, filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY bin /bin\nCOPY etc /etc\nWORKDIR /tmp\n"+
		"ENV PATH=/usr/local/go/bin:/bin GOPATH=/go GOTOOLCHAIN=local HOME=/root\n"))
	const image = "dynk8s.example.org/golang:stand-in"
	b.run(t, "bud", "--isolation", "chroot", "--quiet", "--platform", "linux/"+arch, "-t", image, dir)
	return image
}

// certificates are the machine's public authorities.
var certificates = func() func(*testing.T) []byte {
	load := sync.OnceValues(func() ([]byte, error) {
		var errs []error
		for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
			content, err := os.ReadFile(file)
			if err == nil {
				return content, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	})
	return func(t *testing.T) []byte {
		t.Helper()
		content, err := load()
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
}()

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// readOCI reads an image of one manifest from an OCI layout.
func readOCI(t *testing.T, dir string) oci {
	t.Helper()
	type blob struct {
		Digest string
		Size   int64
	}
	open := func(b blob) string { return filepath.Join(dir, "blobs", strings.Replace(b.Digest, ":", "/", 1)) }
	parse := func(file string, into any) {
		if err := json.Unmarshal(read(t, file), into); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []blob }
	parse(filepath.Join(dir, "index.json"), &index)
	var manifest struct {
		Config blob
		Layers []blob
	}
	parse(open(index.Manifests[0]), &manifest)
	var c struct {
		Architecture string
		Config       config
	}
	parse(open(manifest.Config), &c)
	image := oci{arch: c.Architecture, config: c.Config, content: map[string][]byte{}}
	for _, layer := range manifest.Layers {
		image.size += layer.Size
		unpack(t, open(layer), image.content)
	}
	return image
}

func unpack(t *testing.T, layer string, into map[string][]byte) {
	t.Helper()
	f, err := os.Open(layer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if into[strings.TrimPrefix(header.Name, "/")], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
