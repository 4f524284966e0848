// Package access decides who may fetch an instance's artifacts: only the
// instance itself, proven by its signed identity document, and only while it is
// joining.
package access
