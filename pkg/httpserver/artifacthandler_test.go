package httpserver

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An API server that does not answer costs the caller ten seconds, not more.
func TestSlowRendering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := oneAnswer(func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		start, w := time.Now(), httptest.NewRecorder()
		newTestHandler(stuck, AnyCaller()).ServeHTTP(w, httptest.NewRequest("GET", joinPath, nil))
		if took := time.Since(start); took != handlerTimeout || w.Code != 503 {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestTimeoutsFitTogether(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
	defer func() { _ = s.Close() }() // it was never run
	h := s.http
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.IdleTimeout <= 0 || h.WriteTimeout <= handlerTimeout {
		t.Errorf("time-outs: %v %v %v %v", h.ReadHeaderTimeout, h.ReadTimeout, h.IdleTimeout, h.WriteTimeout)
	}
	if s.shutdown > 10*time.Second || h.MaxHeaderBytes != 16<<10 {
		t.Errorf("shutdown in %v, headers of %d bytes", s.shutdown, h.MaxHeaderBytes)
	}
}

// Any method and target: 200 only for a route and a well-formed id written out
// in full, and one of the known answers else.
func FuzzArtifactRequest(f *testing.F) {
	for _, target := range []string{
		wireGuardPath, joinPath + "/", "/kubeadm/kubeconfig/i-0\x00", "//..//%2f", "*", "http://test" + joinPath,
		joinPath + "?a=%2f", "/kubeadm/join/i%2D0123456789abcdef0", "/kubeadm/join/i-0123456789ABCDEF0",
		"/kubeadm/./join/" + string(testID), "/%6bubeadm/join/" + string(testID), joinPath + "%00", joinPath + "#a",
	} {
		f.Add("GET", target)
	}
	f.Add("HEAD", joinPath)
	f.Add("POST", joinPath)
	f.Add("CONNECT", "test:443")
	h := newTestHandler(fixedArtifacts{}, AnyCaller())
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(plainRequest(method + " " + target))))
		if err != nil {
			return // net/http answers 400
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		path, _, _ := strings.Cut(r.RequestURI, "?")
		isArtifact := func(known string) bool { return path == known }
		mayBeServed := r.Method == "GET" || r.Method == "HEAD"
		if !strings.HasPrefix(path, "/") { // a whole URL, as a proxy is sent
			isArtifact = func(known string) bool { return strings.HasSuffix(path, known) }
			mayBeServed = mayBeServed && w.Code == 200
		}
		served := mayBeServed && slices.ContainsFunc([]string{wireGuardPath, kubeconfigPath, joinPath}, isArtifact)
		if (w.Code == 200) != served || (w.Code != 200 && w.Code != 404 && w.Code != 405) {
			t.Errorf("%q %q: %d", r.Method, r.RequestURI, w.Code)
		}
		if !served && strings.Contains(w.Body.String(), secret) {
			t.Errorf("%q %q: %q", r.Method, r.RequestURI, w.Body)
		}
	})
}
