package ec2event

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// change returns a state change with this detail.
func change(detail string) string {
	return `{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":` + detail + `}`
}

// withID returns a state change of an instance with this id.
func withID(id string) string {
	quoted, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	return change(`{"instance-id":` + string(quoted) + `,"state":"running"}`)
}

// inSNS returns an SNS envelope around message.
func inSNS(message string) string {
	quoted, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	return `{"Type":"Notification","Message":` + string(quoted) + `}`
}

// noise returns random bytes, the same at each call.
func noise(size int) string {
	random := rand.NewChaCha8([32]byte{1})
	bytes := make([]byte, size)
	_, _ = random.Read(bytes) // never fails
	return string(bytes)
}

var running = change(`{"instance-id":"i-abcd1111","state":"running"}`)

// malformedBodies are bodies that cannot be understood, with a part of the
// reason.
func malformedBodies() map[string][2]string {
	const autoScaling = `{"Service":"AWS Auto Scaling","LifecycleTransition":`
	const launch = `{"source":"aws.autoscaling","detail-type":"EC2 Instance-launch Lifecycle Action","detail":`
	return map[string][2]string{
		"empty":                     {"", "empty"},
		"white space":               {" \r\n\t", "empty"},
		"byte order mark alone":     {"\ufeff", "empty"},
		"two byte order marks":      {"\ufeff\ufeff" + running, "no JSON"},
		"UTF-16":                    {"\xff\xfe{\x00}\x00", "no JSON"},
		"prose":                     {"hello", "no JSON"},
		"noise":                     {noise(1 << 18), "no JSON"},
		"NUL bytes":                 {strings.Repeat("\x00", 1<<18), "no JSON"},
		"base64":                    {base64.StdEncoding.EncodeToString([]byte(running)), "no JSON"},
		"XML":                       {"<Message/>", "no JSON"},
		"form":                      {"Action=SendMessage&MessageBody=x", "no JSON"},
		"cut short":                 {running[:len(running)-1], "no JSON"},
		"something after it":        {running + "x", "no JSON"},
		"two events":                {running + running, "no JSON"},
		"single quotes":             {strings.ReplaceAll(running, `"`, `'`), "no JSON"},
		"nested too deep":           {strings.Repeat(`{"a":`, 1<<15), "no JSON"},
		"array":                     {"[" + running + "]", "a JSON array"},
		"empty array":               {"[]", "a JSON array"},
		"deep arrays":               {strings.Repeat("[", 1<<17) + strings.Repeat("]", 1<<17), "no JSON"},
		"null":                      {"null", "a JSON null"},
		"number":                    {"42", "a JSON number"},
		"true":                      {"true", "a JSON bool"},
		"event in a string":         {`"{\"source\":\"aws.ec2\"}"`, "a JSON string"},
		"empty object":              {"{}", "no event"},
		"object of something else":  {`{"hello":"world"}`, "no event"},
		"keys of another case":      {strings.Replace(running, `"detail-type"`, `"Detail-Type"`, 1), "detail-type"},
		"source missing":            {`{"detail-type":"x","detail":{}}`, "source"},
		"source empty":              {`{"source":"","detail-type":"x","detail":{}}`, "source"},
		"source no string":          {`{"source":["aws.ec2"],"detail-type":"x","detail":{}}`, "source"},
		"detail type missing":       {`{"source":"aws.ec2","detail":{}}`, "detail-type"},
		"detail type null":          {`{"source":"aws.ec2","detail-type":null,"detail":{}}`, "detail-type"},
		"no detail":                 {`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification"}`, "detail object"},
		"no detail of another kind": {`{"source":"aws.s3","detail-type":"Object Created"}`, "detail object"},
		"detail null":               {change("null"), "detail object"},
		"detail array":              {change("[]"), "detail object"},
		"detail string":             {change(`"running"`), "detail object"},
		"detail empty":              {change("{}"), "without a state"},
		"state missing":             {change(`{"instance-id":"i-abcd1111"}`), "without a state"},
		"state empty":               {change(`{"instance-id":"i-abcd1111","state":""}`), "without a state"},
		"state blank":               {change(`{"instance-id":"i-abcd1111","state":" "}`), "without a state"},
		"state null":                {change(`{"instance-id":"i-abcd1111","state":null}`), "without a state"},
		"state number":              {change(`{"instance-id":"i-abcd1111","state":16}`), "without a state"},
		"state object":              {change(`{"instance-id":"i-abcd1111","state":{"name":"running"}}`), "without a state"},
		"state of another case":     {change(`{"instance-id":"i-abcd1111","State":"running"}`), "without a state"},
		"id missing":                {change(`{"state":"running"}`), "no instance-id"},
		"id null":                   {change(`{"instance-id":null,"state":"running"}`), "no instance-id"},
		"id number":                 {change(`{"instance-id":7,"state":"running"}`), "no instance-id"},
		"id array":                  {change(`{"instance-id":["i-abcd1111"],"state":"running"}`), "no instance-id"},
		"id only in the ARN": {
			strings.Replace(change(`{"state":"running"}`), "{",
				`{"resources":["arn:aws:ec2:us-east-1:1:instance/i-abcd1111"],`, 1), "no instance-id",
		},
		"id empty":                       {withID(""), `""`},
		"id path":                        {withID("../../i-abcd1111"), "../../i-abcd1111"},
		"id in a path":                   {withID("i-abcd1111/../secrets"), "no EC2 instance id"},
		"id list":                        {withID("i-abcd1111,i-abcd2222"), "no EC2 instance id"},
		"id label syntax":                {withID("i-abcd1111,app!=x"), "no EC2 instance id"},
		"id label set":                   {withID("in (i-abcd1111)"), "no EC2 instance id"},
		"id upper case":                  {withID("I-ABCD1111"), "no EC2 instance id"},
		"id with line break":             {withID("i-abcd1111\n"), `i-abcd1111\n`},
		"id with NUL":                    {withID("i-abcd1111\x00"), "no EC2 instance id"},
		"id of an unknown state's event": {change(`{"instance-id":"x","state":"hibernating"}`), "no EC2 instance id"},
		"id of 256 KiB":                  {withID(strings.Repeat("\U0010ffff", 1<<16)), "no EC2 instance id"},
		"id that begins well":            {withID("i-0123456789abcdef0" + strings.Repeat("0", 1<<10)), "no EC2 instance id"},
		"launch without id":              {launch + `{}}`, "no EC2InstanceId"},
		"launch of a bad id":             {launch + `{"EC2InstanceId":"x"}}`, "no EC2 instance id"},
		"launch without detail":          {launch + `""}`, "detail object"},
		"direct launch without id":       {autoScaling + `"autoscaling:EC2_INSTANCE_LAUNCHING"}`, "no EC2InstanceId"},
		"direct launch of a bad id":      {autoScaling + `"autoscaling:EC2_INSTANCE_LAUNCHING","EC2InstanceId":"i-1"}`, "no EC2 instance id"},
		"direct, transition empty":       {autoScaling + `""}`, "LifecycleTransition"},
		"direct, transition no string":   {autoScaling + `{}}`, "LifecycleTransition"},
		"direct, transition of a stranger": {
			autoScaling + `"` + strings.Repeat("x", 1<<18) + `"}`, "LifecycleTransition",
		},
		"direct, event of a stranger":     {`{"Event":"s3:TestEvent","Service":"Amazon S3"}`, "s3:TestEvent"},
		"envelope, message no string":     {`{"Type":"Notification","Message":` + running + `}`, "no string"},
		"envelope, message null":          {`{"Type":"Notification","Message":null}`, "no string"},
		"envelope, message empty":         {inSNS(""), "in the SNS envelope: empty"},
		"envelope, message prose":         {inSNS("hello"), "in the SNS envelope: no JSON"},
		"envelope, message array":         {inSNS("[]"), "in the SNS envelope: a JSON array"},
		"envelope, message base64":        {inSNS("eyJ9"), "in the SNS envelope: no JSON"},
		"envelope, message no event":      {inSNS("{}"), "no event"},
		"envelope, message missing":       {`{"Type":"Notification","MessageId":"x"}`, "no event"},
		"envelope, key of another case":   {strings.Replace(inSNS(running), `"Message"`, `"message"`, 1), "no event"},
		"envelope in an envelope":         {inSNS(inSNS(running)), "envelope in an SNS envelope"},
		"envelope of an unknown type":     {strings.Replace(inSNS(running), "Notification", "Strange\\n", 1), `"Strange\n"`},
		"envelope, bad event within":      {inSNS(change("{}")), "without a state"},
		"envelope, string within strings": {inSNS(`"` + inSNS("x") + `"`), "no JSON"},
	}
}

