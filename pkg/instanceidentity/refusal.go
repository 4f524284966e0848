package instanceidentity

import "fmt"

// The reasons for a refusal, in the order of the checks. They are constant
// words, fit for a metric's label.
const (
	// ReasonSize: longer than MaxEncoded.
	ReasonSize = "size"
	// ReasonMalformed: no base64, no signed data with a document inside, or no
	// document.
	ReasonMalformed = "malformed"
	// ReasonSigner: not signed by the region's certificate, or not well enough.
	ReasonSigner = "signer"
	// ReasonRegion: signed, but of a region that is not allowed.
	ReasonRegion = "region"
	// ReasonAccount: signed, but of an account that is not allowed.
	ReasonAccount = "account"
)

// Refusal is every error of Verify. Its text is for the operator's log; of the
// document it quotes at most the region.
type Refusal struct{ reason, text string }

// Error says in one line what is wrong.
func (r *Refusal) Error() string {
	return "instance identity document refused: " + r.text
}

// Reason is one of the Reason constants.
func (r *Refusal) Reason() string { return r.reason }

// refuse makes a Refusal. What it formats must hold nothing of the document but
// a clipped region.
func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{reason: reason, text: fmt.Sprintf(format, args...)}
}

// maxQuoted bounds a region in an error, in bytes; real ones have up to 14.
const maxQuoted = 32

// quotable cuts a region that may be anything.
func quotable(region string) string { return region[:min(len(region), maxQuoted)] }
