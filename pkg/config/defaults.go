package config

import "time"

// Defaults returns the values of settings that are written nowhere. It has no
// queue and no profile, so it is not valid by itself.
func Defaults() *Config {
	return &Config{
		Queue:      Queue{VisibilityTimeout: time.Minute, WaitTime: 20 * time.Second, Concurrency: 16},
		Kubernetes: Kubernetes{QPS: 50, Burst: 100},
		Reconcile: Reconcile{
			Interval:           5 * time.Minute,
			TokenRenewalCutoff: 24 * time.Hour,
			GoneGrace:          15 * time.Minute,
		},
		Artifacts: Artifacts{
			Address: ":8080",
			Kubeadm: Kubeadm{
				APIVersion:    "v1beta4",
				DiscoveryFile: "/etc/kubernetes/dynk8s/discovery.conf",
			},
			Identity: Identity{Required: true, MaxAge: time.Hour},
		},
		Operations: Operations{Address: ":8081"},
		Log:        Log{Level: "info", Format: "json"},
	}
}

// profileDefaults returns the values of settings that a profile leaves out.
func profileDefaults() Profile {
	return Profile{
		BootstrapToken: BootstrapToken{
			TTL: time.Hour,
			// kubeadm's own RBAC is bound to this group: without it, or
			// another one with the same rights, no instance can join.
			ExtraGroups: []string{"system:bootstrappers:kubeadm:default-node-token"},
		},
		Node: Node{
			NameTemplate: "{{.InstanceID}}",
			CRISocket:    "unix:///var/run/crio/crio.sock",
		},
	}
}
