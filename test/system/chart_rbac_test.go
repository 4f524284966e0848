//go:build linux

package system

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// right is one verb of one rule that the chart gives; for signers, one name.
type right struct{ role, resource, verb, name string }

func (r right) String() string {
	text := r.role + ": " + r.verb + " " + r.resource
	if r.name != "" {
		text += " " + r.name
	}
	return text
}

// A function of the daemon, in the order in which it does them for one instance.
const (
	fnReady       = "gets ready with an API server that does not stream lists"
	fnNotices     = "notices changes at once" // it lists again and again without
	fnProvisions  = "gives a key and a token"
	fnRenews      = "renews tokens"
	fnServes      = "serves the discovery kubeconfig"
	fnApproves    = "approves the certificate of a joining instance"
	fnRestricts   = "labels the Node"
	fnRevokes     = "revokes the token after the join"
	fnServingCert = "approves the kubelet's serving certificate"
	fnRetires     = "deletes the Node of a dead instance"
	fnTells       = "writes Events"
	fnTellsAgain  = "counts repeated Events"
)

// functionOf is what breaks without a right. Every right of the chart must be
// here.
var functionOf = map[string]string{
	"keys: get secrets":    fnProvisions,
	"keys: list secrets":   fnProvisions,
	"keys: watch secrets":  fnNotices,
	"keys: update secrets": fnProvisions,
	"keys: create events":  fnTells,
	"keys: patch events":   fnTellsAgain,

	"bootstrap-tokens: create secrets": fnProvisions,
	"bootstrap-tokens: get secrets":    fnProvisions,
	"bootstrap-tokens: list secrets":   fnProvisions,
	"bootstrap-tokens: watch secrets":  fnNotices,
	"bootstrap-tokens: update secrets": fnRenews,
	"bootstrap-tokens: delete secrets": fnRevokes,

	"cluster-info: get configmaps": fnServes,

	"nodes: get nodes":    fnRestricts,
	"nodes: list nodes":   fnReady,
	"nodes: watch nodes":  fnNotices,
	"nodes: delete nodes": fnRetires,
	"nodes: patch nodes":  fnRestricts,

	"certificates: get certificatesigningrequests":                              fnApproves,
	"certificates: list certificatesigningrequests":                             fnReady,
	"certificates: watch certificatesigningrequests":                            fnNotices,
	"certificates: update certificatesigningrequests/approval":                  fnApproves,
	"certificates: approve signers kubernetes.io/kube-apiserver-client-kubelet": fnApproves,
	"certificates: approve signers kubernetes.io/kubelet-serving":               fnServingCert,
}

// matrix collects what broke without which right, to be printed in the end.
type matrix struct {
	mu   sync.Mutex
	rows []string
}

func (m *matrix) add(r right, function string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, fmt.Sprintf("  %-82s → %s", r, function))
}

// Without any one of the rights that the chart gives, one function is broken, and
// the log says which right is missing; with all of them, none is.
func TestChartRights(t *testing.T) {
	t.Parallel()
	var m matrix
	t.Run("each", func(t *testing.T) {
		t.Run("keys", func(t *testing.T) {
			t.Parallel()
			newWorld(t).withoutEach(&m, "keys", "cluster-info")
		})
		// Daemons of other tests would revoke tokens and see to Nodes all the same.
		t.Run("alone", func(t *testing.T) {
			t.Parallel()
			s, err := stack.Start(t.Context(), stack.Options{Progress: os.Stderr})
			must(t, err)
			defer func() { must(t, s.Stop()) }()
			newWorldOn(t, s).withoutEach(&m, "bootstrap-tokens", "nodes", "certificates")
		})
	})
	slices.Sort(m.rows)
	t.Logf("right of the chart → what is broken without it\n%s", strings.Join(m.rows, "\n"))
	if len(m.rows) != len(functionOf) {
		t.Errorf("%d rights were tried, want %d", len(m.rows), len(functionOf))
	}
}

