package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with a call is told before anything is made or anybody asked.
func TestHostRefuses(t *testing.T) {
	config := writeFile(t, "c.yaml", minimal)
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	script := writeFile(t, "setup.sh", "echo no interpreter\n")
	fresh := filepath.Join(t.TempDir(), "new")
	add := func(more ...string) []string { return append([]string{"host", "add", "-c", config}, more...) }
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no name":            {add("--output", fresh), "accepts 1 arg"},
		"nowhere to write":   {add("worker-1"), "output seed"},
		"two places":         {add("--output", fresh, "--seed", fresh, "worker-1"), "none of the others"},
		"instance id":        {add("--output", fresh, "i-0123456789abcdef0"), "EC2 instance id"},
		"capitals":           {add("--output", fresh, "Worker"), "lower case"},
		"unknown profile":    {add("--output", fresh, "--profile", "x", "worker-1"), `profile "x"`},
		"short life":         {add("--output", fresh, "--ttl", "1s", "worker-1"), "--ttl 1s"},
		"long life":          {add("--output", fresh, "--ttl", "1000h", "worker-1"), "--ttl 1000h"},
		"node IP":            {add("--output", fresh, "--node-ip", "x", "worker-1"), "--node-ip"},
		"setup by hand":      {add("--output", fresh, "--setup", script, "worker-1"), "--setup is for --seed"},
		"missing script":     {add("--seed", fresh, "--setup", "/nonexistent", "worker-1"), "/nonexistent"},
		"no interpreter":     {add("--seed", fresh, "--setup", script, "worker-1"), "interpreter"},
		"a folder as script": {add("--seed", fresh, "--setup", open, "worker-1"), "regular file"},
		"others may write":   {add("--output", open, "worker-1"), "others may write"},
		"remove nobody":      {[]string{"host", "remove", "-c", config}, "accepts 1 arg"},
		"remove an instance": {[]string{"host", "remove", "-c", config, "i-0123456789abcdef0"}, "EC2 instance id"},
		"list too much":      {[]string{"host", "list", "-c", config, "all"}, "all"},
		"no kubeconfig":      {[]string{"host", "list", "-c", config, "--kubeconfig", "/nonexistent"}, "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			args := tt.args
			if name != "no kubeconfig" {
				args = append(args, "--kubeconfig", writeFile(t, "kubeconfig", nowhereKubeconfig))
			}
			if _, _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
}

const nowhereKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
users: [{name: c, user: {token: hush-hush}}]
current-context: c
`
