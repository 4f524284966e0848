package nodecertificate

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// DefaultGroup is the group that bootstrap tokens carry, unless another is
// configured.
const DefaultGroup = "system:bootstrappers:dynk8s"

// Client is what an Approver needs of the API server. client-go's
// CertificateSigningRequestInterface has it.
type Client interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error)
	UpdateApproval(ctx context.Context, name string, request *certificatesv1.CertificateSigningRequest, opts metav1.UpdateOptions) (*certificatesv1.CertificateSigningRequest, error)
}

// Config holds what an Approver may be told. The zero value is ready for use.
type Config struct {
	// Group is the group of the bootstrap tokens whose requests are decided;
	// DefaultGroup when empty.
	Group string
	// Registerer gets the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
	// Logger is slog's default when nil.
	Logger *slog.Logger
}

// Approver approves and denies certificate signing requests. Several replicas
// may do so at the same time.
type Approver struct {
	requests Client
	owners   Owners
	group    string
	log      *slog.Logger
	decided  *prometheus.CounterVec
	queue    workqueue.TypedRateLimitingInterface[item]

	mu       sync.Mutex
	limiters *utilcache.LRUExpireCache // by requestor
}

// New returns an Approver of the requests behind the client. It hears of them by
// its EventHandler, and decides while it runs.
func New(requests Client, owners Owners, cfg Config) *Approver {
	return &Approver{
		requests: requests,
		owners:   owners,
		group:    cmp.Or(cfg.Group, DefaultGroup),
		log:      cmp.Or(cfg.Logger, slog.Default()),
		decided:  newCounter(cfg.Registerer),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[item](minBackoff, maxBackoff)),
		limiters: utilcache.NewLRUExpireCache(requestorCount),
	}
}

// EventHandler must be added to an informer over certificate signing requests,
// such as NewInformer's: it feeds Run.
func (a *Approver) EventHandler() cache.ResourceEventHandler {
	enqueue := func(object any) {
		request, ok := object.(*certificatesv1.CertificateSigningRequest)
		if !ok || !pending(request) {
			return
		}
		if r, ok := a.requestorOf(request); ok {
			a.queue.Add(item{name: request.Name, signer: r.signer, requestor: request.Spec.Username})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, after any) { enqueue(after) },
	}
}