// withoutEach installs the chart and takes the rights of the roles away, one after
// another.
func (w *world) withoutEach(m *matrix, roles ...string) {
	w.t.Helper()
	r := w.newRelease()
	r.install(nil)
	must(w.t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	for _, role := range roles {
		for _, right := range r.rights(role) {
			r.without(right, m)
		}
	}
}

// ruleset is a Role or a ClusterRole of the release.
type ruleset struct {
	rules  []rbacv1.PolicyRule
	update func([]rbacv1.PolicyRule) error
}

// ruleset finds the release's role for a purpose.
func (r *release) ruleset(purpose string) ruleset {
	r.t.Helper()
	inCluster := r.namespace + ":" + r.account + ":" + purpose
	switch purpose {
	case "nodes", "certificates":
		roles := r.client.RbacV1().ClusterRoles()
		role, err := roles.Get(r.ctx, inCluster, metav1.GetOptions{})
		must(r.t, err)
		return ruleset{role.Rules, func(rules []rbacv1.PolicyRule) error {
			return updated(r.ctx, roles.Get, roles.Update, inCluster, func(c *rbacv1.ClusterRole) { c.Rules = rules })
		}}
	}
	namespace, name := map[string]string{"keys": r.namespace, "bootstrap-tokens": metav1.NamespaceSystem, "cluster-info": metav1.NamespacePublic}[purpose], inCluster
	if purpose == "keys" {
		name = r.account
	}
	roles := r.client.RbacV1().Roles(namespace)
	role, err := roles.Get(r.ctx, name, metav1.GetOptions{})
	must(r.t, err)
	return ruleset{role.Rules, func(rules []rbacv1.PolicyRule) error {
		return updated(r.ctx, roles.Get, roles.Update, name, func(c *rbacv1.Role) { c.Rules = rules })
	}}
}

func updated[T any](ctx context.Context, get func(context.Context, string, metav1.GetOptions) (*T, error),
	update func(context.Context, *T, metav1.UpdateOptions) (*T, error), name string, change func(*T),
) error {
	object, err := get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(object)
	_, err = update(ctx, object, metav1.UpdateOptions{})
	return err
}

// rights are all that the role gives, one by one.
func (r *release) rights(role string) []right {
	r.t.Helper()
	var all []right
	for _, rule := range r.ruleset(role).rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if resource != "signers" {
					all = append(all, right{role, resource, verb, ""})
					continue
				}
				for _, name := range rule.ResourceNames {
					all = append(all, right{role, resource, verb, name})
				}
			}
		}
	}
	return all
}

// minus are the rules without one right.
func minus(rules []rbacv1.PolicyRule, without right) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		rule := *rule.DeepCopy()
		if slices.Contains(rule.Resources, without.resource) && slices.Contains(rule.Verbs, without.verb) {
			if without.name != "" {
				rule.ResourceNames = slices.DeleteFunc(rule.ResourceNames, func(n string) bool { return n == without.name })
			} else {
				rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == without.verb })
			}
		}
		if len(rule.Verbs) > 0 {
			left = append(left, rule)
		}
	}
	return left
}

// without takes one right away, runs the daemon through an instance's life and
// wants the one function to be broken, and the log to say why.
func (r *release) without(missing right, m *matrix) {
	t := r.t
	t.Helper()
	function, known := functionOf[missing.String()]
	if !known {
		t.Errorf("what is %q for? functionOf does not know", missing)
		return
	}
	rules := r.ruleset(missing.role)
	must(t, rules.update(minus(rules.rules, missing)))
	defer func() { must(t, rules.update(rules.rules)) }()
	var env []string
	if function == fnReady {
		env = append(env, "KUBE_FEATURE_WatchListClient=false")
	}
	name := fmt.Sprintf("without-%s-%s", missing.verb, strings.ReplaceAll(missing.resource, "/", "-"))
	l := &life{release: r, d: r.startPod(name, r.mountConfig(), env...)}
	broken, err := l.upTo(function)
	l.end()
	if broken != function {
		t.Errorf("without %q: %q is broken (%v), want %q", missing, broken, err, function)
		return
	}
	lines, err := forbidden(l.d)
	must(t, err)
	told := fmt.Sprintf("cannot %s resource %q", missing.verb, missing.resource)
	if missing.resource == "signers" {
		told = "not permitted to approve" // the admission plugin's words
	}
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(strings.ReplaceAll(line, `\"`, `"`), told) || missing.resource == "signers"
	}) {
		t.Errorf("without %q the log does not say %q:\n%s", missing, told, strings.Join(lines, ""))
	}
	m.add(missing, function)
}

