// Package ec2world plays EC2 for tests: it launches and ends instances on the
// stand-in and announces what happened to them, since no stand-in sends
// state-change events by itself. What is announced and what is true are
// separate on purpose: a test can announce late, twice, in the wrong order or
// not at all.
package ec2world
