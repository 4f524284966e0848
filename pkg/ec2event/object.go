package ec2event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// object is a JSON object whose keys keep their case; of equal keys the last
// counts. A struct would not do: encoding/json fills its fields whatever the
// key's case, so that "State" could overwrite "state".
type object map[string]json.RawMessage

// byteOrderMark may precede JSON that went through a Windows tool.
var byteOrderMark = []byte("\ufeff")

// decodeObject reads data, which must be one JSON object and nothing else. Its
// errors are short and quote at most one character.
func decodeObject(data []byte) (object, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty")
	}
	var o object
	err := json.Unmarshal(data, &o)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("a JSON %s, not an object", mismatch.Value)
	case err != nil:
		return nil, fmt.Errorf("no JSON: %w", err)
	case o == nil:
		return nil, errors.New("a JSON null, not an object")
	}
	return o, nil
}

// has reports whether the key is there, whatever its value.
func (o object) has(key string) bool {
	_, found := o[key]
	return found
}

// text returns the string at key; false when it is missing or no string.
func (o object) text(key string) (string, bool) {
	raw := o[key]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// word returns the string at key, cut to a length that is safe to keep and to
// log; empty when it is missing or no string.
func (o object) word(key string) string {
	s, _ := o.text(key)
	return clip(s, maxWord)
}

// time returns the RFC 3339 time at key in UTC; zero when it is missing or
// none.
func (o object) time(key string) time.Time {
	t, err := time.Parse(time.RFC3339, o.word(key))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// object returns the object at key; false when it is missing or none.
func (o object) object(key string) (object, bool) {
	inner, err := decodeObject(o[key])
	return inner, err == nil
}
