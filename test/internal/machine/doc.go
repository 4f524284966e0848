// Package machine makes machines out of namespaces, for tests: each has a
// process tree, a host name, a network and files of its own, and a first process
// that does what this one tells it. What a machine writes lies in memory over
// the real machine's files, which are read-only. All machines of one Start share
// a user namespace, so a virtual cable can join them and nobody need be root.
//
// When this process ends, however it ends, the kernel ends every machine, and
// with the last process go mounts, networks and memory. One thing may stay: a
// folder of dead sockets among the temporary files, after a SIGKILL.
//
// It needs Linux 5.12 or later with unprivileged user namespaces.
package machine
