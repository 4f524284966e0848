package httpserver

import (
	"context"
	"strings"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// route is one artifact under one path. Paths are matched here and not by
// http.ServeMux, which would answer some requests itself: redirects of unclean
// paths, and refusals with texts of its own.
type route struct {
	// prefix is the path up to the instance id.
	prefix string
	// artifact is the word in metrics and logs.
	artifact    string
	contentType string
	render      func(context.Context, instance.ID) ([]byte, error)
}

// noRoute is what a path belongs to that is no route, or was not looked at.
var noRoute = route{artifact: "none"}

// The routes. /wireguard/config/ is in use already and must not change.
func newRoutes(a Artifacts) []route {
	const text, yaml = "text/plain; charset=utf-8", "application/yaml"
	return []route{
		{"/wireguard/config/", "wireguard_config", text, a.WireGuardConfig},
		{"/kubeadm/kubeconfig/", "kubeconfig", yaml, a.Kubeconfig},
		{"/kubeadm/join/", "join_configuration", yaml, a.JoinConfiguration},
	}
}

// find returns the route of a path and what stands where the instance id
// should, and false when the path belongs to no route.
func find(routes []route, path string) (rt route, rest string, found bool) {
	for _, rt := range routes {
		if rest, ok := strings.CutPrefix(path, rt.prefix); ok {
			return rt, rest, true
		}
	}
	return noRoute, "", false
}