func TestParseMalformed(t *testing.T) {
	t.Parallel()
	for name, body := range malformedBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := Parse([]byte(body[0]))
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("Parse = %+v, %v; want ErrMalformed", e, err)
			}
			if e != (Event{}) {
				t.Errorf("an event beside the error: %+v", e)
			}
			if !strings.Contains(err.Error(), body[1]) {
				t.Errorf("error %q does not say %q", err, body[1])
			}
			checkError(t, err)
		})
	}
}

// checkError checks what is true of every error of Parse.
func checkError(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("error %q is no ErrMalformed", text)
	}
	if len(text) > 512 {
		t.Errorf("error of %d bytes: %.80q…", len(text), text)
	}
	if strings.Count(text, ErrMalformed.Error()) != 1 {
		t.Errorf("error %q says twice that it is malformed", text)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("error %q is no line of text", text)
	}
}

func TestParseStates(t *testing.T) {
	t.Parallel()
	for _, state := range []instance.State{
		instance.Pending, instance.Running, instance.Stopping, instance.Stopped, instance.ShuttingDown, instance.Terminated,
	} {
		body := change(fmt.Sprintf(`{"instance-id":"i-abcd1111","state":%q}`, state))
		for shape, body := range map[string]string{"raw": body, "SNS": inSNS(body)} {
			e, err := Parse([]byte(body))
			if err != nil || e.Kind != KindStateChange || e.InstanceID != "i-abcd1111" || e.State != state {
				t.Errorf("%s, %s: %+v, %v", state, shape, e, err)
			}
		}
	}
}

