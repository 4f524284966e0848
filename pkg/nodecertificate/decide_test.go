package nodecertificate

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func TestApproved(t *testing.T) {
	t.Parallel()
	rsaUsage := func(r *recipe) { r.usages = append(r.usages, certificatesv1.UsageKeyEncipherment) }
	for name, c := range map[string]struct {
		recipe *recipe
		change func(*recipe)
	}{
		"client":                    {clientRecipe(), nil},
		"client, RSA":               {clientRecipe(), rsaUsage},
		"client, common name first": {clientRecipe(), raw(attribute(3, "system:node:node-a"), attribute(10, "system:nodes"))},
		"client, no newline at the end": {clientRecipe(), encoding(func(der []byte) []byte {
			return []byte(strings.TrimSpace(string(toPEM(der))))
		})},
		"client, the token's node is another": {clientRecipe(), func(r *recipe) {
			username("system:bootstrap:" + tokenB)(r)
			commonName("system:node:node-b")(r)
		}},
		"serving":                    {servingRecipe(), nil},
		"serving, RSA":               {servingRecipe(), rsaUsage},
		"serving, instance id":       {servingRecipe(), dnsNames(string(instanceA))},
		"serving, other letter case": {servingRecipe(), dnsNames("Node-A", "IP-10-0-0-1.us-east-2.compute.INTERNAL")},
		"serving, addresses only":    {servingRecipe(), func(r *recipe) { r.x509.DNSNames = nil }},
		"serving, DNS names only":    {servingRecipe(), func(r *recipe) { r.x509.IPAddresses = nil }},
		"serving, some of them":      {servingRecipe(), func(r *recipe) { r.x509.DNSNames, r.x509.IPAddresses = nil, r.x509.IPAddresses[:1] }},
		"serving, IPv4 in 16 bytes":  {servingRecipe(), extension(oidSubjectAlternativeName, alternativeNames(7, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x63\x00\x07"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			if c.change != nil {
				c.change(c.recipe)
			}
			request, err := w.try(t, c.recipe)
			if err != nil {
				t.Fatal(err)
			}
			wantApproved(t, request)
			if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=INFO") ||
				!strings.Contains(log, "request=csr-1") || !strings.Contains(log, "decision=approved") || !strings.Contains(log, "requestor=system:") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	ofClient, ofServing := deviations()
	for _, kind := range []struct {
		signer     signer
		recipe     func() *recipe
		deviations []deviation
	}{
		{clientSigner, clientRecipe, ofClient},
		{servingSigner, servingRecipe, ofServing},
	} {
		for _, d := range kind.deviations {
			t.Run(string(kind.signer)+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld()
				r := kind.recipe()
				d.change(r)
				request, err := w.try(t, r)
				if err != nil {
					t.Fatal(err)
				}
				reason := wantDenied(t, request)
				if !strings.Contains(reason, d.reason) {
					t.Errorf("reason %q, want %q in it", reason, d.reason)
				}
				if len(reason) > 1024 || strings.ContainsFunc(reason, func(c rune) bool { return c < ' ' || c > '~' }) {
					t.Errorf("a reason of %d bytes: %.200q", len(reason), reason)
				}
				w.wantCount(t, kind.signer, denied, 1)
				w.wantCount(t, kind.signer, approved, 0)
				if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "decision=denied") {
					t.Errorf("log: %s", log)
				}
			})
		}
	}
}

func TestDeniedByTheOwner(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*recipe{"client": clientRecipe(), "serving": servingRecipe()} {
		w := newWorld()
		w.ledger.hook = func(string) error { return errors.Join(Refusal("instance is terminated"), errors.New("i-1")) }
		request, err := w.try(t, r)
		if err != nil {
			t.Fatal(err)
		}
		if reason := wantDenied(t, request); reason != "instance is terminated" {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

func TestServingForAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.ledger.nodes["node-old"] = nodeA // as if the instance had another node once
	r := servingRecipe()
	username("system:node:node-old")(r)
	commonName("system:node:node-old")(r)
	request, err := w.try(t, r)
	if err != nil {
		t.Fatal(err)
	}
	if reason := wantDenied(t, request); !strings.Contains(reason, `is "node-a", not "node-old"`) {
		t.Error(reason)
	}
}

func TestIPv4InIPv6OfTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.ledger.nodes["node-a"] = Subject{InstanceID: instanceA, NodeName: "node-a", Addresses: []netip.Addr{netip.MustParseAddr("::ffff:10.99.0.7")}}
	r := servingRecipe()
	r.x509.DNSNames, r.x509.IPAddresses = nil, r.x509.IPAddresses[:1]
	request, err := w.try(t, r)
	if err != nil {
		t.Fatal(err)
	}
	wantApproved(t, request)
}

func TestNothingMatchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.ledger.nodes["node-a"] = Subject{InstanceID: instanceA, NodeName: "node-a", DNSNames: []string{""}, Addresses: []netip.Addr{{}}}
	r := servingRecipe()
	dnsNames("")(r)
	r.x509.IPAddresses = nil
	request, err := w.try(t, r)
	if err != nil {
		t.Fatal(err)
	}
	wantDenied(t, request)
}

// A host's token is good for the host's name, and a host has no serving
// certificate from here.
func TestTokenOfAHost(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.ledger.tokens[tokenA] = Subject{Host: true, NodeName: "node-a"}
	request, err := w.try(t, clientRecipe())
	if err != nil {
		t.Fatal(err)
	}
	wantApproved(t, request)
	if message := request.Status.Conditions[0].Message; message != "asks for no more than host node-a may have" {
		t.Errorf("message %q", message)
	}
	other := clientRecipe()
	commonName("system:node:node-b")(other)
	if request, err = w.try(t, other); err != nil {
		t.Fatal(err)
	}
	wantDenied(t, request)
	w.ledger.nodes["node-a"] = w.ledger.tokens[tokenA]
	if request, err = w.try(t, servingRecipe()); err == nil {
		t.Error("no error")
	}
	wantCondition(t, request, "", "")
}

func TestOwnerWithoutAName(t *testing.T) {
	t.Parallel()
	for _, s := range []Subject{{}, {InstanceID: instanceA}, {NodeName: "node-a"}, {Host: true}, {Host: true, NodeName: "node-a", InstanceID: instanceA}} {
		for _, r := range []*recipe{clientRecipe(), servingRecipe()} {
			w := newWorld()
			w.ledger.tokens[tokenA], w.ledger.nodes["node-a"] = s, s
			commonName("system:node:" + s.NodeName)(r)
			request, err := w.try(t, r)
			if err == nil {
				t.Errorf("%+v: no error", s)
			}
			wantCondition(t, request, "", "")
		}
	}
}

func TestLeftAlone(t *testing.T) {
	t.Parallel()
	condition := func(c certificatesv1.RequestConditionType) func(*recipe) {
		return func(r *recipe) {
			r.status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c}}
		}
	}
	signerName := func(name string) func(*recipe) { return func(r *recipe) { r.signer = name } }
	groups := func(names ...string) func(*recipe) { return func(r *recipe) { r.groups = names } }
	certificate := func(r *recipe) { r.status.Certificate = []byte("x") }
	for name, c := range map[string]struct {
		recipe *recipe
		change func(*recipe)
	}{
		"client, approved":               {clientRecipe(), condition(certificatesv1.CertificateApproved)},
		"client, denied":                 {clientRecipe(), condition(certificatesv1.CertificateDenied)},
		"client, failed":                 {clientRecipe(), condition(certificatesv1.CertificateFailed)},
		"client, with a certificate":     {clientRecipe(), certificate},
		"client, kubeadm's group":        {clientRecipe(), groups("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")},
		"client, a longer group":         {clientRecipe(), groups(DefaultGroup + "2")},
		"client, no group":               {clientRecipe(), groups()},
		"client, renewal":                {clientRecipe(), username("system:node:node-a")},
		"client, a person":               {clientRecipe(), username("admin")},
		"client, token with more before": {clientRecipe(), username("x:system:bootstrap:" + tokenA)},
		"client, any client's signer":    {clientRecipe(), signerName("kubernetes.io/kube-apiserver-client")},
		"client, another signer":         {clientRecipe(), signerName("example.com/kube-apiserver-client-kubelet")},
		"client, the serving signer":     {clientRecipe(), signerName("kubernetes.io/kubelet-serving")},
		"serving, approved":              {servingRecipe(), condition(certificatesv1.CertificateApproved)},
		"serving, denied":                {servingRecipe(), condition(certificatesv1.CertificateDenied)},
		"serving, failed":                {servingRecipe(), condition(certificatesv1.CertificateFailed)},
		"serving, with a certificate":    {servingRecipe(), certificate},
		"serving, not of the nodes":      {servingRecipe(), groups("system:authenticated")},
		"serving, a person":              {servingRecipe(), username("admin")},
		"serving, no prefix":             {servingRecipe(), username("node-a")},
		"serving, no name":               {servingRecipe(), username("system:node:")},
		"serving, odd name":              {servingRecipe(), username("system:node:../x")},
		"serving, somebody else's node":  {servingRecipe(), username("system:node:home")},
		"serving, the client signer":     {servingRecipe(), signerName("kubernetes.io/kube-apiserver-client-kubelet")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.server.hook = func(verb string) error {
				if verb == "update" {
					t.Error("an update")
				}
				return nil
			}
			c.change(c.recipe)
			request, err := w.try(t, c.recipe)
			if err != nil {
				t.Error(err)
			}
			if log := w.log.String(); log != "" {
				t.Errorf("log: %s", log)
			}
			if got, before := len(request.Status.Conditions), len(c.recipe.status.Conditions); got != before {
				t.Errorf("%d conditions, %d before", got, before)
			}
		})
	}
}

func TestGroupOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Approver = New(w.server, w.ledger, Config{Group: "system:bootstrappers:other", Logger: w.Approver.log})
	request, err := w.try(t, clientRecipe())
	if err != nil {
		t.Fatal(err)
	}
	wantCondition(t, request, "", "")
	r := clientRecipe()
	r.groups = []string{"system:bootstrappers:other"}
	if request, err = w.try(t, r); err != nil {
		t.Fatal(err)
	}
	wantApproved(t, request)
}

func TestErrorsDecideNothing(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	cases := map[string]struct {
		breakIt func(*world)
		want    error
	}{
		"owner":         {func(w *world) { w.ledger.hook = func(string) error { return busy } }, busy},
		"owner is late": {func(w *world) { w.ledger.hook = func(string) error { return context.DeadlineExceeded } }, context.DeadlineExceeded},
		"not in EC2":    {func(w *world) { w.ledger.hook = func(string) error { return instance.ErrNotFound } }, instance.ErrNotFound},
		"owner panics":  {func(w *world) { w.ledger.hook = func(string) error { panic("secret") } }, nil},
		"read":          {func(w *world) { w.server.hook = failing("get", busy) }, busy},
		"update":        {func(w *world) { w.server.hook = failing("update", busy) }, busy},
	}
	for name, c := range cases {
		for _, r := range []*recipe{clientRecipe(), servingRecipe()} {
			w := newWorld()
			c.breakIt(w)
			request, err := w.try(t, r)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v", name, err)
			}
			wantCondition(t, request, "", "")
			if log := w.log.String(); log != "" {
				t.Errorf("log: %s", log)
			}
		}
	}
}

func failing(verb string, err error) func(string) error {
	return func(v string) error {
		if v == verb {
			return err
		}
		return nil
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if err := w.attempt(t.Context(), "csr-1"); err != nil {
		t.Error(err)
	}
	w.server.put(clientRecipe().make(t, "csr-1"))
	w.server.hook = func(verb string) error {
		if verb == "update" {
			w.server.remove("csr-1")
		}
		return nil
	}
	if err := w.attempt(t.Context(), "csr-1"); err != nil {
		t.Error(err)
	}
	w.wantCount(t, clientSigner, approved, 0)
}
