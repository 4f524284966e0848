package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/ec2lookup"
	"dynk8s.du5t1n.me/provisioner/pkg/host"
	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/nodecertificate"
	"dynk8s.du5t1n.me/provisioner/pkg/poller"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// daemon is the whole program, put together but not running.
type daemon struct {
	cfg        *config.Config
	level      *slog.LevelVar
	log        *slog.Logger
	registry   *prometheus.Registry
	informers  []cache.SharedIndexInformer
	synced     atomic.Bool
	events     record.EventBroadcaster
	poller     *poller.Poller
	lifecycle  *lifecycle.Lifecycle
	renderer   *artifact.Renderer
	authorizer httpserver.Authorizer
	approver   *nodecertificate.Approver // nil: others approve
	closer     *host.Closer
	artifacts  *httpserver.Server
	operations *httpserver.Server
	watcher    *config.Watcher
}

// newDaemon opens both ports and contacts nobody else.
func newDaemon(ctx context.Context, cfg *config.Config, inv invocation, level *slog.LevelVar, log *slog.Logger) (*daemon, error) {
	d := &daemon{cfg: cfg, level: level, log: log, registry: prometheus.NewRegistry()}
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	kube, err := newKubernetesClients(cfg.Kubernetes)
	if err != nil {
		return nil, err
	}
	aws, err := newAWSClients(ctx, cfg, d.registry)
	if err != nil {
		return nil, err
	}
	if err := d.assemble(kube, aws); err != nil {
		return nil, err
	}
	if err := d.apply(cfg); err != nil {
		return nil, err
	}
	d.watcher = config.NewWatcher(cfg, config.WatcherConfig{
		Path: inv.file, Flags: inv.flags, Environ: inv.environ,
		Apply:      func(r config.Reload) error { return d.apply(r.Config) },
		Registerer: d.registry,
		Logger:     log,
	})
	return d, d.listen()
}

// assemble joins the parts that decide and act.
func (d *daemon) assemble(kube *kubernetesClients, aws *awsClients) error {
	d.events = record.NewBroadcaster()
	// By the client of the watches: Events must not use up the rate of what counts.
	d.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.watches.CoreV1().Events(metav1.NamespaceAll)})
	lookup := ec2lookup.New(aws.ec2, ec2lookup.Config{Logger: d.log})
	// Strangers decide how often this one asks: at most five calls a second.
	recent := ec2lookup.NewRecent(ec2lookup.New(aws.ec2, ec2lookup.Config{Linger: 200 * time.Millisecond, Logger: d.log}))
	r, err := newRecords(d.cfg, kube, lookup, recordsConfig{
		recorder:   d.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dynk8s-provisioner"}),
		registerer: d.registry,
		log:        d.log,
	})
	if err != nil {
		return err
	}
	d.lifecycle, d.informers = r.lifecycle, r.informers
	queue := sqsqueue.New(aws.sqs, sqsqueue.Config{
		URL:               d.cfg.Queue.URL,
		WaitTime:          d.cfg.Queue.WaitTime,
		VisibilityTimeout: d.cfg.Queue.VisibilityTimeout,
		Logger:            d.log,
	})
	d.poller = poller.New(queue, d.lifecycle, poller.Config{
		Concurrency:       d.cfg.Queue.Concurrency,
		VisibilityTimeout: d.cfg.Queue.VisibilityTimeout,
		Registerer:        d.registry,
		Logger:            d.log,
	})
	d.renderer = artifact.New(d.lifecycle, artifact.NewClusterInfoReader(kube.calls), artifact.Config{
		APIVersion:        d.cfg.Artifacts.Kubeadm.APIVersion,
		Server:            d.cfg.Artifacts.Kubeadm.Server,
		TokenInKubeconfig: d.cfg.Artifacts.Kubeadm.TokenInKubeconfig,
		DiscoveryFile:     d.cfg.Artifacts.Kubeadm.DiscoveryFile,
		Logger:            d.log,
	})
	if d.authorizer, err = newAuthorizer(d.cfg.Artifacts.Identity, recent, d.lifecycle); err != nil {
		return err
	}
	hosts := bootstraptoken.NewHostIssuer(kube.calls.CoreV1().Secrets(metav1.NamespaceSystem))
	if err := d.closeHosts(kube, r, hosts); err != nil {
		return err
	}
	if d.cfg.Certificates.Approve {
		return d.approve(kube, r, hosts, recent)
	}
	return nil
}

