//go:build linux

package main

import "regexp"

// token matches a bootstrap token, https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/.
var token = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)

// redact blots out token secrets: what the demonstration prints may be shown.
func redact(text string) string { return token.ReplaceAllString(text, "$1.****************") }
