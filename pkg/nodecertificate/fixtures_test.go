package nodecertificate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	instanceA instance.ID = "i-0000000000000000a"
	instanceB instance.ID = "i-0000000000000000b"
	tokenA                = "aaaaaa"
	tokenB                = "bbbbbb"
)

var (
	nodeA = Subject{
		InstanceID: instanceA,
		NodeName:   "node-a",
		DNSNames:   []string{"ip-10-0-0-1.us-east-2.compute.internal"},
		Addresses:  []netip.Addr{netip.MustParseAddr("10.99.0.7"), netip.MustParseAddr("fd00::7")},
	}
	nodeB = Subject{InstanceID: instanceB, NodeName: "node-b"}

	testKey = sync.OnceValue(func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return key
	})
)

// recipe says how to make a request.
type recipe struct {
	signer, username string
	groups           []string
	usages           []certificatesv1.KeyUsage
	x509             x509.CertificateRequest
	// encode makes spec.request from DER; nil does it as a kubelet does.
	encode func(der []byte) []byte
	status certificatesv1.CertificateSigningRequestStatus
}

// clientRecipe is what kubeadm join asks for on node-a.
func clientRecipe() *recipe {
	return &recipe{
		signer:   certificatesv1.KubeAPIServerClientKubeletSignerName,
		username: "system:bootstrap:" + tokenA,
		groups:   []string{"system:bootstrappers", DefaultGroup, "system:authenticated"},
		usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		x509:     x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:node-a", Organization: []string{"system:nodes"}}},
	}
}

// servingRecipe is what the kubelet of node-a asks for.
func servingRecipe() *recipe {
	r := clientRecipe()
	r.signer = certificatesv1.KubeletServingSignerName
	r.username = "system:node:node-a"
	r.groups = []string{"system:nodes", "system:authenticated"}
	r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	r.x509.DNSNames = []string{"node-a", "ip-10-0-0-1.us-east-2.compute.internal"}
	r.x509.IPAddresses = []net.IP{net.ParseIP("10.99.0.7"), net.ParseIP("fd00::7")}
	return r
}

func toPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (r *recipe) make(t testing.TB, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &r.x509, testKey())
	if err != nil {
		t.Fatal(err)
	}
	encode := r.encode
	if encode == nil {
		encode = toPEM
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: encode(der), SignerName: r.signer, Username: r.username, Groups: r.groups, Usages: r.usages,
		},
		Status: r.status,
	}
}

// apiServer holds requests. Unlike client-go's fake clientset it refuses stale
// resource versions.
type apiServer struct {
	mu       sync.Mutex
	requests map[string]*certificatesv1.CertificateSigningRequest
	version  int
	// hook is called before each call, without the lock, and may let it fail.
	hook func(verb string) error
}

var resource = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}

func (s *apiServer) put(request *certificatesv1.CertificateSigningRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	request = request.DeepCopy()
	request.ResourceVersion = strconv.Itoa(s.version)
	s.requests[request.Name] = request
}

func (s *apiServer) read(name string) *certificatesv1.CertificateSigningRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[name].DeepCopy()
}

func (s *apiServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, name)
}

func (s *apiServer) Get(ctx context.Context, name string, _ metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	if err := s.before(ctx, "get"); err != nil {
		return nil, err
	}
	if request := s.read(name); request != nil {
		return request, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (s *apiServer) UpdateApproval(ctx context.Context, name string, request *certificatesv1.CertificateSigningRequest, _ metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	if err := s.before(ctx, "update"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.requests[name]
	if stored == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	if request.ResourceVersion != stored.ResourceVersion {
		return nil, apierrors.NewConflict(resource, name, errors.New("modified"))
	}
	s.version++
	stored = stored.DeepCopy() // the approval subresource changes nothing else
	stored.Status.Conditions = request.DeepCopy().Status.Conditions
	stored.ResourceVersion = strconv.Itoa(s.version)
	s.requests[name] = stored
	return stored.DeepCopy(), nil
}

func (s *apiServer) before(ctx context.Context, verb string) error {
	if s.hook != nil {
		if err := s.hook(verb); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ledger is an Owners with two tokens and their Nodes.
type ledger struct {
	tokens, nodes map[string]Subject
	// hook is called before each answer and may let it fail.
	hook func(name string) error
}

func newLedger() *ledger {
	return &ledger{
		tokens: map[string]Subject{tokenA: nodeA, tokenB: nodeB},
		nodes:  map[string]Subject{"node-a": nodeA, "node-b": nodeB},
	}
}

func (l *ledger) OfToken(_ context.Context, id string) (Subject, error) { return l.find(l.tokens, id) }

func (l *ledger) OfNode(_ context.Context, name string) (Subject, error) {
	return l.find(l.nodes, name)
}

func (l *ledger) find(in map[string]Subject, name string) (Subject, error) {
	if l.hook != nil {
		if err := l.hook(name); err != nil {
			return Subject{}, err
		}
	}
	if s, found := in[name]; found {
		return s, nil
	}
	return Subject{}, ErrNotOurs
}

// world is an API server with an Approver.
type world struct {
	*Approver
	server   *apiServer
	ledger   *ledger
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newWorld() *world {
	w := &world{
		server: &apiServer{requests: map[string]*certificatesv1.CertificateSigningRequest{}},
		ledger: newLedger(),
	}
	w.registry = prometheus.NewPedanticRegistry()
	w.Approver = New(w.server, w.ledger, Config{
		Registerer: w.registry,
		Logger:     slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	return w
}

// try makes a request and one attempt to decide on it.
func (w *world) try(t *testing.T, r *recipe) (*certificatesv1.CertificateSigningRequest, error) {
	t.Helper()
	w.server.put(r.make(t, "csr-1"))
	err := w.attempt(t.Context(), "csr-1")
	return w.server.read("csr-1"), err
}

// wantCondition checks that the request has one condition, of the type and with
// the reason; none when they are empty.
func wantCondition(t *testing.T, request *certificatesv1.CertificateSigningRequest, want certificatesv1.RequestConditionType, reason string) string {
	t.Helper()
	conditions := request.Status.Conditions
	if want == "" {
		if len(conditions) != 0 {
			t.Errorf("decided: %+v", conditions)
		}
		return ""
	}
	if len(conditions) != 1 {
		t.Errorf("conditions %+v, want %s", conditions, want)
		return ""
	}
	c := conditions[0]
	if c.Type != want || c.Reason != reason || c.Status != corev1.ConditionTrue || c.Message == "" || c.LastUpdateTime.IsZero() {
		t.Errorf("condition %+v, want %s %s", c, want, reason)
	}
	return c.Message
}

func wantApproved(t *testing.T, request *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	wantCondition(t, request, certificatesv1.CertificateApproved, ReasonApproved)
}

// wantDenied returns the reason given.
func wantDenied(t *testing.T, request *certificatesv1.CertificateSigningRequest) string {
	t.Helper()
	return wantCondition(t, request, certificatesv1.CertificateDenied, ReasonRefused)
}

func (w *world) wantCount(t *testing.T, s signer, r result, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(w.decided.WithLabelValues(string(s), string(r))); got != want {
		t.Errorf("%s %s: %v, want %v", s, r, got, want)
	}
}