// apply puts the settings in force that may change while the program runs.
func (d *daemon) apply(cfg *config.Config) error {
	settings, err := nodeSettings(cfg.Profiles)
	if err != nil {
		return err
	}
	profiles, err := lifecycleProfiles(cfg, d.renderer.NodeName)
	if err != nil {
		return err
	}
	// First what renders: no instance is admitted whose settings are not known.
	d.renderer.SetNodeSettings(settings)
	d.lifecycle.SetProfiles(profiles)
	d.level.Set(cfg.Log.SlogLevel())
	return nil
}

// listen opens the ports, so that one in use is an error at start.
func (d *daemon) listen() error {
	proxies, err := prefixes(d.cfg.Artifacts.TrustedProxies)
	if err != nil {
		return fmt.Errorf("trusted proxies: %w", err)
	}
	limits := d.cfg.Artifacts.Limits
	d.artifacts, err = httpserver.NewArtifactServer(serving{d.renderer, &d.synced}, d.authorizer, httpserver.ArtifactConfig{
		Address:        d.cfg.Artifacts.Address,
		CertFile:       d.cfg.Artifacts.TLS.CertFile,
		KeyFile:        d.cfg.Artifacts.TLS.KeyFile,
		TrustedProxies: proxies,
		Limits: httpserver.Limits{
			PerSource: float64(limits.PerSource), PerSourceBurst: limits.PerSourceBurst,
			Total: float64(limits.Total), TotalBurst: limits.TotalBurst,
		},
		Registerer: d.registry,
		Logger:     d.log,
	})
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	d.operations, err = httpserver.NewOperationsServer(httpserver.OperationsConfig{
		Address:  d.cfg.Operations.Address,
		Gatherer: d.registry,
		Ready:    d.ready,
		Pprof:    d.cfg.Operations.Pprof,
		Logger:   d.log,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("operations: %w", err), d.artifacts.Close())
	}
	return nil
}

// ready returns why the program cannot do its work, or nil.
func (d *daemon) ready() error {
	if !d.synced.Load() {
		return errNotSynced
	}
	last := d.poller.LastReceive()
	if last.IsZero() {
		return errors.New("nothing was received from the queue yet")
	}
	if since := time.Since(last); since > 3*d.cfg.Queue.WaitTime {
		return fmt.Errorf("the last good receive from the queue was %s ago", since.Round(time.Second))
	}
	return nil
}

// run runs every part until ctx ends, or until one fails.
func (d *daemon) run(ctx context.Context) error {
	defer d.events.Shutdown()
	d.log.InfoContext(ctx, "listening", "artifacts", d.artifacts.Addr().String(), "operations", d.operations.Addr().String())

	// The informers and the operations port outlive the work, which still needs
	// the one and is watched through the other while it drains.
	support, stopSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSupport()
	var supporting errgroup.Group
	for _, informer := range d.informers {
		supporting.Go(func() error {
			informer.RunWithContext(support)
			return nil
		})
	}

	workCtx, stopWork := context.WithCancelCause(ctx)
	supporting.Go(func() error {
		err := d.operations.Run(support)
		stopWork(err) // without its port the program would go on unwatched
		return err
	})
	work, workCtx := errgroup.WithContext(workCtx)
	work.Go(func() error { return d.artifacts.Run(workCtx) })
	work.Go(func() error { return d.watcher.Run(workCtx) })
	work.Go(func() error { return d.runSynced(workCtx) })
	err := work.Wait()
	stopSupport()
	return errors.Join(err, supporting.Wait())
}

// runSynced polls and reconciles once the caches have synced.
func (d *daemon) runSynced(ctx context.Context) error {
	synced := make([]cache.InformerSynced, len(d.informers))
	for i, informer := range d.informers {
		synced[i] = informer.HasSynced
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // stopped before the API server answered
	}
	d.synced.Store(true)
	d.log.InfoContext(ctx, "caches synced")
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.poller.Run(groupCtx) })
	group.Go(func() error { return d.lifecycle.Run(groupCtx) })
	group.Go(func() error { return d.closer.Run(groupCtx) })
	if d.approver != nil {
		// Who holds a token can ask for certificates without end.
		group.Go(func() error { return d.approver.Run(mark(groupCtx)) })
	}
	return group.Wait()
}
