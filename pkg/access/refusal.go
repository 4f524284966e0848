package access

import "fmt"

// Reasons of a refusal: words for the metric. The verifier has words of its own
// for what is wrong with a document.
const (
	reasonMalformed = "malformed" // the header is not of the form that is asked for
	reasonInstance  = "instance"  // the document is another instance's
	reasonAge       = "age"       // the instance started too long ago, or in the future
	reasonState     = "state"     // EC2 does not say pending or running
	reasonSource    = "source"    // the request comes from elsewhere
)

// refusal is an error with a word for the metric.
type refusal struct {
	reason string
	text   string
}

func refuse(reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

func (r *refusal) Error() string { return r.text }

// Reason is the word for the metric.
func (r *refusal) Reason() string { return r.reason }