func TestParseUnknownStatesAreOther(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"ing", "run", "Running", "RUNNING", "running ", "hibernating", "running,pending", "状態"} {
		e, err := Parse([]byte(change(fmt.Sprintf(`{"instance-id":"i-abcd1111","state":%q}`, word))))
		if err != nil || e.Kind != KindOther || e.InstanceID != "" || e.State != "" {
			t.Errorf("%q: %+v, %v", word, e, err)
		}
	}
}

func TestParseTolerates(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := map[string]string{
		"byte order mark":             "\ufeff" + running,
		"byte order mark in SNS":      inSNS("\ufeff" + running),
		"white space":                 "\r\n\t " + running + "\n",
		"SNS without Type":            strings.Replace(inSNS(running), `"Type":"Notification",`, "", 1),
		"SNS with an unknown field":   strings.Replace(inSNS(running), "{", `{"source":"x",`, 1),
		"a Message beside the detail": strings.Replace(running, "{", `{"Message":"x",`, 1),
		"unknown fields":              strings.Replace(running, "{", `{"version":7,"resources":null,"x":`+deep+`,`, 1),
		"escapes":                     strings.Replace(running, `"state":"running"`, `"st\u0061te":"\u0072unning"`, 1),
		"keys of another case beside": change(`{"State":"terminated","instance-id":"i-abcd1111","state":"running","STATE":"x","Instance-Id":"y"}`),
		"the last of equal keys counts": change(
			`{"state":"terminated","instance-id":"i-00000000","state":"running","instance-id":"i-abcd1111"}`),
		"frame of another case beside": strings.Replace(running, `"detail":`, `"Detail":{},"Source":"x","DETAIL-TYPE":1,"detail":`, 1),
		"id, time of the wrong kind":   strings.Replace(running, "{", `{"id":7,"time":1700000000,`, 1),
		"time that is none":            strings.Replace(running, "{", `{"time":"yesterday",`, 1),
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			want := Event{
				Kind: KindStateChange, Source: "aws.ec2", DetailType: "EC2 Instance State-change Notification",
				InstanceID: "i-abcd1111", State: instance.Running,
			}
			if got != want {
				t.Errorf("Parse:\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestParseTimeIsUTC(t *testing.T) {
	t.Parallel()
	e, err := Parse([]byte(strings.Replace(running, "{", `{"time":"2026-11-30T07:00:00.5+01:00",`, 1)))
	want := time.Date(2026, 11, 30, 6, 0, 0, 500_000_000, time.UTC)
	if err != nil || e.Time != want {
		t.Errorf("time %v, %v; want %v", e.Time, err, want)
	}
}

func TestParseBoundsWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1<<16)
	body := fmt.Sprintf(`{"id":%q,"source":%q,"detail-type":%q,"time":%q,"detail":{}}`, long, long, long, long)
	e, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{e.ID, e.Source, e.DetailType} {
		if len(word) != maxWord || !strings.HasPrefix(long, word) {
			t.Errorf("a word of %d bytes: %.40q…", len(word), word)
		}
	}
}

// TestParseLargeBodiesIsCheap gives the parser the largest messages SQS has,
// made to be dear. The limit is hundreds of times what they cost, so that only
// another order of growth fails it.
func TestParseLargeBodiesIsCheap(t *testing.T) {
	t.Parallel()
	for name, body := range largeBodies() {
		start := time.Now()
		_, _ = Parse([]byte(body)) // only the time counts
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(body))
		}
	}
}

// largeBodies are of 256 KiB, which is SQS's limit.
func largeBodies() map[string]string {
	const size = 1 << 18
	var distinct strings.Builder
	for i := 0; distinct.Len() < size; i++ {
		fmt.Fprintf(&distinct, `"%x":0,`, i)
	}
	half := strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + ","
	fill := func(field string) string { return strings.Repeat(field, size/len(field)) }
	return map[string]string{
		"noise":           noise(size),
		"equal keys":      "{" + fill(`"a":0,`) + running[1:],
		"distinct keys":   "{" + distinct.String() + running[1:],
		"deep":            strings.Replace(running, "{", `{"x":[`+strings.TrimSuffix(fill(half), ",")+"],", 1),
		"too deep":        fill(`{"a":`),
		"escapes":         inSNS(fill("\"\\\x01\u2028")),
		"long event":      strings.Replace(running, "{", `{"x":"`+fill("x")+`",`, 1),
		"long event, SNS": inSNS(strings.Replace(running, "{", `{"x":"`+fill("x")+`",`, 1)),
		"equal details":   "{" + fill(`"detail":{"state":"running"},`) + running[1:],
	}
}

func BenchmarkParse(b *testing.B) {
	bench := func(name, body string) {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(data) // the samples' own tests look at the answer
			}
		})
	}
	files := samples(b)
	for _, name := range []string{"raw-running.json", "sns-pending.json", "asg-launching.json"} {
		bench(name, string(files[name]))
	}
	for name, body := range largeBodies() {
		bench("256KiB "+name, body)
	}
}
