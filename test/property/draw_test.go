package property

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// TestMain lets a random sequence of actions be longer than rapid would make
// it, unless told otherwise: an admission alone takes six calls.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.steps"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("80"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// upTo generates numbers from 0 to n-1, each as likely as the others. Rapid's
// own generators prefer what is small or first, which is right for values, but
// for actions would leave the later ones out.
func upTo(n int) *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		drawn := 0
		for range 10 {
			drawn *= 2
			if rapid.Bool().Draw(t, "bit") {
				drawn++
			}
		}
		return drawn % n
	})
}

// oneIn generates true once in n draws.
func oneIn(n int) *rapid.Generator[bool] {
	return rapid.Map(upTo(n), func(drawn int) bool { return drawn == n-1 })
}

// pick draws one of several, and gives the action up when there is none.
func pick[T any](t *rapid.T, what string, from []T) T {
	if len(from) == 0 {
		t.Skip("no " + what)
	}
	i := upTo(len(from)).Draw(t, what)
	t.Logf("%s: %v", what, from[i])
	return from[i]
}
