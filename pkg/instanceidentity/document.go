package instanceidentity

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Document is what a verified document says.
type Document struct {
	InstanceID instance.ID
	// Account is the AWS account id, 12 digits.
	Account string
	// Region is such as us-east-2.
	Region string
	// Zone is the availability zone, such as us-east-2a; empty when not said.
	Zone string
	// Type is the instance type, such as t3.small; empty when not said.
	Type string
	// PrivateIP is the first address in the VPC; invalid when not said.
	PrivateIP netip.Addr
	// PendingTime is when the instance was last started, in UTC. It moves on
	// stop and start, not on a reboot.
	PendingTime time.Time
}

var errNoMatch = errors.New("no match")

var accountPattern = regexp.MustCompile(`^[0-9]{12}$`)

// parseDocument reads the content of a message. Its errors name keys and quote
// no values.
func parseDocument(content []byte) (Document, error) {
	o, err := readObject(content)
	if err != nil {
		return Document{}, err
	}
	f := fields{object: o}
	d := Document{
		InstanceID:  required(&f, "instanceId", "instance id", instance.ParseID),
		Account:     required(&f, "accountId", "account id of 12 digits", parseAccount),
		Region:      required(&f, "region", "word", parseWord),
		PendingTime: required(&f, "pendingTime", "time of RFC 3339", parseTime),
		Zone:        f.optional("availabilityZone"),
		Type:        f.optional("instanceType"),
	}
	if ip := f.optional("privateIp"); ip != "" && f.err == nil {
		d.PrivateIP, err = netip.ParseAddr(ip)
		f.fail(err, "privateIp", "address")
	}
	if f.err != nil {
		return Document{}, f.err
	}
	return d, nil
}

// fields reads strings from an object and keeps the first error.
type fields struct {
	object
	err error
}

// required reads the string at key with parse, whose error is not kept because
// it may quote. wanted says what the string must be.
func required[T any](f *fields, key, wanted string, parse func(string) (T, error)) T {
	var none T
	if _, found := f.object[key]; !found && f.err == nil {
		f.err = fmt.Errorf("has no %s", key)
	}
	text := f.optional(key)
	if f.err != nil {
		return none
	}
	value, err := parse(text)
	f.fail(err, key, wanted)
	return value
}

// optional reads the string at key; empty when it is missing or null.
func (f *fields) optional(key string) string {
	var text *string
	if raw, found := f.object[key]; found {
		f.fail(json.Unmarshal(raw, &text), key, "string")
	}
	if text == nil {
		return ""
	}
	return *text
}

func (f *fields) fail(err error, key, wanted string) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("has %s that is no %s", key, wanted)
	}
}

func parseAccount(s string) (string, error) {
	if !accountPattern.MatchString(s) {
		return "", errNoMatch
	}
	return s, nil
}

func parseWord(s string) (string, error) {
	if s == "" {
		return "", errNoMatch
	}
	return s, nil
}

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err
}
