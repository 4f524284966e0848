package config

import "testing"

// Whatever the file's bytes, Load answers with a Config or an error, never
// both, and never panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add(readTestFile(f, exampleFile))
	for _, seed := range []string{
		"", "\x00", "\xef\xbb\xbfqueue: {}", "a: &a [*a]", "<<: *x", "? [a]\n: b", "!!binary x", "profiles: [[]]",
		"profiles: [{node: {nameTemplate: '{{range 99999999999}}{{end}}'}}]", "queue: {url: 'http://%zz'}",
		"profiles: [{node: {labels: {? {a: b} : c}}}]", "kubernetes: {qps: 1e999}", "queue: {waitTime: 9999999999h}",
		"- - - - - -", "--- a\n--- b", "%YAML 9.9\n---\na", "key: |\n\ttab",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := testSources("AWS_REGION=us-east-2").parse(data)
		if (c == nil) != (err != nil) {
			t.Errorf("got %v and %v", c, err)
		}
		if c == nil {
			return
		}
		for _, p := range c.Profiles {
			if _, err := p.InstanceSelector(); err != nil {
				t.Errorf("selector passed validation: %v", err)
			}
		}
	})
}
