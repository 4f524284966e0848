//go:build linux

package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// spec is what the node's first process is told.
type spec struct {
	Dir, Programs string
	Name          string
	NodeIP        string // empty: none
	CRISocket     string // path
	DiscoveryPath string
	RelaySocket   string
	ServerHost    string
	ServerPort    string

	Discovery, JoinConfiguration []byte
}

// outcome is what it answers.
type outcome struct{ Error string }

// readArtifacts reads off the artifacts what the machine below them must offer.
func readArtifacts(discovery, joinConfiguration []byte) (spec, error) {
	s := spec{Discovery: discovery, JoinConfiguration: joinConfiguration}
	if err := s.readJoinConfiguration(); err != nil {
		return s, fmt.Errorf("join configuration: %w", err)
	}
	if err := s.readDiscovery(); err != nil {
		return s, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	return s, nil
}

func (s *spec) readJoinConfiguration() error {
	var c struct {
		Discovery struct {
			File struct{ KubeConfigPath string }
		}
		NodeRegistration struct {
			Name, CRISocket  string
			KubeletExtraArgs json.RawMessage
		}
	}
	if err := yaml.Unmarshal(s.JoinConfiguration, &c); err != nil {
		return err
	}
	s.Name, s.DiscoveryPath = c.NodeRegistration.Name, c.Discovery.File.KubeConfigPath
	s.CRISocket = strings.TrimPrefix(c.NodeRegistration.CRISocket, "unix://")
	if s.Name == "" || s.DiscoveryPath == "" || s.CRISocket == "" {
		return errors.New("nodeRegistration.name, nodeRegistration.criSocket and discovery.file.kubeConfigPath must be set")
	}
	s.NodeIP = extraArg(c.NodeRegistration.KubeletExtraArgs, "node-ip")
	return nil
}

// extraArg finds a kubelet argument: v1beta4 has a list of them, v1beta3 a map.
func extraArg(args json.RawMessage, name string) string {
	var list []struct{ Name, Value string }
	if json.Unmarshal(args, &list) == nil {
		for _, a := range list {
			if a.Name == name {
				return a.Value
			}
		}
	}
	var byName map[string]string
	if json.Unmarshal(args, &byName) == nil {
		return byName[name]
	}
	return ""
}

func (s *spec) readDiscovery() error {
	c, err := clientcmd.Load(s.Discovery)
	if err != nil {
		return err
	}
	for _, cluster := range c.Clusters {
		u, err := url.Parse(cluster.Server)
		if err != nil {
			return err
		}
		s.ServerHost, s.ServerPort = u.Hostname(), u.Port()
		if s.ServerPort == "" {
			s.ServerPort = "443"
		}
		return nil
	}
	return errors.New("it names no cluster")
}
