package config

import (
	"net/url"
	"os"
	"regexp"
	"strings"
)

// podNamespaceFile is where Kubernetes tells a pod its own namespace.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// regionPattern fits the regions of all AWS partitions, and no zone.
var regionPattern = regexp.MustCompile(`^[a-z]{2,5}(-[a-z]{2,})+-[0-9]{1,2}$`)

// derive fills in what is empty and follows from something else. env are the
// variables that are not ours.
func derive(c *Config, env map[string]string, namespaceFile string) {
	inURL := queueURLRegion(c.Queue.URL)
	c.AWS.Region = first(c.AWS.Region, env["AWS_REGION"], env["AWS_DEFAULT_REGION"], c.Queue.Region, inURL)
	c.Queue.Region = first(c.Queue.Region, inURL, c.AWS.Region)
	c.Kubernetes.Namespace = first(c.Kubernetes.Namespace, env["POD_NAMESPACE"])
	if c.Kubernetes.Namespace == "" {
		// Outside a pod there is no such file; validation asks for a name.
		content, _ := os.ReadFile(namespaceFile) //nolint:gosec // a constant, but in tests
		c.Kubernetes.Namespace = strings.TrimSpace(string(content))
	}
}

// queueURLRegion returns the region in the host of a queue's URL, or "". The
// forms are sqs.<region>.amazonaws.com (and other suffixes), the older
// <region>.queue.amazonaws.com and VPC endpoints.
func queueURLRegion(queueURL string) string {
	u, err := url.Parse(queueURL)
	if err != nil {
		return ""
	}
	if u.Hostname() == "queue.amazonaws.com" {
		return "us-east-1" // from before there were others
	}
	for label := range strings.SplitSeq(u.Hostname(), ".") {
		if regionPattern.MatchString(label) {
			return label
		}
	}
	return ""
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
