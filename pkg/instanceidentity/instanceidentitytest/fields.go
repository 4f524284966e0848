package instanceidentitytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Fields are what a document says. A zero field gets a sensible value.
type Fields struct {
	InstanceID   instance.ID
	Account      string
	Region       string
	Zone         string // zero: zone a of Region
	Type         string
	ImageID      string
	Architecture string
	PrivateIP    netip.Addr
	PendingTime  time.Time // zero: now
}

// JSON is the document as AWS writes it.
func (f Fields) JSON() []byte {
	region := cmp.Or(f.Region, "us-east-2")
	pending := f.PendingTime
	if pending.IsZero() {
		pending = time.Now()
	}
	return write([]pair{
		{"accountId", cmp.Or(f.Account, "123456789012")},
		{"architecture", cmp.Or(f.Architecture, "x86_64")},
		{"availabilityZone", cmp.Or(f.Zone, region+"a")},
		{"billingProducts", nil},
		{"devpayProductCodes", nil},
		{"marketplaceProductCodes", nil},
		{"imageId", cmp.Or(f.ImageID, "ami-0fa9e1f64142cde17")},
		{"instanceId", cmp.Or(f.InstanceID, "i-0123456789abcdef0")},
		{"instanceType", cmp.Or(f.Type, "t3.small")},
		{"kernelId", nil},
		{"pendingTime", pending.UTC().Format(time.RFC3339)},
		{"privateIp", cmp.Or(f.PrivateIP, netip.AddrFrom4([4]byte{10, 0, 0, 209}))},
		{"ramdiskId", nil},
		{"region", region},
		{"version", "2017-09-30"},
	})
}

// pair is a key and its value.
type pair struct {
	key   string
	value any
}

// write spells a document as AWS does: a space before the colon too, and no
// line break at the end.
func write(pairs []pair) []byte {
	var b bytes.Buffer
	b.WriteString("{")
	for i, p := range pairs {
		value, err := json.Marshal(p.value)
		if err != nil {
			panic(err) // strings and addresses only
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %q : %s", p.key, value)
	}
	b.WriteString("\n}")
	return b.Bytes()
}
