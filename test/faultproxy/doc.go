// Package faultproxy stands between the program and a service it calls, for
// tests. It forwards everything, but for the operations that a test names it
// answers itself, spoils the answer or cuts the connection. What it does depends
// on nothing but how many requests of the operation came before.
package faultproxy
