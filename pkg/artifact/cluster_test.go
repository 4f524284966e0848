package artifact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// clusterInfo is cluster-info as kubeadm writes it.
func clusterInfo(server string, ca []byte) string {
	return fmt.Sprintf(`apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: ""
contexts: null
current-context: ""
kind: Config
preferences: {}
users: null
`, base64.StdEncoding.EncodeToString(ca), server)
}

func TestParseClusterInfo(t *testing.T) {
	t.Parallel()
	ca := readFile(t, "ca.crt")
	tests := map[string]string{
		"as kubeadm writes it": clusterInfo(testServer, ca),
		"named":                strings.Replace(clusterInfo(testServer, ca), `name: ""`, "name: home", 1),
		"CRLF":                 strings.ReplaceAll(clusterInfo(testServer, ca), "\n", "\r\n"),
		"JSON": fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"","cluster":{"server":%q,"certificate-authority-data":%q}}]}`,
			testServer, base64.StdEncoding.EncodeToString(ca)),
	}
	for name, kubeconfig := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseClusterInfo([]byte(kubeconfig))
			if err != nil || got.Server != testServer || !bytes.Equal(got.CAData, ca) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestParseClusterInfoRefuses(t *testing.T) {
	t.Parallel()
	ca := readFile(t, "ca.crt")
	good := clusterInfo(testServer, ca)
	two := strings.Replace(good, "contexts:", "- {name: other, cluster: {server: \"https://b:6443\"}}\ncontexts:", 1)
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	tests := map[string]struct{ kubeconfig, want string }{
		"empty":              {"", "0 clusters"},
		"no clusters":        {"apiVersion: v1\nkind: Config\n", "0 clusters"},
		"two clusters":       {two, "2 clusters"},
		"twice the same":     {strings.Replace(two, "name: other", "name: \"\"", 1), "not a kubeconfig"},
		"null cluster":       {"apiVersion: v1\nkind: Config\nclusters: [null]\n", "no https URL"},
		"junk":               {"\x00\x01{{{", "not a kubeconfig"},
		"junk of 1 MiB":      {strings.Repeat("junk: [", 1<<17), "not a kubeconfig"},
		"a list":             {"- a\n- b\n", "not a kubeconfig"},
		"another kind":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "not a kubeconfig"},
		"http":               {clusterInfo("http://203.0.113.10:6443", ca), "no https URL"},
		"no scheme":          {clusterInfo("203.0.113.10:6443", ca), "no URL"},
		"no host":            {clusterInfo("https://:6443", ca), "no https URL"},
		"no server":          {clusterInfo(`""`, ca), "no https URL"},
		"with a password":    {clusterInfo("https://a:hunter2@203.0.113.10", ca), "host, port and path only"},
		"http with password": {clusterInfo("http://a:hunter2@203.0.113.10", ca), "no https URL"},
		"with a query":       {clusterInfo("https://203.0.113.10/?a=b", ca), "host, port and path only"},
		"no CA":              {clusterInfo(testServer, nil), "no CA certificate"},
		"CA in a file": {strings.Replace(clusterInfo(testServer, nil), "certificate-authority-data: ", "certificate-authority: /etc/passwd #", 1),
			"no CA certificate"},
		"CA is a key":         {clusterInfo(testServer, key), "no CA certificate"},
		"CA is junk":          {clusterInfo(testServer, []byte("junk")), "no CA certificate"},
		"CA is no base64":     {strings.Replace(good, "authority-data: ", "authority-data: '%%%' #", 1), "not a kubeconfig"},
		"skips verification":  {strings.Replace(clusterInfo(testServer, nil), "    server", "    insecure-skip-tls-verify: true\n    server", 1), "no CA certificate"},
		"many nested aliases": {"a: &a [x,x]\nb: &b [*a,*a]\nclusters: *b\n", "not a kubeconfig"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseClusterInfo([]byte(tt.kubeconfig))
			wantError(t, err, tt.want)
			if len(err.Error()) > 1000 || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error says too much: %.2000v", err)
			}
		})
	}
}

func FuzzParseClusterInfo(f *testing.F) {
	ca := readFile(f, "ca.crt")
	f.Add([]byte(clusterInfo(testServer, ca)))
	f.Add([]byte(clusterInfo("http://a", nil)))
	f.Add([]byte("clusters: [null, {name: a}]"))
	f.Add([]byte(`{"kind":"Config","apiVersion":"v1","clusters":[{"cluster":{"server":"https://a"}}]}`))
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		cluster, err := parseClusterInfo(kubeconfig)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("long error: %v", err)
			}
			return
		}
		// What was accepted can be rendered and read back the same.
		rendered, err := renderKubeconfig(cluster, testGrant().Token, Config{})
		if err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		again, err := parseClusterInfo(rendered)
		if err != nil || again.Server != cluster.Server || !bytes.Equal(again.CAData, cluster.CAData) {
			t.Errorf("read back as %+v, %v; was %+v", again, err, cluster)
		}
	})
}
