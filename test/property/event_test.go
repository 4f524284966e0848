package property

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func parse(t *rapid.T, body string) ec2event.Event {
	t.Helper()
	e, err := ec2event.Parse([]byte(body))
	if err != nil {
		t.Fatalf("a well-formed event is refused: %v\n%s", err, body)
	}
	return e
}

// Whatever stands round it, in whatever order, a state change says what was put
// into it; and the envelope changes nothing.
func TestStateChangeSaysWhatWasPutIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := happenings().Draw(t, "happening")
		raw := h.raw(t)
		if got := parse(t, raw); got != h.want() {
			t.Fatalf("got %+v\nwant %+v\nfrom %s", got, h.want(), raw)
		}
		enveloped := envelope(t, raw)
		if got := parse(t, enveloped); got != h.want() {
			t.Fatalf("got %+v\nwant %+v\nfrom %s", got, h.want(), enveloped)
		}
	})
}

// The shapes in which a launch can be told agree about instance, state and
// time.
func TestShapesOfALaunchAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := happenings().Draw(t, "happening")
		h.state = instance.Pending
		want := parse(t, h.raw(t))
		for _, body := range []string{h.launching(t), h.launchAction(t)} {
			for _, body := range []string{body, envelope(t, body)} {
				got := parse(t, body)
				if got.Kind != want.Kind || got.InstanceID != want.InstanceID || got.State != want.State || !got.Time.Equal(want.Time) {
					t.Fatalf("got %+v\nwant %+v\nfrom %s", got, want, body)
				}
			}
		}
	})
}

// Whatever bytes come, Parse does not panic, gives the same answer twice, and
// either a state change that is whole, or another event that names no instance,
// or an error of one short line.
func TestAnyBytesAreAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := happenings().Draw(t, "happening")
		body := rapid.SampledFrom([]string{h.raw(t), h.launching(t), h.launchAction(t)}).Draw(t, "body")
		if rapid.Bool().Draw(t, "enveloped") {
			body = envelope(t, body)
		}
		damaged := damage(t, []byte(body))
		e, err := ec2event.Parse(damaged)
		if again, errAgain := ec2event.Parse(damaged); again != e || (err == nil) != (errAgain == nil) {
			t.Fatalf("two answers: %+v, %v and %+v, %v", e, err, again, errAgain)
		}
		if complaint := wrongAnswer(e, err); complaint != "" {
			t.Fatalf("%s: %+v, %v\nfrom %q", complaint, e, err, damaged)
		}
	})
}

// wrongAnswer says what is wrong with an answer of Parse; nothing when it is
// one that may be given.
func wrongAnswer(e ec2event.Event, err error) string {
	if err != nil {
		switch {
		case !errors.Is(err, ec2event.ErrMalformed):
			return "the error is not ErrMalformed"
		case len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\r\x00\x1b"):
			return "the error is not one short line"
		case e != ec2event.Event{}:
			return "an event comes with the error"
		}
		return ""
	}
	_, idErr := instance.ParseID(string(e.InstanceID))
	_, known := instance.ParseState(string(e.State))
	switch e.Kind {
	case ec2event.KindStateChange:
		if idErr != nil || !known {
			return "a state change without a valid id and state"
		}
	case ec2event.KindOther:
		if e.InstanceID != "" || e.State != "" {
			return "an event that is no state change names an instance"
		}
	default:
		return "a kind that is none"
	}
	return ""
}

// damage changes some of the bytes.
func damage(t *rapid.T, body []byte) []byte {
	for range rapid.IntRange(1, 4).Draw(t, "wounds") {
		at := rapid.IntRange(0, len(body)).Draw(t, "at")
		to := min(len(body), at+rapid.IntRange(0, 12).Draw(t, "length"))
		replacement := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 4),
			rapid.SampledFrom([][]byte{nil, []byte(`"`), []byte(`{`), []byte(`}`), []byte(`\`), []byte(`,`), []byte("\ufeff"), []byte(`"state":"`), []byte(`null`)}),
			rapid.Just(body[at:to:to]), // written twice
		).Draw(t, "replacement")
		body = append(append(append([]byte(nil), body[:at]...), replacement...), body[to:]...)
		if rapid.IntRange(0, 9).Draw(t, "cut short") == 0 {
			body = body[:at]
		}
	}
	return body
}
