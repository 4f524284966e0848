package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

const (
	instanceA instance.ID = "i-0000000000000000a"
	instanceB instance.ID = "i-0000000000000000b"
)

// stage is the world of one test: AWS, EC2 and what is known of joins.
type stage struct {
	t         *testing.T
	authority *instanceidentitytest.Authority
	ec2       ec2
	gate      gate
	cfg       Config
}

type ec2 struct {
	inst  instance.Instance
	err   error
	calls atomic.Int32
}

func (e *ec2) Instance(context.Context, instance.ID) (instance.Instance, error) {
	e.calls.Add(1)
	return e.inst, e.err
}

type gate struct{ closed, reissued map[instance.ID]bool }

func (g *gate) Open(id instance.ID) error {
	if g.closed[id] {
		return lifecycle.ErrClosed
	}
	return nil
}

func (g *gate) Reissued(id instance.ID) bool { return g.reissued[id] }

var public = netip.MustParseAddr("203.0.113.7")

// theAuthority is that of all tests: to make a key takes long.
var theAuthority = sync.OnceValues(instanceidentitytest.New)

// on runs f on a stage where all is well, at a time that stands still.
func on(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	authority, err := theAuthority()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, authority: authority, gate: gate{map[instance.ID]bool{}, map[instance.ID]bool{}}}
		s.ec2.inst = instance.Instance{ID: instanceA, State: instance.Running, PublicAddresses: []netip.Addr{public}}
		f(t, s)
	})
}

