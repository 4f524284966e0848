package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// An API server that does not answer costs the caller ten seconds, not more.
func TestSlowRendering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := oneAnswer(func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		start, w := time.Now(), httptest.NewRecorder()
		newArtifactHandler(stuck, AnyCaller(), nil, quiet).ServeHTTP(w, httptest.NewRequest("GET", joinPath, nil))
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

// Any path and method: 200 only for a route and a well-formed id, and one of
// the known answers else.
func FuzzArtifactPath(f *testing.F) {
	f.Add("GET", wireGuardPath)
	f.Add("HEAD", joinPath+"/")
	f.Add("POST", "/kubeadm/kubeconfig/i-0\x00")
	f.Add("", "//..//%2f")
	h := newArtifactHandler(fixedArtifacts{}, AnyCaller(), nil, quiet)
	f.Fuzz(func(t *testing.T, method, path string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}})
		id := instance.ID(path[strings.LastIndexByte(path, '/')+1:])
		served := id == testID && (path == wireGuardPath || path == kubeconfigPath || path == joinPath) &&
			(method == "GET" || method == "HEAD")
		if (w.Code == 200) != served || (w.Code != 200 && w.Code != 404 && w.Code != 405) {
			t.Errorf("%q %q: %d", method, path, w.Code)
		}
		if !served && strings.Contains(w.Body.String(), secret) {
			t.Errorf("%q %q: %q", method, path, w.Body)
		}
	})
}
