// Package instanceidentitytest signs instance identity documents as AWS does,
// with a certificate made at run time. A Verifier believes them once it is
// given the authority's certificate.
package instanceidentitytest
