package main

import (
	"fmt"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/host"
	"dynk8s.du5t1n.me/provisioner/pkg/nodecertificate"
	"dynk8s.du5t1n.me/provisioner/pkg/nodeowner"
)

// closeHosts adds what revokes the tokens of hosts that have joined.
func (d *daemon) closeHosts(kube *kubernetesClients, r *records, hosts *bootstraptoken.HostIssuer) error {
	informer := bootstraptoken.NewHostInformer(kube.metadata)
	d.closer = host.NewCloser(hosts, r.nodes, informer.GetIndexer(), d.log)
	if _, err := informer.AddEventHandler(d.closer.TokenEvents()); err != nil {
		return fmt.Errorf("watch tokens of hosts: %w", err)
	}
	if _, err := r.joined.AddEventHandler(d.closer.NodeEvents()); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	d.informers = append(d.informers, informer)
	return nil
}

// approve adds what decides on the certificate requests of instances and hosts.
func (d *daemon) approve(kube *kubernetesClients, r *records, hosts nodeowner.Hosts, instances nodeowner.Instances) error {
	informer, err := nodecertificate.NewInformer(kube.watches)
	if err != nil {
		return fmt.Errorf("certificate request informer: %w", err)
	}
	d.approver = nodecertificate.New(kube.calls.CertificatesV1().CertificateSigningRequests(), nodeowner.Owners{
		Claims: r.tokens, Hosts: hosts, Nodes: r.nodes, Keys: r.keys, Instances: instances, Lifecycle: d.lifecycle, Names: d.renderer,
	}, nodecertificate.Config{Group: d.cfg.Certificates.Group, Registerer: d.registry, Logger: d.log})
	if _, err := informer.AddEventHandler(d.approver.EventHandler()); err != nil {
		return fmt.Errorf("watch certificate requests: %w", err)
	}
	d.informers = append(d.informers, informer)
	return nil
}