// life is the daemon at work on one instance after another.
type life struct {
	*release
	d    *daemon.Daemon
	id   instance.ID
	node *tls.Certificate // of the instance's kubelet
}

// brief is how long a step may take before it counts as broken.
const brief = 6 * time.Second

// within waits for f; an error tells that it did not happen.
func within(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(poll)
	}
}

// upTo does one function after another and stops at the first that is broken, or
// after the one with the name.
func (l *life) upTo(last string) (broken string, err error) {
	for _, step := range []struct {
		function string
		run      func() error
	}{
		{fnReady, l.ready},
		{fnNotices, l.notices},
		{fnProvisions, l.provisions},
		{fnTells, func() error { return within(brief, func() error { return l.eventTold("WireGuardKeyAllocated") }) }},
		{fnTellsAgain, l.tellsAgain},
		{fnRenews, l.renews},
		{fnServes, l.serves},
		{fnApproves, l.approves},
		{fnRestricts, l.restricts},
		{fnRevokes, func() error { return within(brief, func() error { return l.tokenRevoked(l.id) }) }},
		{fnServingCert, l.servingCertificate},
		{fnRetires, l.retires},
	} {
		if step.function == fnTellsAgain && last != fnTellsAgain {
			continue // it takes the pool apart
		}
		if err := step.run(); err != nil {
			return step.function, err
		}
		if step.function == last {
			break
		}
	}
	return "", nil
}

func (l *life) ready() error {
	ctx, cancel := context.WithTimeout(l.ctx, 2*brief)
	defer cancel()
	return l.d.Ready(ctx)
}

// notices wants no watch to have been refused.
func (l *life) notices() error {
	// Lists come first, watches right after them.
	refused := errors.New("no watch was refused")
	_ = within(time.Second, func() error {
		lines, err := forbidden(l.d)
		must(l.t, err)
		for _, line := range lines {
			if strings.Contains(line, "cannot watch resource") {
				refused = nil
				return nil
			}
		}
		return refused
	})
	if refused == nil {
		return errors.New("a watch was refused")
	}
	return nil
}

func (l *life) provisions() error {
	l.addKeys(1)
	l.id = l.launch(1)[0]
	l.announce(instance.Running, l.id)
	return within(brief, func() error {
		if err := l.provisioned(l.id); err != nil {
			return err
		}
		return l.queuesHold(0, 0)
	})
}

