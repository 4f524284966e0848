package host

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func openFolder(t *testing.T, path string) *Folder {
	t.Helper()
	f, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestFolderWritesForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := openFolder(t, dir)
	for _, content := range []string{"one", "two"} {
		if err := f.Write("join.yaml", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "join.yaml"))
		if err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, "join.yaml"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A link in a file's place is replaced: what it points to is not written.
func TestFolderFollowsNoLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte(marker("worker-1")), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "out")
	f := openFolder(t, inside)
	if err := os.Symlink(victim, filepath.Join(inside, "join.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := f.Check("worker-1", "join.yaml"); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a link passes for ours: %v", err)
	}
	if err := f.Write("join.yaml", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(victim); err != nil || string(content) != marker("worker-1") {
		t.Errorf("%q, %v", content, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, victim} {
		if _, err := OpenFolder(path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}

func TestFolderChecks(t *testing.T) {
	t.Parallel()
	f := openFolder(t, t.TempDir())
	if err := f.Check("worker-1", "join.yaml", "user-data"); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	for name, tt := range map[string]struct {
		content string
		ours    bool
	}{
		"first line":  {marker("worker-1") + "x", true},
		"second line": {"#cloud-config\n" + marker("worker-1"), true},
		"third line":  {"a\nb\n" + marker("worker-1"), false},
		"another":     {marker("worker-10"), false},
		"nothing":     {"", false},
		"one line":    {strings.Repeat("x", 5000), false},
	} {
		if err := f.Write("file", []byte(tt.content)); err != nil {
			t.Fatal(err)
		}
		if err := f.Check("worker-1", "file"); (err == nil) != tt.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeed(t *testing.T) {
	t.Parallel()
	r, hand := newRegistrar(t)
	added, err := r.Add(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	scripts := []Script{{"dynk8s-node-setup", []byte("#!/bin/sh\n")}, {"k8s-worker.sh", []byte("#!/bin/sh\necho hello\n")}}
	files, err := Seed("worker-1", added, "/etc/kubernetes/dynk8s/discovery.conf", scripts)
	if err != nil || len(files) != 2 || files[0].Name != "user-data" || files[1].Name != "meta-data" {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(files[0].Content), "#cloud-config\n"+marker("worker-1")) {
		t.Error("user data does not begin as cloud-init wants")
	}
	var config cloudConfig
	if err := yaml.UnmarshalStrict(files[0].Content, &config); err != nil {
		t.Fatal(err)
	}
	plain := Files("worker-1", added)
	for i, want := range []struct{ path, mode, content string }{
		{"/etc/kubernetes/dynk8s/discovery.conf", "0600", string(plain[0].Content)},
		{"/etc/kubernetes/dynk8s/join.yaml", "0600", string(plain[1].Content)},
		{"/usr/local/sbin/dynk8s-node-setup", "0755", "#!/bin/sh\n"},
		{"/usr/local/sbin/k8s-worker.sh", "0755", "#!/bin/sh\necho hello\n"},
	} {
		got := config.WriteFiles[i]
		content, err := base64.StdEncoding.DecodeString(got.Content)
		if err != nil || got.Path != want.path || got.Permissions != want.mode || got.Owner != "root:root" || string(content) != want.content {
			t.Errorf("file %d: %s %s, %v", i, got.Path, got.Permissions, err)
		}
	}
	if len(config.RunCmd) != 1 || config.RunCmd[0][2] != "set -e\n/usr/local/sbin/dynk8s-node-setup\n/usr/local/sbin/k8s-worker.sh" {
		t.Errorf("commands %q", config.RunCmd)
	}
	if meta := string(files[1].Content); !strings.Contains(meta, "local-hostname: worker-1\n") || !strings.Contains(meta, "instance-id: worker-1-"+added.Token.UID()) {
		t.Errorf("meta data %s", meta)
	}
	putNode(t, hand, readyNode("worker-2", corev1.ConditionFalse)) // of another host
	for _, bad := range [][]Script{
		{{"a b", []byte("#!/bin/sh\n")}}, {{"a;reboot", []byte("#!/bin/sh\n")}}, {{"", []byte("#!/bin/sh\n")}},
		{{"a", []byte("#!/bin/sh\n")}, {"a", []byte("#!/bin/sh\n")}}, {{"a", []byte("echo\n")}},
	} {
		if _, err := Seed("worker-1", added, "/x", bad); err == nil {
			t.Errorf("scripts %q were taken", bad)
		}
	}
}
