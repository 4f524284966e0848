package config

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// validate returns all that is wrong with c.
func validate(c *Config) problems {
	var p problems
	p.queue(c.Queue)
	p.region("aws.region", c.AWS.Region)
	if c.AWS.CredentialsDirectory != "" {
		p.absolute("aws.credentialsDirectory", c.AWS.CredentialsDirectory)
	}
	p.kubernetes(c.Kubernetes)
	p.reconcile(c.Reconcile)
	p.artifacts(c.Artifacts)
	p.group("certificates.group", c.Certificates.Group)
	if c.Certificates.Approve && c.Certificates.Group == kubeadmGroup {
		p.addf("certificates.group", "requests of %s are approved automatically, whatever Node they name: "+
			"want a group of the program's own, such as %s", kubeadmGroup, Defaults().Certificates.Group)
	}
	p.address("operations.address", c.Operations.Address)
	if c.Operations.Address == c.Artifacts.Address && !strings.HasSuffix(c.Operations.Address, ":0") {
		p.addf("operations.address", "%s is artifacts.address too: the artifact endpoint may be exposed, this one never",
			clip(c.Operations.Address))
	}
	p.oneOf("log.level", c.Log.Level, logLevels)
	p.oneOf("log.format", c.Log.Format, logFormats)
	p.profiles(c)
	return p
}

func (p *problems) kubernetes(k Kubernetes) {
	if k.Namespace == "" {
		p.addf("kubernetes.namespace", "is empty and this is no pod that could tell its own: "+
			"write the namespace of the WireGuard key Secrets, or set POD_NAMESPACE")
	} else {
		p.dnsLabel("kubernetes.namespace", k.Namespace)
	}
	if !(k.QPS > 0 && k.QPS <= 10000) { // so written, it refuses NaN
		p.addf("kubernetes.qps", "is %v: want more than 0 and at most 10000", k.QPS)
	}
	p.number("kubernetes.burst", k.Burst, 10000)
}

func (p *problems) reconcile(r Reconcile) {
	p.duration("reconcile.interval", r.Interval, time.Second, 24*time.Hour, "")
	p.duration("reconcile.tokenRenewalCutoff", r.TokenRenewalCutoff, 0, 720*time.Hour, "0 renews no token")
	p.duration("reconcile.goneGrace", r.GoneGrace, time.Second, 24*time.Hour,
		"one missing answer of EC2 is no evidence that an instance is gone")
}

// duration checks a range; why, which may be empty, is the range's reason.
func (p *problems) duration(path string, d, least, most time.Duration, why string) {
	if d >= least && d <= most {
		return
	}
	if why != "" {
		why = " (" + why + ")"
	}
	p.addf(path, "is %s: want %s to %s%s", short(d), short(least), short(most), why)
}

// short writes 1h for Duration's 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number checks a range from 1.
func (p *problems) number(path string, n, most int) {
	if n < 1 || n > most {
		p.addf(path, "is %d: want 1 to %d", n, most)
	}
}

func (p *problems) oneOf(path, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		p.addf(path, "is %q: want %s", clip(value), strings.Join(allowed, " or "))
	}
}

func (p *problems) region(path, region string) {
	switch {
	case region == "":
		p.addf(path, "is empty and cannot be derived from the host of queue.url: write the region, such as us-east-2")
	case !regionPattern.MatchString(region):
		p.addf(path, "%q is no AWS region: want the form us-east-2, without a zone's letter", clip(region))
	}
}

// address checks what a server listens on.
func (p *problems) address(path, address string) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		p.addf(path, "%q is no address to listen on: want host:port with a port of 0 to 65535, such as :8080", clip(address))
	}
}

func (p *problems) absolute(at, file string) {
	if !path.IsAbs(file) || path.Clean(file) != file {
		p.addf(at, "%q is no absolute path: want one that begins with / and has no . or ..", clip(file))
	}
}

func (p *problems) dnsLabel(path, name string) {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		p.addf(path, "%q: %s", clip(name), strings.Join(wrong, "; "))
	}
}

// httpURL returns the parsed URL, or nil after noting what is wrong with it.
func (p *problems) httpURL(path, text, example string, schemes ...string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's error would repeat the whole text, a password included.
		p.addf(path, "is no URL: want the form %s", example)
	case u.User != nil:
		p.addf(path, "holds a user name or password: want the form %s", example)
	case !slices.Contains(schemes, u.Scheme) || u.Hostname() == "":
		p.addf(path, "%q is no %s URL: want the form %s", clip(text), strings.Join(schemes, " or "), example)
	case u.RawQuery != "" || u.Fragment != "":
		p.addf(path, "%q has a query or fragment: want the form %s", clip(text), example)
	default:
		return u
	}
	return nil
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
