// Package terraform tests the module in terraform/: what it says and refuses,
// and that what it plans works. Terraform's AWS provider is to be had from no
// package registry, so OpenTofu plans with a stand-in that has the real one's
// schema; what a plan holds is then made on the local AWS stand-in.
package terraform
