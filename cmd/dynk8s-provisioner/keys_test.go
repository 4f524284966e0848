package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const serverKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

func generateArgs(more ...string) []string {
	return append([]string{"keys", "generate", "--count", "2", "--network", "10.99.0.0/24",
		"--endpoint", "vpn.example.org:51820", "--server-public-key", serverKey}, more...)
}

func TestKeysGenerate(t *testing.T) {
	out, errs, err := call(t, generateArgs("--namespace", "dynk8s", "--dns", "10.99.0.1", "--allowed-ips", "10.99.0.0/24,192.168.1.0/24")...)
	if err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	secrets, sections, found := strings.Cut(out, "---\n# Peer sections")
	if !found || strings.Count(secrets, "kind: Secret") != 2 || strings.Count(sections, "# [Peer]") != 2 || !strings.Contains(secrets, "192.168.1.0/24") {
		t.Errorf("output %s", out)
	}
	for line := range strings.Lines(sections) {
		if !strings.HasPrefix(line, "# ") && !strings.Contains(line, "for the VPN") {
			t.Errorf("line %q is no comment", line)
		}
	}
}

func TestKeysGenerateToFiles(t *testing.T) {
	dir := t.TempDir()
	secrets, peers := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "peers.conf")
	out, _, err := call(t, generateArgs("--secrets", secrets, "--peers", peers)...)
	if err != nil || out != "" {
		t.Fatal(err, out)
	}
	before := map[string]string{}
	for file, want := range map[string]string{secrets: "PrivateKey = ", peers: "\n[Peer]\n"} {
		content, err := os.ReadFile(file)
		info, statErr := os.Stat(file)
		if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || strings.Count(string(content), want) != 2 {
			t.Errorf("%s: %v, %v, %v", file, err, statErr, info)
		}
		before[file] = string(content)
	}
	// Keys that are in use are not written over, and no half is left behind.
	if _, _, err = call(t, generateArgs("--secrets", secrets, "--peers", peers)...); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second time: %v", err)
	}
	other := filepath.Join(dir, "other.yaml")
	if _, _, err = call(t, generateArgs("--secrets", other, "--peers", peers)...); err == nil {
		t.Error("the peers were written over")
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("the Secrets are left: %v", err)
	}
	for file, content := range before {
		if now, err := os.ReadFile(file); err != nil || string(now) != content {
			t.Errorf("%s has changed, %v", file, err)
		}
	}
	out, _, err = call(t, generateArgs("--secrets", other)...)
	if err != nil || strings.Contains(out, "PrivateKey") || !strings.HasPrefix(out, "\n# wireguard-key-01\n[Peer]\n") {
		t.Errorf("%v, %q", err, out)
	}
}

// Private keys stay off the screen unless they are asked for. The null device is
// a character device as a terminal is.
func TestKeysGenerateOnATerminal(t *testing.T) {
	screen, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = screen.Close() }()
	for name, tt := range map[string]struct {
		args []string
		ok   bool
	}{
		"everything":         {nil, false},
		"public keys only":   {[]string{"--secrets", filepath.Join(t.TempDir(), "k")}, true},
		"preshared keys too": {[]string{"--secrets", filepath.Join(t.TempDir(), "k"), "--preshared"}, false},
		"asked for":          {[]string{"--to-terminal"}, true},
	} {
		cmd := newCommand()
		cmd.SetOut(screen)
		cmd.SetArgs(generateArgs(tt.args...))
		if err := cmd.ExecuteContext(t.Context()); (err == nil) != tt.ok || (err != nil && !strings.Contains(err.Error(), "is a terminal")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysGenerateRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"nothing said":     {[]string{"keys", "generate"}, "required flag"},
		"network":          {generateArgs("--network", "10.99.0.0"), "--network"},
		"host bits":        {generateArgs("--network", "10.99.0.1/24"), "host bits"},
		"server address":   {generateArgs("--server-address", "x"), "--server-address"},
		"start":            {generateArgs("--start", "x"), "--start"},
		"allowed":          {generateArgs("--allowed-ips", "x"), "--allowed-ips"},
		"missing folder":   {generateArgs("--secrets", "/nonexistent/k"), "/nonexistent"},
		"count":            {generateArgs("--count", "0"), "count 0"},
		"stray argument":   {generateArgs("now"), "now"},
		"no such document": {[]string{"keys", "walk"}, "walk"},
	} {
		if out, _, err := call(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(out, "PrivateKey") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
