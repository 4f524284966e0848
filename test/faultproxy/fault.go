package faultproxy

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Fault answers a request in place of the service, or spoils its answer.
type Fault func(w http.ResponseWriter, r *Request)

// Respond answers without asking the service.
func Respond(a Answer) Fault {
	return func(w http.ResponseWriter, _ *Request) { send(w, a) }
}

func send(w http.ResponseWriter, a Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Content)))
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Content) // a client that is gone needs no answer
}

// Refuse cuts the connection and asks nobody: the service never hears of it.
func Refuse() Fault {
	return func(http.ResponseWriter, *Request) { panic(http.ErrAbortHandler) }
}

// LoseAnswer lets the service do what was asked, and cuts the connection in
// place of the answer.
func LoseAnswer() Fault {
	return func(_ http.ResponseWriter, r *Request) {
		_, _ = r.Forward(nil) // lost, whatever it is
		panic(http.ErrAbortHandler)
	}
}

// CutAnswer lets the service do what was asked, and cuts the connection in the
// middle of the answer, after the status line.
func CutAnswer() Fault {
	return func(w http.ResponseWriter, r *Request) {
		a, err := r.Forward(nil)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		whole := len(a.Content)
		w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
		w.Header().Set("Content-Length", strconv.Itoa(max(whole, 2)))
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Content[:whole/2])
		_ = http.NewResponseController(w).Flush() // what matters is that the rest is missing
		panic(http.ErrAbortHandler)
	}
}

// Delay holds the request up before the service hears of it.
func Delay(d time.Duration) Fault {
	return func(w http.ResponseWriter, r *Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		r.proxy.forward.ServeHTTP(w, r.Request)
	}
}

// InTurn lets the faults befall one request after the other, and begins again
// after the last.
func InTurn(faults ...Fault) Fault {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *Request) {
		faults[int(n.Add(1)-1)%len(faults)](w, r)
	}
}

func answer(code int, contentType, format string, args ...any) Answer {
	return Answer{
		Code: code, Header: http.Header{"Content-Type": {contentType}}, Content: fmt.Appendf(nil, format, args...),
	}
}