func (s *stage) authorizer() *Authorizer {
	s.t.Helper()
	v, err := instanceidentity.New(instanceidentity.Config{
		Accounts: []string{"123456789012"}, Regions: []string{"us-east-2"},
		Extra: []instanceidentity.ExtraCertificates{{PEM: s.authority.CertificatePEM()}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return New(v, &s.ec2, &s.gate, s.cfg)
}

func (s *stage) document(f instanceidentitytest.Fields) string {
	s.t.Helper()
	if f.InstanceID == "" {
		f.InstanceID = instanceA
	}
	signed, err := s.authority.Sign(f)
	if err != nil {
		s.t.Fatal(err)
	}
	return signed
}

// request is one that arrived with these Authorization headers.
func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/wireguard/config/"+string(instanceA), nil)
	r.RemoteAddr = public.String() + ":40000"
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return r
}

// reasonOf returns the word for the metric, "" for nil and the sentinel's name
// for what is no refusal.
func reasonOf(err error) string {
	var r interface{ Reason() string }
	switch {
	case err == nil:
		return ""
	case errors.Is(err, httpserver.ErrNoCredentials):
		return "401"
	case errors.Is(err, httpserver.ErrUndecided):
		return "503"
	case errors.Is(err, lifecycle.ErrClosed):
		return "closed"
	case errors.As(err, &r):
		return r.Reason()
	}
	return "unknown: " + err.Error()
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	type fields = instanceidentitytest.Fields
	for name, tt := range map[string]struct {
		fields  fields
		prepare func(*stage)
		want    string
	}{
		"own document":                 {want: ""},
		"another instance's":           {fields: fields{InstanceID: instanceB}, want: "instance"},
		"another account's":            {fields: fields{Account: "210987654321"}, want: "account"},
		"another region's":             {fields: fields{Region: "us-west-2"}, want: "region"},
		"an unknown region's":          {fields: fields{Region: "mars-north-1"}, want: "region"}, // extra certificates for all
		"just young enough":            {fields: fields{PendingTime: ago(time.Hour)}, want: ""},
		"a second too old":             {fields: fields{PendingTime: ago(time.Hour + time.Second)}, want: "age"},
		"years old":                    {fields: fields{PendingTime: ago(30000 * time.Hour)}, want: "age"},
		"clocks differ":                {fields: fields{PendingTime: ago(-skew)}, want: ""},
		"of the future":                {fields: fields{PendingTime: ago(-skew - time.Second)}, want: "age"},
		"old, but reissued":            {fields: fields{PendingTime: ago(30000 * time.Hour)}, prepare: func(s *stage) { s.gate.reissued[instanceA] = true }, want: ""},
		"old, another reissued":        {fields: fields{PendingTime: ago(2 * time.Hour)}, prepare: func(s *stage) { s.gate.reissued[instanceB] = true }, want: "age"},
		"of the future, reissued":      {fields: fields{PendingTime: ago(-time.Hour)}, prepare: func(s *stage) { s.gate.reissued[instanceA] = true }, want: "age"},
		"older than a longer limit":    {fields: fields{PendingTime: ago(5 * time.Hour)}, prepare: func(s *stage) { s.cfg.MaxAge = 4 * time.Hour }, want: "age"},
		"within a longer limit":        {fields: fields{PendingTime: ago(4 * time.Hour)}, prepare: func(s *stage) { s.cfg.MaxAge = 4 * time.Hour }, want: ""},
		"closed":                       {prepare: func(s *stage) { s.gate.closed[instanceA] = true }, want: "closed"},
		"pending":                      {prepare: func(s *stage) { s.ec2.inst.State = instance.Pending }, want: ""},
		"terminated":                   {prepare: func(s *stage) { s.ec2.inst.State = instance.Terminated }, want: "state"},
		"shutting down":                {prepare: func(s *stage) { s.ec2.inst.State = instance.ShuttingDown }, want: "state"},
		"stopped":                      {fields: fields{PendingTime: ago(youth)}, prepare: func(s *stage) { s.ec2.inst.State = instance.Stopped }, want: "state"},
		"stopping":                     {fields: fields{PendingTime: ago(youth)}, prepare: func(s *stage) { s.ec2.inst.State = instance.Stopping }, want: "state"},
		"started again, EC2 is behind": {prepare: func(s *stage) { s.ec2.inst.State = instance.Stopped }, want: "503"},
		"unknown to EC2":               {fields: fields{PendingTime: ago(youth)}, prepare: func(s *stage) { s.ec2.err = fmt.Errorf("no: %w", instance.ErrNotFound) }, want: "state"},
		"unknown to EC2 as yet":        {prepare: func(s *stage) { s.ec2.err = instance.ErrNotFound }, want: "503"},
		"EC2 is away":                  {prepare: func(s *stage) { s.ec2.err = errors.New("throttled") }, want: "503"},
		"from its public address":      {prepare: func(s *stage) { s.cfg.PublicAddress = true }, want: ""},
		"from another address": {prepare: func(s *stage) {
			s.cfg.PublicAddress = true
			s.ec2.inst.PublicAddresses = []netip.Addr{netip.MustParseAddr("203.0.113.8")}
		}, want: "source"},
		"it has no public address": {prepare: func(s *stage) { s.cfg.PublicAddress, s.ec2.inst.PublicAddresses = true, nil }, want: "source"},
		"from a network":           {prepare: func(s *stage) { s.cfg.Networks = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} }, want: ""},
		"from no network":          {prepare: func(s *stage) { s.cfg.Networks = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")} }, want: "source"},
		"from a network or its address": {prepare: func(s *stage) {
			s.cfg.PublicAddress, s.cfg.Networks = true, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on(t, func(t *testing.T, s *stage) {
				if tt.prepare != nil {
					tt.prepare(s)
				}
				// A time relative to the stage's, which begins in the year 2000.
				if !tt.fields.PendingTime.IsZero() {
					tt.fields.PendingTime = time.Now().Add(tt.fields.PendingTime.Sub(epoch))
				}
				document := s.document(tt.fields)
				err := s.authorizer().Authorize(request(Scheme+" "+document), instanceA)
				if got := reasonOf(err); got != tt.want {
					t.Errorf("got %q (%v), want %q", got, err, tt.want)
				}
				if err != nil && strings.Contains(err.Error(), document[40:80]) {
					t.Errorf("the error holds the document: %v", err)
				}
			})
		})
	}
}

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return epoch.Add(-d) }

func TestHeader(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, s *stage) {
		a, good := s.authorizer(), s.document(instanceidentitytest.Fields{})
		for name, tt := range map[string]struct {
			headers []string
			want    string
		}{
			"none":                {nil, "401"},
			"good":                {[]string{Scheme + " " + good}, ""},
			"scheme in small":     {[]string{"instance-identity " + good}, ""},
			"empty":               {[]string{""}, "malformed"},
			"scheme alone":        {[]string{Scheme}, "malformed"},
			"no document":         {[]string{Scheme + " "}, "malformed"},
			"document alone":      {[]string{good}, "malformed"},
			"another scheme":      {[]string{"Bearer " + good}, "malformed"},
			"two headers":         {[]string{Scheme + " " + good, Scheme + " " + good}, "malformed"},
			"two spaces":          {[]string{Scheme + "  " + good}, "malformed"},
			"a space behind":      {[]string{Scheme + " " + good + " "}, "malformed"},
			"a parameter":         {[]string{Scheme + " " + good + ", realm=x"}, "malformed"},
			"cut":                 {[]string{Scheme + " " + good[:len(good)-5]}, "malformed"},
			"the document's JSON": {[]string{Scheme + " eyJpbnN0YW5jZUlkIjoiaS0wMDAwMDAwMDAwMDAwMDAwYSJ9"}, "malformed"},
			"much":                {[]string{Scheme + " " + strings.Repeat("A", 1<<20)}, "size"},
			"changed at the end":  {[]string{Scheme + " " + flip(good)}, "signer"},
		} {
			if got := reasonOf(a.Authorize(request(tt.headers...), instanceA)); got != tt.want {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
		}
		if s.ec2.calls.Load() != 2 {
			t.Errorf("EC2 was asked %d times, want twice: refusals cost no call", s.ec2.calls.Load())
		}
	})
}

// flip changes a byte of the signature, which stands before the ends of the
// indefinite lengths.
func flip(document string) string {
	b := []byte(document)
	at := len(b) - 60
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// The order of the checks: each refusal comes before what costs more.
func TestCheapestFirst(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, s *stage) {
		s.gate.closed[instanceA] = true
		s.ec2.inst.State = instance.Terminated
		s.cfg.Networks = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		a := s.authorizer()
		all := instanceidentitytest.Fields{
			InstanceID: instanceB, Region: "us-west-2", Account: "210987654321", PendingTime: time.Now().Add(-100 * time.Hour),
		}
		bad, err := (&instanceidentitytest.Authority{Certificate: s.authority.Certificate, Key: mustKey(t)}).Sign(all)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		try := func(document string) {
			got = append(got, reasonOf(a.Authorize(request(Scheme+" "+document), instanceA)))
		}
		try(bad)
		try(s.document(all))
		all.Region = ""
		try(s.document(all))
		all.Account = ""
		try(s.document(all))
		all.InstanceID = instanceA
		try(s.document(all))
		all.PendingTime = time.Time{}
		try(s.document(all))
		s.gate.closed[instanceA] = false
		if s.ec2.calls.Load() != 0 {
			t.Error("EC2 was asked")
		}
		try(s.document(all))
		s.ec2.inst.State = instance.Running
		try(s.document(all))
		if want := "signer region account instance age closed state source"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func mustKey(t *testing.T) any {
	t.Helper()
	other, err := instanceidentitytest.New()
	if err != nil {
		t.Fatal(err)
	}
	return other.Key
}

// What a refusal says is for the log, and holds nothing of the header.
func TestRefusalsHoldNoHeader(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, s *stage) {
		const secret = "c2VjcmV0LWRvY3VtZW50"
		for _, h := range []string{secret, "Bearer " + secret, Scheme + " " + secret, Scheme + secret, secret + " " + secret} {
			err := s.authorizer().Authorize(request(h), instanceA)
			if err == nil || bytes.Contains([]byte(fmt.Sprintf("%v %+v %#v", err, err, err)), []byte(secret)) {
				t.Errorf("%q: %v", h, err)
			}
		}
	})
}
