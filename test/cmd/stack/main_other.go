//go:build !linux

// Command stack starts, shows and stops a local stack.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "stack: the local stack needs Linux; use a Linux machine, virtual machine or container")
	os.Exit(1)
}
