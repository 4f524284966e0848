package instance

import (
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"i-abcd1111", "i-0123456789abcdef0", "i-00000000", "i-ffffffffffffffff0"} {
		if id, err := ParseID(good); err != nil || string(id) != good {
			t.Errorf("ParseID(%q) = %q, %v", good, id, err)
		}
	}
	for _, bad := range []string{
		"", "i-", "i", "abcd1111", "i-abcd111", "i-abcd11112", "i-0123456789abcdef", "i-0123456789abcdef01",
		"I-abcd1111", "i-ABCD1111", "i-ghij1111", "i_abcd1111", "mi-abcd1111", "vol-abcd1111",
		" i-abcd1111", "i-abcd1111 ", "i-abcd1111\n", "\ni-abcd1111", "i-abcd1111\x00",
		"i-abcd1111,i-abcd2222", "i-abcd1111/../x", "../i-abcd1111", "/i-abcd1111", "i-abcd1111=",
		"i-abcd1111!=x", "i-abcd1111,!x", "i-abcd111é", "i-abcd111１",
		"arn:aws:ec2:us-east-1:123456789012:instance/i-abcd1111",
	} {
		if id, err := ParseID(bad); err == nil || id != "" {
			t.Errorf("ParseID(%q) = %q, %v; want an error", bad, id, err)
		}
	}
}

func TestParseIDErrorIsShort(t *testing.T) {
	t.Parallel()
	_, err := ParseID(strings.Repeat("x", 1<<18))
	if err == nil || len(err.Error()) > 256 {
		t.Errorf("error of %d bytes: %.80s…", len(err.Error()), err)
	}
}

func TestProviderID(t *testing.T) {
	t.Parallel()
	i := Instance{ID: "i-0123456789abcdef0", Zone: "us-east-2a"}
	const want = "aws:///us-east-2a/i-0123456789abcdef0"
	if got := i.ProviderID(); got != want {
		t.Errorf("ProviderID() = %q, want %q", got, want)
	}
	if id, ok := IDFromProviderID(want); !ok || id != i.ID {
		t.Errorf("IDFromProviderID(%q) = %q, %v", want, id, ok)
	}
}

func TestIDFromProviderIDRefuses(t *testing.T) {
	t.Parallel()
	for _, other := range []string{
		"", "aws://", "aws:///", "aws:///us-east-2a", "aws:///us-east-2a/", "aws:///us-east-2a/i-xyz",
		"aws:///us-east-2a/i-0123456789abcdef0/", "aws://i-0123456789abcdef0", "aws:////i-0123456789abcdef0", "aws:///a/b/i-0123456789abcdef0", "gce://project/zone/i-0123456789abcdef0",
		"kind://docker/kind/i-0123456789abcdef0", "i-0123456789abcdef0", "AWS:///us-east-2a/i-0123456789abcdef0",
		"aws:///us-east-2a/fargate-ip-10-0-0-1.ec2.internal",
	} {
		if id, ok := IDFromProviderID(other); ok || id != "" {
			t.Errorf("IDFromProviderID(%q) = %q, %v; want none", other, id, ok)
		}
	}
}
