package faultproxy

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubernetes starts a proxy in front of the API server, which it asks with the
// credentials of config. It writes a kubeconfig for its clients into the file.
// Operations are a verb and a resource, with their name when there is one and
// the verb is get: "create secrets", "update secrets", "list nodes", "watch
// secrets", "get configmaps cluster-info".
func Kubernetes(config *rest.Config, kubeconfig string) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	token, err := randomToken()
	if err != nil {
		return nil, err
	}
	ca, certificate, err := newCertificates()
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization") // ours; the transport adds its own
	}}
	p, err := start(forward, kubernetesOperation)
	if err != nil {
		return nil, err
	}
	p.server.Handler = onlyWith(token, p)
	p.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	// HTTP/1.1 only: so that a connection can be cut without others on it.
	p.server.Protocols = new(http.Protocols)
	p.server.Protocols.SetHTTP1(true)
	go func() { _ = p.server.ServeTLS(p.listener, "", "") }() // it ends by Stop only
	return p, writeKubeconfig(kubeconfig, "https://"+p.Addr(), ca, token)
}

// onlyWith keeps others on this machine from what the proxy may do.
func onlyWith(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func randomToken() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

func writeKubeconfig(file, server string, ca []byte, token string) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "test"}
	c.CurrentContext = "test"
	content, err := clientcmd.Write(*c)
	if err != nil {
		return errors.Join(errors.New("kubeconfig of the fault proxy"), err)
	}
	return os.WriteFile(file, content, 0o600)
}

// verbs of requests; GET is told apart further on.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// kubernetesOperation reads verb, resource and name from a path such as
// /api/v1/namespaces/kube-system/secrets/name.
func kubernetesOperation(r *http.Request, _ []byte) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	skip := 2 // api, version
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) <= skip {
		return ""
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb, known := verbs[r.Method]
	switch {
	case known:
		return verb + " " + parts[0]
	case r.URL.Query().Has("watch"):
		return "watch " + parts[0]
	case len(parts) > 1:
		return "get " + parts[0] + " " + parts[1]
	default:
		return "list " + parts[0]
	}
}

// Status is an error as the API server words it, such as 409 with Conflict or
// 500 with InternalError.
func Status(code int, reason string) Fault {
	return Respond(answer(code, "application/json",
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s, says the fault proxy","reason":"%s","code":%d}`,
		reason, reason, code))
}

// Busy is the API server's 429, which asks its client to wait a second.
func Busy() Fault {
	a := answer(http.StatusTooManyRequests, "text/plain; charset=utf-8", "Too many requests, please try again later.\n")
	a.Header.Set("Retry-After", "1")
	return Respond(a)
}
