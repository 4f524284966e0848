package instanceidentity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxEncoded bounds an encoded document, in bytes. Genuine ones have about 1500.
const MaxEncoded = 8 << 10

// Config says which documents are believed. The zero value believes all that
// AWS signed with a certificate that comes with the program.
type Config struct {
	// Accounts are the AWS account ids, of 12 digits, whose instances are
	// believed. Empty: any.
	Accounts []string
	// Regions are the regions, such as us-east-2, whose instances are believed.
	// Empty: any that has a certificate.
	Regions []string
	// Extra are certificates beside the built-in ones, for regions that are
	// newer than the program.
	Extra []ExtraCertificates
}

// Verifier verifies documents. It is safe for concurrent use.
type Verifier struct {
	accounts, regions []string
	certificates      *certificates
}

// New returns a Verifier. It is an error when a certificate cannot verify
// anything or an account or region can never be met; the error names which.
func New(cfg Config) (*Verifier, error) {
	known, err := loadCertificates(cfg.Extra)
	if err != nil {
		return nil, err
	}
	for i, account := range cfg.Accounts {
		if !accountPattern.MatchString(account) {
			return nil, fmt.Errorf("accounts[%d]: %q is no AWS account id: want 12 digits", i, account)
		}
	}
	for i, region := range cfg.Regions {
		if !regionPattern.MatchString(region) || len(known.of(region)) == 0 {
			return nil, fmt.Errorf("regions[%d]: no certificate is known for region %q", i, region)
		}
	}
	return &Verifier{
		accounts:     slices.Clone(cfg.Accounts),
		regions:      slices.Clone(cfg.Regions),
		certificates: known,
	}, nil
}

// Verify returns what an encoded document says, once all of it is verified.
// encoded is base64 on one line; the metadata service breaks it into lines,
// which must be joined. Every error is a *Refusal.
func (v *Verifier) Verify(encoded string) (Document, error) {
	doc, refusal := v.verify(encoded)
	if refusal != nil {
		return Document{}, refusal
	}
	return doc, nil
}

func (v *Verifier) verify(encoded string) (Document, *Refusal) {
	if len(encoded) > MaxEncoded {
		return Document{}, refuse(ReasonSize, "%d bytes are more than %d", len(encoded), MaxEncoded)
	}
	raw, err := decode(encoded)
	if err != nil {
		return Document{}, refuse(ReasonMalformed, "%v", err)
	}
	m, err := parseMessage(raw)
	if err != nil {
		return Document{}, refuse(ReasonMalformed, "%v", err)
	}
	doc, err := parseDocument(m.content)
	if err != nil {
		return Document{}, refuse(ReasonMalformed, "the signed content %v", err)
	}
	// Until here the region is only what the sender says. It picks the
	// certificates, and they decide whether he may say so.
	if err := m.verify(doc.Region, v.certificates.of(doc.Region)); err != nil {
		return Document{}, refuse(ReasonSigner, "%v", err)
	}
	return doc, v.allowed(doc)
}

// allowed decides about a document whose signature is verified.
func (v *Verifier) allowed(doc Document) *Refusal {
	if len(v.regions) > 0 && !slices.Contains(v.regions, doc.Region) {
		return refuse(ReasonRegion, "region %+q is not allowed", quotable(doc.Region))
	}
	if len(v.accounts) > 0 && !slices.Contains(v.accounts, doc.Account) {
		return refuse(ReasonAccount, "its account is not allowed")
	}
	return nil
}

// decode accepts one spelling only. The standard library's strict decoder still
// skips line breaks.
func decode(encoded string) ([]byte, error) {
	switch {
	case encoded == "":
		return nil, errors.New("it is empty")
	case strings.ContainsAny(encoded, "\r\n"):
		return nil, errors.New("it has line breaks, which must be removed")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	var corrupt base64.CorruptInputError
	switch {
	case errors.As(err, &corrupt):
		return nil, fmt.Errorf("no standard base64 with padding: wrong at byte %d of %d", int64(corrupt), len(encoded))
	case err != nil:
		return nil, errors.New("no standard base64 with padding")
	}
	return raw, nil
}
