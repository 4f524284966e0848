package main

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// records are what the cluster knows of instances, and what changes it. The
// informers are not running.
type records struct {
	tokens    *bootstraptoken.Issuer
	keys      *wireguardkey.Pool
	nodes     *node.Nodes
	joined    cache.SharedIndexInformer // over Nodes, one of the informers
	lifecycle *lifecycle.Lifecycle
	informers []cache.SharedIndexInformer
}

type recordsConfig struct {
	recorder   record.EventRecorder // nil writes no Events
	registerer prometheus.Registerer
	log        *slog.Logger
}

func newRecords(cfg *config.Config, kube *kubernetesClients, instances lifecycle.Instances, c recordsConfig) (*records, error) {
	namespace := cfg.Kubernetes.Namespace
	keyInformer := wireguardkey.NewInformer(kube.metadata, namespace)
	tokenInformer := bootstraptoken.NewInformer(kube.metadata)
	nodeInformer, err := node.NewInformer(kube.watches)
	if err != nil {
		return nil, fmt.Errorf("node informer: %w", err)
	}
	bootstraptoken.RegisterMetrics(c.registerer, tokenInformer.GetStore())
	r := &records{
		joined:    nodeInformer,
		informers: []cache.SharedIndexInformer{keyInformer, tokenInformer, nodeInformer},
		tokens:    bootstraptoken.NewIssuer(kube.calls.CoreV1().Secrets(metav1.NamespaceSystem)),
		nodes:     node.New(kube.calls.CoreV1().Nodes(), nodeInformer.GetIndexer()),
		keys: wireguardkey.NewPool(kube.calls.CoreV1().Secrets(namespace), keyInformer.GetIndexer(), wireguardkey.Config{
			Namespace:  namespace,
			Usable:     artifact.CheckWireGuardConfig,
			Recorder:   c.recorder,
			Registerer: c.registerer,
			Logger:     c.log,
		}),
	}
	if _, err := keyInformer.AddEventHandler(r.keys.EventHandler()); err != nil {
		return nil, fmt.Errorf("watch WireGuard keys: %w", err)
	}
	if _, err := nodeInformer.AddEventHandler(r.nodes.EventHandler()); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	r.lifecycle = lifecycle.New(instances, r.tokens, r.keys, r.nodes, lifecycle.Config{
		Interval:           cfg.Reconcile.Interval,
		TokenRenewalCutoff: cmp.Or(cfg.Reconcile.TokenRenewalCutoff, -1), // 0 in the file means never
		GoneGrace:          cfg.Reconcile.GoneGrace,
		Reissues:           bootstraptoken.NewCache(tokenInformer.GetIndexer()),
		Registerer:         c.registerer,
		Logger:             c.log,
	})
	return r, nil
}
