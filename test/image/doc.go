// Package image tests what is released: the programs that `make release` builds,
// and the image that the Dockerfile makes, built for real.
//
// A machine without a registry cannot pull the Dockerfile's base images. The
// tests put a stand-in in place of the one that has the Go compiler: busybox's
// shell, with this machine's Go mounted into it. The final stage needs none: it
// is `scratch`.
package image
