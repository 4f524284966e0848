// Package instanceidentity verifies EC2 instance identity documents in the form
// that the metadata service serves as rsa2048: base64 of a PKCS#7 SignedData in
// BER, with the document inside and no certificate. It asks nobody: AWS
// publishes one certificate a region, and they come with the program.
//
// What is believed, and why:
//
//   - Only the signed content is read; nothing that comes beside it.
//   - Certificates inside the message are thrown away. Those of the region that
//     the content names take their place, so a sender cannot bring his own.
//   - There must be one signer, who signed attributes with the content's digest
//     and kind, with RSA PKCS #1 v1.5 and SHA-256 or better.
//   - The frame of the message is checked by strict rules before it goes to the
//     PKCS#7 library, which reads some broken messages in its own way.
//   - Keys of the document count by their exact name and only once.
//
// Unsigned parts (certificates, revocation lists, unsigned attributes) may
// differ between two messages that say the same, so a message is recognised by
// its Document, never by its bytes.
//
// A document has neither nonce nor audience: whoever reads it can send it
// again. It is a credential, so no error quotes it, and a caller must ask more
// before it trusts: how old it is, what state the instance is in, whether it
// has joined already.
package instanceidentity
