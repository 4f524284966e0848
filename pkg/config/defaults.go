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
			Limits:  Limits{PerSource: 10, PerSourceBurst: 60, Total: 200, TotalBurst: 400},
			Kubeadm: Kubeadm{
				APIVersion:    "v1beta4",
				DiscoveryFile: "/etc/kubernetes/dynk8s/discovery.conf",
			},
			Identity: Identity{Required: true, MaxAge: time.Hour},
		},
		Certificates: Certificates{Group: "system:bootstrappers:dynk8s"},
		Operations:   Operations{Address: ":8081"},
		Log:          Log{Level: "info", Format: "json"},
	}
}

// kubeadmGroup is the group that kubeadm's own RBAC is bound to: without it, or
// another one with the same rights, no instance can join. Certificate requests
// of its members are approved automatically, whatever Node they name.
const kubeadmGroup = "system:bootstrappers:kubeadm:default-node-token"

// profileDefaults returns the values of settings that a profile leaves out.
func profileDefaults() Profile {
	return Profile{
		BootstrapToken: BootstrapToken{TTL: time.Hour}, // TokenGroups adds the groups
		Node: Node{
			NameTemplate: "{{.InstanceID}}",
			CRISocket:    "unix:///var/run/crio/crio.sock",
		},
	}
}