// tellsAgain lets the pool be exhausted twice, which is one Event with a count.
func (l *life) tellsAgain() error {
	for want := range int32(2) {
		waiting := l.launch(1)[0]
		l.announce(instance.Running, waiting)
		err := within(brief, func() error {
			list, err := l.client.CoreV1().Events(l.namespace).List(l.ctx, metav1.ListOptions{FieldSelector: "reason=WireGuardKeysExhausted"})
			if err != nil {
				return err
			}
			if len(list.Items) != 1 || list.Items[0].Count != want+1 {
				return fmt.Errorf("%d Events", len(list.Items))
			}
			return nil
		})
		if err != nil {
			return err
		}
		l.addKeys(1)
		if err := within(brief, func() error {
			held, err := l.keysOf()
			if err == nil && len(held[waiting]) == 0 {
				err = errors.New("the waiting instance got no key")
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// renews lets the token be about to expire; a pass comes every two seconds.
func (l *life) renews() error {
	tokens, err := l.tokensOf(l.id)
	if err != nil {
		return err
	}
	token := tokens[0].DeepCopy()
	token.Data["expiration"] = []byte(time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
	if _, err := l.client.CoreV1().Secrets(token.Namespace).Update(l.ctx, token, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return within(brief, func() error {
		tokens, err := l.tokensOf(l.id)
		if err != nil || len(tokens) != 1 {
			return errors.Join(errors.New("no token"), err)
		}
		expires, err := expiration(tokens[0])
		if err == nil && time.Until(expires) < 10*time.Minute {
			err = errors.New("it was not renewed")
		}
		return err
	})
}

func (l *life) serves() error {
	return within(brief, func() error {
		for _, artifact := range artifacts {
			if _, err := l.fetch(l.d, artifact, l.id, http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
}

// approves asks for the instance's client certificate by its token.
func (l *life) approves() error {
	configuration, err := l.fetch(l.d, "kubeadm/join", l.id, http.StatusOK)
	if err != nil {
		return err
	}
	name := pkix.Name{CommonName: "system:node:" + string(l.id), Organization: []string{"system:nodes"}}
	l.node, err = l.signed(l.bearer(tokenIn(l.t, configuration)), certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.UsageClientAuth, &x509.CertificateRequest{Subject: name})
	return err
}

// signed makes a request, and waits for its certificate.
func (l *life) signed(client kubernetes.Interface, signer string, usage certificatesv1.KeyUsage, template *x509.CertificateRequest) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(l.t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	must(l.t, err)
	request, err := client.CertificatesV1().CertificateSigningRequests().Create(l.ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	var certificate tls.Certificate
	err = within(brief, func() error {
		found, err := l.client.CertificatesV1().CertificateSigningRequests().Get(l.ctx, request.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		block, _ := pem.Decode(found.Status.Certificate)
		if block == nil {
			return fmt.Errorf("no certificate; conditions are %v", found.Status.Conditions)
		}
		certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
		return nil
	})
	return &certificate, err
}

func (l *life) restricts() error {
	if err := l.readyNode(string(l.id), "aws:///us-east-2a/"+string(l.id)); err != nil {
		return err
	}
	return within(brief, func() error { return l.restricted(l.id) })
}

// servingCertificate asks for the kubelet's serving certificate with the
// kubelet's own credentials.
func (l *life) servingCertificate() error {
	key, err := x509.MarshalPKCS8PrivateKey(l.node.PrivateKey)
	must(l.t, err)
	admin, err := l.stack.RESTConfig()
	must(l.t, err)
	config := rest.AnonymousClientConfig(admin)
	config.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.node.Certificate[0]})
	config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	kubelet, err := kubernetes.NewForConfig(config)
	must(l.t, err)
	held, err := l.keysOf()
	must(l.t, err)
	address := ""
	for _, k := range l.pool {
		if k.Name == held[l.id][0].Name {
			address = k.Address
		}
	}
	_, err = l.signed(kubelet, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + string(l.id), Organization: []string{"system:nodes"}},
		DNSNames:    []string{string(l.id)},
		IPAddresses: []net.IP{net.ParseIP(address)},
	})
	return err
}

func (l *life) retires() error {
	l.terminate(l.id)
	return within(brief, func() error {
		found, err := l.nodeOf(l.id)
		if err == nil && found != nil {
			err = errors.New("the Node is there still")
		}
		return errors.Join(err, l.takenBack(l.id))
	})
}

// end clears up what is left, whatever was broken.
func (l *life) end() {
	l.stop(l.d)
	selector := metav1.ListOptions{FieldSelector: "type=dynk8s.du5t1n.me/wireguard-key"}
	must(l.t, l.client.CoreV1().Secrets(l.namespace).DeleteCollection(l.ctx, metav1.DeleteOptions{}, selector))
	ids, err := l.ec2.Living(l.ctx, map[string]string{clusterTag: l.name})
	must(l.t, err)
	if len(ids) > 0 {
		must(l.t, l.ec2.Terminate(l.ctx, ids...))
	}
	for _, id := range append(ids, l.id) {
		tokens, err := l.tokensOf(id)
		must(l.t, err)
		for _, s := range tokens {
			must(l.t, l.client.CoreV1().Secrets(s.Namespace).Delete(l.ctx, s.Name, metav1.DeleteOptions{}))
		}
		if n, err := l.nodeOf(id); err == nil && n != nil {
			must(l.t, l.client.CoreV1().Nodes().Delete(l.ctx, n.Name, metav1.DeleteOptions{}))
		}
	}
	must(l.t, l.client.CoreV1().Events(l.namespace).DeleteCollection(l.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(l.t, l.drain())
}

// drain empties the queue.
func (l *life) drain() error { return l.stack.Purge(l.ctx, l.path.QueueURL) }
