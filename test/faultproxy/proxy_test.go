package faultproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// echo is a service that answers with what it was asked.
func echo(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func newAWS(t *testing.T, endpoint string) *Proxy {
	t.Helper()
	p, err := AWS(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// ask sends an SQS request; the error is that of the body too.
func ask(t *testing.T, p *Proxy, operation, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

func TestRulesChooseByOperationAndCount(t *testing.T) {
	t.Parallel()
	p := newAWS(t, echo(t))
	throttled := p.On("ReceiveMessage", First(2), SQSError(http.StatusBadRequest, "RequestThrottled"))
	second := p.On("DeleteMessageBatch", Every(2), SQSError(http.StatusServiceUnavailable, "ServiceUnavailable"))
	var codes []int
	for _, operation := range []string{"ReceiveMessage", "SendMessage", "ReceiveMessage", "ReceiveMessage", "DeleteMessageBatch", "DeleteMessageBatch", "DeleteMessageBatch"} {
		code, body, err := ask(t, p, operation, "hello")
		if err != nil {
			t.Fatal(err)
		}
		if code == http.StatusOK && body != "hello" {
			t.Errorf("%s was answered with %q", operation, body)
		}
		codes = append(codes, code)
	}
	for i, want := range []int{400, 200, 400, 200, 200, 503, 200} {
		if codes[i] != want {
			t.Fatalf("codes are %v", codes)
		}
	}
	if throttled.Hits() != 2 || second.Hits() != 1 || p.Seen()["ReceiveMessage"] != 3 {
		t.Errorf("hits %d and %d, seen %v", throttled.Hits(), second.Hits(), p.Seen())
	}
	throttled.End()
}

func TestCutAnswerComesAfterTheStatus(t *testing.T) {
	t.Parallel()
	p := newAWS(t, echo(t))
	rule := p.On("ReceiveMessage", Always(), CutAnswer())
	code, body, err := ask(t, p, "ReceiveMessage", "hello, world")
	if code != http.StatusOK || body != "hello," || err == nil {
		t.Errorf("got %d %q, %v", code, body, err)
	}
	rule.End()
	if _, body, err := ask(t, p, "ReceiveMessage", "hello, world"); err != nil || body != "hello, world" {
		t.Errorf("after its end: %q, %v", body, err)
	}
}

func TestLoseAnswerReachesTheService(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 2)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Amz-Target")
	}))
	t.Cleanup(s.Close)
	p := newAWS(t, s.URL)
	p.On("A", Always(), LoseAnswer())
	p.On("B", Always(), Refuse())
	for _, operation := range []string{"A", "B"} {
		if code, _, err := ask(t, p, operation, ""); err == nil {
			t.Errorf("%s is answered with %d", operation, code)
		}
	}
	close(asked)
	for target := range asked {
		if target != "AmazonSQS.A" {
			t.Errorf("the service was asked for %s", target)
		}
	}
}

func TestFailEntriesForwardsTheOthers(t *testing.T) {
	t.Parallel()
	var forwarded string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		forwarded = string(b)
		_, _ = w.Write([]byte(`{"Successful":[{"Id":"1"}]}`))
	}))
	t.Cleanup(s.Close)
	p := newAWS(t, s.URL)
	p.On("DeleteMessageBatch", Always(), FailEntries(2, "InternalError", false))
	code, body, err := ask(t, p, "DeleteMessageBatch",
		`{"QueueUrl":"q","Entries":[{"Id":"0","ReceiptHandle":"a"},{"Id":"1","ReceiptHandle":"b"},{"Id":"2","ReceiptHandle":"c"}]}`)
	if err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	if forwarded != `{"QueueUrl":"q","Entries":[{"Id":"1","ReceiptHandle":"b"}]}` {
		t.Errorf("forwarded %s", forwarded)
	}
	for _, want := range []string{`"Successful":[{"Id":"1"}]`, `"Id":"0"`, `"Id":"2"`, `"Code":"InternalError"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer %s lacks %s", body, want)
		}
	}
}

func TestKubernetesProxy(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the proxy's token reached the service")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`))
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	p, err := Kubernetes(&rest.Config{Host: s.URL}, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("ns")
	p.On("update secrets", First(1), Status(http.StatusConflict, "Conflict"))
	p.On("create secrets", First(1), Refuse())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	if _, err := client.Update(t.Context(), secret, metav1.UpdateOptions{}); err == nil {
		t.Error("an update that should conflict succeeded")
	}
	if _, err := client.Create(t.Context(), secret, metav1.CreateOptions{}); err == nil {
		t.Error("a create that should be refused succeeded")
	}
	if got, err := client.Get(t.Context(), "s", metav1.GetOptions{}); err != nil || got.Name != "s" {
		t.Error(err)
	}
	for _, operation := range []string{"update secrets", "create secrets", "get secrets s"} {
		if p.Seen()[operation] != 1 {
			t.Errorf("%q was not seen once: %v", operation, p.Seen())
		}
	}
	config.BearerToken = "another"
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{}); err == nil {
		t.Error("the proxy lets everybody in")
	}
}
