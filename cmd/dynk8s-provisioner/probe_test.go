package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			_, _ = w.Write([]byte("ok\n"))
		case "/away":
			http.Redirect(w, r, "/readyz", http.StatusFound)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	for name, tt := range map[string]struct {
		args []string
		want string // in the error; empty: none
	}{
		"ready":              {[]string{plain.URL + "/readyz"}, ""},
		"refused":            {[]string{plain.URL + "/kubeadm/join/i-1"}, "answers 401, want one of [200]"},
		"refused, as wanted": {[]string{"--status", "401,403", plain.URL + "/kubeadm/join/i-1"}, ""},
		"redirect":           {[]string{plain.URL + "/away"}, "answers 302"},
		"unknown signer":     {[]string{secure.URL + "/readyz"}, "certificate"},
		"any certificate":    {[]string{"--insecure", secure.URL + "/readyz"}, ""},
		"nobody there":       {[]string{"http://127.0.0.1:1/"}, "refused"},
		"no URL":             {[]string{"://"}, "missing protocol scheme"},
		"nothing":            {nil, "accepts 1 arg"},
	} {
		out, _, err := call(t, append([]string{"probe"}, tt.args...)...)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		case name == "ready" && out != "200 OK\nok\n":
			t.Errorf("%q", out)
		}
	}
}
