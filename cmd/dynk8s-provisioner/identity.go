package main

import (
	"fmt"
	"net/netip"
	"os"

	"dynk8s.du5t1n.me/provisioner/pkg/access"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity"
)

// newAuthorizer returns what decides who may fetch artifacts.
func newAuthorizer(cfg config.Identity, instances access.Instances, gate access.Gate) (httpserver.Authorizer, error) {
	if !cfg.Required {
		return httpserver.AnyCaller(), nil
	}
	extra, err := readCertificates(cfg.CertificateFiles())
	if err != nil {
		return nil, err
	}
	verifier, err := instanceidentity.New(instanceidentity.Config{Accounts: cfg.Accounts, Regions: cfg.Regions, Extra: extra})
	if err != nil {
		return nil, fmt.Errorf("artifacts.identity: %w", err)
	}
	networks, err := prefixes(cfg.Networks)
	if err != nil {
		return nil, fmt.Errorf("artifacts.identity.networks: %w", err)
	}
	return access.New(verifier, instances, gate, access.Config{
		MaxAge: cfg.MaxAge, PublicAddress: cfg.PublicAddress, Networks: networks,
	}), nil
}

func readCertificates(files []config.ExtraCertificate) ([]instanceidentity.ExtraCertificates, error) {
	extra := make([]instanceidentity.ExtraCertificates, len(files))
	for i, file := range files {
		content, err := readSmall(file.Path)
		if err != nil {
			return nil, fmt.Errorf("artifacts.identity.extraCertificates[%d]: %w", i, err)
		}
		extra[i] = instanceidentity.ExtraCertificates{Region: file.Region, PEM: content}
	}
	return extra, nil
}

// readSmall reads a file of at most 1 MiB. To read a pipe would wait for ever.
func readSmall(path string) ([]byte, error) {
	const most = 1 << 20
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, most)
	}
	return os.ReadFile(path) //nolint:gosec // the operator names the file
}

func prefixes(networks []string) ([]netip.Prefix, error) {
	parsed := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		var err error
		if parsed[i], err = netip.ParsePrefix(network); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}
