package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

// Proxy is a running proxy.
type Proxy struct {
	listener net.Listener
	server   *http.Server
	forward  *httputil.ReverseProxy
	// operation names what a request asks for.
	operation func(*http.Request, []byte) string

	mu    sync.Mutex
	rules []*Rule
	seen  map[string]int
}

// maxBody bounds what is read of a request that may be spoiled.
const maxBody = 8 << 20

// start serves on a loopback port that is free.
func start(forward *httputil.ReverseProxy, operation func(*http.Request, []byte) string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, forward: forward, operation: operation, seen: map[string]int{}}
	forward.FlushInterval = -1 // watches
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		panic(http.ErrAbortHandler) // the client should see what the proxy saw: no answer
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	return p, nil
}

// Stop ends the proxy and every connection through it.
func (p *Proxy) Stop() { _ = p.server.Close() } // nothing to be done about it in a test

// Addr is the address that the proxy listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// On lets a fault befall the requests of an operation that when chooses. Of
// several rules for one operation the one made last goes first; what it lets
// pass is left to the others.
func (p *Proxy) On(operation string, when When, fault Fault) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &Rule{proxy: p, operation: operation, when: when, fault: fault}
	p.rules = append([]*Rule{r}, p.rules...)
	return r
}

// Seen returns how many requests of each operation came.
func (p *Proxy) Seen() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen)
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	fault := p.choose(p.operation(r, body))
	if fault == nil {
		p.forward.ServeHTTP(w, r)
		return
	}
	fault(w, &Request{Request: r, Content: body, proxy: p})
}

// choose counts a request and returns the fault that befalls it, if any.
func (p *Proxy) choose(operation string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[operation]++
	for _, r := range p.rules {
		if r.operation != operation || r.ended {
			continue
		}
		if r.count++; r.when(r.count) {
			r.hits++
			return r.fault
		}
	}
	return nil
}

// Rule is one fault at work.
type Rule struct {
	proxy       *Proxy
	operation   string
	when        When
	fault       Fault
	count, hits int
	ended       bool
}

// Hits returns how many requests the fault befell.
func (r *Rule) Hits() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.hits
}

// End ends the fault.
func (r *Rule) End() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.ended = true
}

// When says whether the nth request that comes to a rule is chosen; n begins at
// 1.
type When func(n int) bool

// Always chooses every request.
func Always() When { return func(int) bool { return true } }

// First chooses the first n.
func First(n int) When { return func(i int) bool { return i <= n } }

// Every chooses each nth.
func Every(n int) When { return func(i int) bool { return i%n == 0 } }

// Request is a request that a fault befalls.
type Request struct {
	*http.Request
	// Content is its body.
	Content []byte
	proxy   *Proxy
}

// Answer is an answer that the proxy holds in its hand.
type Answer struct {
	Code    int
	Header  http.Header
	Content []byte
}

// Forward sends the request on, with another body if it is not nil, and returns
// the answer.
func (r *Request) Forward(body []byte) (Answer, error) {
	if body == nil {
		body = r.Content
	}
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.Header.Del("Accept-Encoding") // the answer is to be read
	kept := &keptAnswer{header: http.Header{}}
	if err := serve(r.proxy.forward, kept, out); err != nil {
		return Answer{}, err
	}
	return Answer{kept.code, kept.header, kept.body.Bytes()}, nil
}

var errNoAnswer = errors.New("the service did not answer")

func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if recover() != nil {
			err = errNoAnswer
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// keptAnswer is a ResponseWriter that keeps what is written.
type keptAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header { return k.header }

func (k *keptAnswer) WriteHeader(code int) {
	if code >= http.StatusOK { // not an interim one
		k.code = code
	}
}

func (k *keptAnswer) Write(b []byte) (int, error) {
	if k.code == 0 {
		k.code = http.StatusOK
	}
	return k.body.Write(b)
}
