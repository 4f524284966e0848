// Package httpserver serves the artifacts to instances, on a port that may
// face the internet, and health and metrics on a port of their own that must
// not.
package httpserver
