package artifact

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

func TestRenderKubeconfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg           Config
		server, token string
	}{
		"kubeconfig.yaml":        {Config{}, testServer, ""},
		"kubeconfig-token.yaml":  {Config{TokenInKubeconfig: true}, testServer, "5emitj." + tokenSecret},
		"kubeconfig-server.yaml": {Config{Server: "https://10.99.0.1:6443"}, "https://10.99.0.1:6443", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := renderKubeconfig(testCluster(t), testGrant().Token, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
			clientConfig, err := clientcmd.RESTConfigFromKubeConfig(got)
			if err != nil {
				t.Fatalf("a client cannot use it: %v", err)
			}
			if clientConfig.Host != tt.server || clientConfig.BearerToken != tt.token {
				t.Errorf("a client sees %s and token %s", clientConfig.Host, clientConfig.BearerToken)
			}
		})
	}
}

func TestRenderKubeconfigRefuses(t *testing.T) {
	t.Parallel()
	good := testGrant().Token
	_, err := renderKubeconfig(Cluster{Server: testServer}, good, Config{})
	wantError(t, err, "no CA certificate")
	_, err = renderKubeconfig(testCluster(t), good, Config{Server: "http://10.99.0.1"})
	wantError(t, err, "no https URL")
	_, err = renderKubeconfig(testCluster(t), bootstraptoken.NewToken("a", "b\nc: d"), Config{TokenInKubeconfig: true})
	wantError(t, err, "bootstrap token")
}
