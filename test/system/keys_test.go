//go:build linux

package system

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/parts"
)

var privateLine = regexp.MustCompile(`(?m)^(?:PrivateKey|PresharedKey) = (.*)$`)

// What `keys generate` makes is a pool for the program and for WireGuard's own
// tools: kubectl takes the Secrets, an instance gets one of them byte for byte,
// `wg` finds the public key that the server is told, and `wg-quick` reads both
// files.
func TestGeneratedKeysArePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, parts.Debian(w.ctx, os.Stderr, "wg", "wg-quick"))
	serverPrivate := w.wg("", "genkey")
	secretsFile, peersFile := filepath.Join(w.dir(), "keys.yaml"), filepath.Join(w.dir(), "peers.conf")
	cmd := exec.CommandContext(w.ctx, shared.program, "keys", "generate", "--count", "3", "--network", "10.97.0.0/24",
		"--endpoint", "vpn.example.org:51820", "--server-public-key", w.wg(serverPrivate, "pubkey"), "--preshared", "--mtu", "1380",
		"--dns", "10.97.0.1", "--allowed-ips", "10.97.0.0/24,192.0.2.0/24", "--secrets", secretsFile, "--peers", peersFile)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v, %d bytes of output", err, len(out))
	}
	must(t, kubectl(w.ctx, w.stack, "-n", w.namespace, "apply", "-f", secretsFile))
	peers, err := os.ReadFile(peersFile)
	must(t, err)

	d := w.start(slowReconcile)
	ids := w.launch(3)
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	held, err := w.keysOf()
	must(t, err)
	for _, id := range ids {
		config := held[id][0].Data[keys.ConfigKey]
		for _, m := range privateLine.FindAllSubmatch(config, -1) {
			secrets.add("key of "+held[id][0].Name, string(m[1]))
		}
		served, err := w.fetch(d, "wireguard/config", id, http.StatusOK)
		must(t, err)
		if !bytes.Equal(served, config) {
			t.Errorf("%s is served something else", id)
		}
		w.checkPeer(held[id][0].Name, config, peers)
	}
	server := fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.97.0.1/24\nListenPort = 51820\n%s", serverPrivate, peers)
	if stripped := w.strip("server", []byte(server)); strings.Count(stripped, "[Peer]") != 3 || strings.Contains(stripped, "Address") {
		t.Error("wg-quick reads the server's configuration otherwise")
	}
}

// checkPeer compares a configuration with what the server is told of it.
func (w *world) checkPeer(name string, config, peers []byte) {
	w.t.Helper()
	private := privateLine.FindSubmatch(config)[1]
	preshared := privateLine.FindAllSubmatch(config, 2)[1][1]
	address := regexp.MustCompile(`(?m)^Address = (.*)$`).FindSubmatch(config)[1]
	section := fmt.Sprintf("\n# %s\n[Peer]\nPublicKey = %s\nPresharedKey = %s\nAllowedIPs = %s\n", name, w.wg(string(private), "pubkey"), preshared, address)
	if !bytes.Contains(peers, []byte(section)) {
		w.t.Errorf("the server is told something else of %s", name)
	}
	stripped := w.strip(name, config)
	for _, not := range []string{"Address", "DNS", "MTU"} {
		if strings.Contains(stripped, not) {
			w.t.Errorf("wg-quick leaves %s to wg", not)
		}
	}
	for _, want := range []string{"[Interface]", "PrivateKey", "[Peer]", "Endpoint = vpn.example.org:51820", "AllowedIPs = 10.97.0.0/24, 192.0.2.0/24", "PersistentKeepalive = 25"} {
		if !strings.Contains(stripped, want) {
			w.t.Errorf("wg-quick does not pass on %q", want)
		}
	}
}

// wg runs wg with input and returns what it prints.
func (w *world) wg(input string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, "wg", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	must(w.t, err)
	text := strings.TrimSpace(string(out))
	if args[0] == "genkey" {
		secrets.add("private key of the server", text)
	}
	return text
}

// strip returns what wg-quick passes on to wg. It wants to be root, if only of a
// namespace.
func (w *world) strip(name string, config []byte) string {
	w.t.Helper()
	file := filepath.Join(w.dir(), name, "dynk8s.conf") // its name is the interface's
	must(w.t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(w.t, os.WriteFile(file, config, 0o600))
	cmd := exec.CommandContext(w.ctx, "wg-quick", "strip", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	must(w.t, err)
	return string(out)
}
