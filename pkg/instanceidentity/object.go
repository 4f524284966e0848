package instanceidentity

import (
	"bytes"
	"encoding/json"
	"errors"
)

// object is a JSON object whose keys keep their case. A struct would not do:
// encoding/json fills its fields whatever the key's case, and of equal keys
// takes the last.
type object map[string]json.RawMessage

// maxKeys bounds an object. A genuine document has 15 keys.
const maxKeys = 64

var errNoObject = errors.New("is not one JSON object")

// readObject reads data, which must be one JSON object with each key once, and
// nothing else. Its errors quote nothing.
func readObject(data []byte) (object, error) {
	if !json.Valid(data) {
		return nil, errNoObject
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errNoObject
	}
	o := object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		name, _ := key.(string)
		if _, twice := o[name]; twice {
			return nil, errors.New("has a key twice")
		}
		if len(o) == maxKeys {
			return nil, errors.New("has too many keys")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errNoObject
		}
		o[name] = value
	}
	return o, nil
}
