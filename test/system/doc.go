// Package system holds tests of the whole program: the real binary on a real
// Kubernetes control plane and a real queue. Each test has a namespace, an event
// path and instances of its own, so they run side by side on one stack.
package system
