package instanceidentity

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// rest is what makes a document of a test's own fields complete.
const rest = `"instanceId":"i-0123456789abcdef0","accountId":"123456789012","region":"us-east-2","pendingTime":"2021-09-03T21:25:44Z"`

func TestParseDocument(t *testing.T) {
	t.Parallel()
	minimal := Document{
		InstanceID:  "i-0123456789abcdef0",
		Account:     "123456789012",
		Region:      "us-east-2",
		PendingTime: time.Date(2021, 9, 3, 21, 25, 44, 0, time.UTC),
	}
	with := func(change func(*Document)) Document {
		d := minimal
		change(&d)
		return d
	}
	tests := []struct {
		name, content string
		want          Document
	}{
		{"least", `{` + rest + `}`, minimal},
		{"space around", " \n{" + rest + "}\n\t", minimal},
		{"null", `{` + rest + `,"availabilityZone":null,"instanceType":null,"privateIp":null}`, minimal},
		{"empty words", `{` + rest + `,"availabilityZone":"","privateIp":""}`, minimal},
		{"unknown keys", `{` + rest + `,"x":{"region":"us-east-1","region":[]},"y":[{"accountId":1}]}`, minimal},
		{"keys of another case count for nothing", `{"InstanceID":"i-00000000","ACCOUNTID":1,` + rest + `,"Region":"eu-west-1","pendingtime":null}`, minimal},
		{"IPv6", `{` + rest + `,"privateIp":"fd00::1"}`, with(func(d *Document) { d.PrivateIP = netip.MustParseAddr("fd00::1") })},
		{"escapes", `{` + rest + `,"instance\u0054ype":"t3\u002esmall"}`, with(func(d *Document) { d.Type = "t3.small" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := parseDocument([]byte(tt.content)); err != nil || got != tt.want {
				t.Errorf("parseDocument(%s) = %+v, %v", tt.content, got, err)
			}
		})
	}
}

// badDocuments are contents with what their errors say. All are refused even
// when AWS signed them.
func badDocuments() [][3]string {
	without := func(key string) string { return strings.Replace("{"+rest+"}", `"`+key+`"`, `"other"`, 1) }
	instead := func(old, value string) string { return strings.Replace("{"+rest+"}", old, value, 1) }
	const id, account, region, pending = `"i-0123456789abcdef0"`, `"123456789012"`, `"us-east-2"`, `"2021-09-03T21:25:44Z"`
	return [][3]string{
		{"no JSON", "instance", "one JSON object"},
		{"null", "null", "one JSON object"},
		{"list", "[{" + rest + "}]", "one JSON object"},
		{"string", `"{}"`, "one JSON object"},
		{"two objects", "{" + rest + "}{" + rest + "}", "one JSON object"},
		{"object and more", "{" + rest + "}x", "one JSON object"},
		{"object and a zero byte", "{" + rest + "}\x00", "one JSON object"},
		{"byte order mark", "\ufeff{" + rest + "}", "one JSON object"},
		{"cut", "{" + rest, "one JSON object"},
		{"comma at the end", "{" + rest + ",}", "one JSON object"},
		{"empty object", "{}", "no instanceId"},
		{"instanceId twice", "{" + rest + `,"instanceId":` + id + "}", "a key twice"},
		{"instanceId twice, once escaped", "{" + rest + `,"instance\u0049d":"i-00000000"}`, "a key twice"},
		{"accountId twice", "{" + rest + `,"accountId":null}`, "a key twice"},
		{"region twice", "{" + rest + `,"region":"eu-west-1"}`, "a key twice"},
		{"pendingTime twice", "{" + rest + `,"pendingTime":` + pending + "}", "a key twice"},
		{"unknown key twice", "{" + rest + `,"x":1,"x":1}`, "a key twice"},
		{"many keys", "{" + rest + manyKeys(maxKeys) + "}", "too many keys"},
		{"no instanceId", without("instanceId"), "no instanceId"},
		{"no accountId", without("accountId"), "no accountId"},
		{"no region", without("region"), "no region"},
		{"no pendingTime", without("pendingTime"), "no pendingTime"},
		{"instanceId of another case only", strings.Replace("{"+rest+"}", "instanceId", "InstanceId", 1), "no instanceId"},
		{"region of another case only", strings.Replace("{"+rest+"}", "region", "Region", 1), "no region"},
		{"instanceId is null", instead(id, "null"), "instanceId that is no instance id"},
		{"instanceId is a number", instead(id, "1"), "instanceId that is no string"},
		{"instanceId is a list", instead(id, "["+id+"]"), "instanceId that is no string"},
		{"instanceId is a path", instead(id, `"../i-0123456789abcdef0"`), "instanceId that is no instance id"},
		{"instanceId in capitals", instead(id, `"i-0123456789ABCDEF0"`), "instanceId that is no instance id"},
		{"account of 11 digits", instead(account, `"12345678901"`), "accountId that is no account id"},
		{"account of other digits", instead(account, `"١٢٣٤٥٦٧٨٩٠١٢"`), "accountId that is no account id"},
		{"account and a line break", instead(account, `"123456789012\n"`), "accountId that is no account id"},
		{"account is a number", instead(account, "123456789012"), "accountId that is no string"},
		{"region is empty", instead(region, `""`), "region that is no word"},
		{"time without zone", instead(pending, `"2021-09-03T21:25:44"`), "pendingTime that is no time"},
		{"time is a number", instead(pending, "1630704344"), "pendingTime that is no string"},
		{"time of another form", instead(pending, `"Fri, 03 Sep 2021 21:25:44 GMT"`), "pendingTime that is no time"},
		{"zone is a number", "{" + rest + `,"availabilityZone":1}`, "availabilityZone that is no string"},
		{"type is an object", "{" + rest + `,"instanceType":{}}`, "instanceType that is no string"},
		{"address is none", "{" + rest + `,"privateIp":"10.0.0.256"}`, "privateIp that is no address"},
		{"address is a prefix", "{" + rest + `,"privateIp":"10.0.0.0/8"}`, "privateIp that is no address"},
	}
}

func TestVerifyRefusesSignedNonsense(t *testing.T) {
	t.Parallel()
	v := believing(t, Config{})
	for _, tt := range badDocuments() {
		t.Run(tt[0], func(t *testing.T) {
			t.Parallel()
			encoded := must(aws().Message([]byte(tt[1]))).BER()
			checkRefused(t, v, encoded, ReasonMalformed, "the signed content ")
			checkRefused(t, v, encoded, ReasonMalformed, tt[2])
		})
	}
}
