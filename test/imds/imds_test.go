package imds_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/imds"
)

const (
	id           = instance.ID("i-0123456789abcdef0")
	tokenPath    = "/latest/api/token"
	idPath       = "/latest/meta-data/instance-id"
	documentPath = "/latest/dynamic/instance-identity/rsa2048"
	ttl          = "X-aws-ec2-metadata-token-ttl-seconds"
	tokenHeader  = "X-aws-ec2-metadata-token"
)

var document = strings.Repeat("0123456789", 20)

func newServer() *imds.Server {
	return imds.New(id, func(context.Context) (string, error) { return document, nil })
}

func ask(s http.Handler, method, path string, header ...string) (int, string) {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestV2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		code, token := ask(s, http.MethodPut, tokenPath, ttl, "60")
		if code != http.StatusOK || token == "" {
			t.Fatalf("a token: %d %q", code, token)
		}
		if code, body := ask(s, http.MethodGet, idPath, tokenHeader, token); code != http.StatusOK || body != string(id) {
			t.Errorf("the id: %d %q", code, body)
		}
		code, body := ask(s, http.MethodGet, documentPath, tokenHeader, token)
		if code != http.StatusOK || strings.ReplaceAll(body, "\n", "") != document {
			t.Errorf("the document: %d %q", code, body)
		}
		lines := strings.Split(body, "\n")
		if len(lines) != 3 || len(lines[0]) != 76 || len(lines[2]) != 200-2*76 {
			t.Errorf("the document is not wrapped at 76 columns: %q", lines)
		}
		time.Sleep(61 * time.Second) // of the bubble's clock
		if code, _ := ask(s, http.MethodGet, idPath, tokenHeader, token); code != http.StatusUnauthorized {
			t.Errorf("an expired token: %d", code)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newServer()
	for name, c := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"no token":        {http.MethodGet, idPath, nil, http.StatusUnauthorized},
		"a made-up token": {http.MethodGet, documentPath, []string{tokenHeader, "x"}, http.StatusUnauthorized},
		"no life":         {http.MethodPut, tokenPath, nil, http.StatusBadRequest},
		"a life of 0":     {http.MethodPut, tokenPath, []string{ttl, "0"}, http.StatusBadRequest},
		"too long a life": {http.MethodPut, tokenPath, []string{ttl, "21601"}, http.StatusBadRequest},
		"through a proxy": {http.MethodPut, tokenPath, []string{ttl, "60", "X-Forwarded-For", "192.0.2.1"}, http.StatusForbidden},
		"another method":  {http.MethodPost, idPath, nil, http.StatusMethodNotAllowed},
	} {
		if code, _ := ask(s, c.method, c.path, c.header...); code != c.want {
			t.Errorf("%s: %d, want %d", name, code, c.want)
		}
	}
	_, token := ask(s, http.MethodPut, tokenPath, ttl, "60")
	if code, _ := ask(s, http.MethodGet, "/latest/meta-data/ami-id", tokenHeader, token); code != http.StatusNotFound {
		t.Errorf("an unknown path: %d", code)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.Set(imds.V1Only)
	if code, _ := ask(s, http.MethodPut, tokenPath, ttl, "60"); code != http.StatusNotFound {
		t.Errorf("IMDSv1 only, a token: %d", code)
	}
	if code, body := ask(s, http.MethodGet, idPath); code != http.StatusOK || body != string(id) {
		t.Errorf("IMDSv1 only, the id: %d %q", code, body)
	}
	s.Set(imds.Disabled)
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		if code, _ := ask(s, method, tokenPath, ttl, "60"); code != http.StatusForbidden {
			t.Errorf("disabled, %s: %d", method, code)
		}
	}
	s.Set(imds.Down)
	server := httptest.NewServer(s)
	defer server.Close()
	if resp, err := http.Get(server.URL + idPath); err == nil {
		_ = resp.Body.Close()
		t.Errorf("down: %s", resp.Status)
	}
}

func TestDocumentFails(t *testing.T) {
	t.Parallel()
	s := imds.New(id, func(context.Context) (string, error) { return "", errors.New("no such instance") })
	s.Set(imds.V1Only)
	if code, _ := ask(s, http.MethodGet, documentPath); code != http.StatusInternalServerError {
		t.Errorf("%d", code)
	}
}
