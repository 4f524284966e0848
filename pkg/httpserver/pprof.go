package httpserver

import (
	"net/http"
	"net/http/pprof"
)

// addPprof adds Go's profiles to mux. The handlers move the write deadline for
// profiles that take their time, as long as their parameter "seconds" says. The
// command line is left out: it may hold what is not for others.
//
// Importing net/http/pprof adds all of them to http.DefaultServeMux too, which
// no server of this package uses.
func addPprof(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
