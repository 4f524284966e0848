package ec2event

import (
	"testing"
	"unicode/utf8"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func FuzzParse(f *testing.F) {
	for _, body := range samples(f) {
		f.Add(body)
	}
	for _, body := range malformedBodies() {
		if len(body[0]) < 1<<12 { // the fuzzer is slow with long seeds
			f.Add([]byte(body[0]))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Parse(body)
		if err != nil {
			checkError(t, err)
			if e != (Event{}) {
				t.Errorf("an event beside the error: %+v", e)
			}
			return
		}
		checkEvent(t, e)
	})
}

// checkEvent checks what is true of every Event.
func checkEvent(t *testing.T, e Event) {
	t.Helper()
	switch e.Kind {
	case KindStateChange:
		if id, err := instance.ParseID(string(e.InstanceID)); err != nil || id != e.InstanceID {
			t.Errorf("accepted the id %q: %v", e.InstanceID, err)
		}
		if state, ok := instance.ParseState(string(e.State)); !ok || state != e.State {
			t.Errorf("accepted the state %q", e.State)
		}
	case KindOther:
		if e.InstanceID != "" || e.State != "" {
			t.Errorf("%+v has an instance", e)
		}
	default:
		t.Errorf("%+v is of no kind", e)
	}
	if e.Source == "" || e.DetailType == "" {
		t.Errorf("%+v does not say what it is", e)
	}
	for _, word := range []string{e.ID, e.Source, e.DetailType} {
		if len(word) > maxWord || !utf8.ValidString(word) {
			t.Errorf("a word of %d bytes: %.80q", len(word), word)
		}
	}
}
