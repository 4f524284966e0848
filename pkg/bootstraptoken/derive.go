package bootstraptoken

import (
	"crypto/sha256"
	"math/big"
	"strconv"
	"strings"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// maxDerivations bounds how many ids are tried for one instance. An id has 36^6
// values, so needing even a second one is rare.
const maxDerivations = 8

// deriveID returns the nth token id of an instance: six base-36 digits of a
// SHA-256. The same instance and n always give the same id, in every replica.
func deriveID(id instance.ID, n int) string { return deriveFrom(string(id), n) }

// deriveFrom does so for any text.
func deriveFrom(seed string, n int) string {
	if n > 0 {
		seed += "#" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(seed))
	digits := new(big.Int).SetBytes(sum[:]).Text(36)
	digits = strings.Repeat("0", bootstrapapi.BootstrapTokenIDBytes) + digits
	return digits[len(digits)-bootstrapapi.BootstrapTokenIDBytes:]
}
