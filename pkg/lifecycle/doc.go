// Package lifecycle decides what a state change of an EC2 instance means: an
// instance that starts is admitted, one that ends is retired, and a reconcile
// pass repairs what lost, late and wrong events left behind.
//
// The token Secret of an instance is its claim: creating it is atomic, and it
// names the one key that is meant for the instance. Everything here keeps to
// one protocol, so that any number of replicas may run it at the same time and
// crash at any line:
//
//	admit:   choose a key → create the claim → label the key → is the claim
//	         still the same? no: take the label back, unless the key is marked
//	serve:   read the claim → its key carries our label, and no other key of the
//	         instance is marked → mark the key → is the claim still the same?
//	join:    the Node is Ready → write that on the key → delete the claim; from
//	         then on only an operator's reissue makes another one
//	retire:  delete the claim → delete the Node → release the key
//
// Nothing is taken from an instance but on positive evidence that it is gone.
package lifecycle
