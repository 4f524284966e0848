// Package httpserver serves the artifacts to instances, on a port that may
// face the internet, and health, metrics and profiles on a port of their own
// that must not.
//
// What a request to the artifact port meets, in this order: a cap on open
// connections, over all and for its source; time-outs and size limits of
// net/http, for HTTP/1.1 and, over TLS, HTTP/2; a token bucket of its source
// and one over all; the route; the Authorizer; the Artifacts. No request body
// is read. A caller learns a status code and a fixed text, the log has the
// reason, and both the log and the memory spent on a source are bounded.
package httpserver
