package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const exampleFile = "../../config.example.yaml"

// inPod is the environment that a pod's manifest gives.
var inPod = []string{"POD_NAMESPACE=dynk8s"}

func TestExampleLoads(t *testing.T) {
	t.Parallel()
	c, warnings, err := Load(exampleFile, nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings: %q", warnings)
	}
	if got := c.Profiles[0].Node.Labels["dynk8s.du5t1n.me/pool"]; got != "burst" {
		t.Errorf("label has the value %q", got)
	}
}

// What the example calls a default must be one.
func TestExampleDefaults(t *testing.T) {
	t.Parallel()
	var root yaml.Node
	if err := yaml.Unmarshal(readTestFile(t, exampleFile), &root); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(exampleFile, nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	eachLeaf(root.Content[0], "", func(path string, n *yaml.Node) {
		if !strings.HasPrefix(n.LineComment, "# default") {
			return
		}
		marked++
		if strings.HasPrefix(path, "profiles") {
			return // compared below
		}
		s := settingAt(path)
		if got, want := s.in(c), s.in(Defaults()); !same(got, want) {
			t.Errorf("%s is %v in the example, %v by default", path, got, want)
		}
	})
	if marked < 15 {
		t.Errorf("only %d defaults are marked", marked)
	}
	p, d := c.Profiles[0], profileDefaults()
	if p.BootstrapToken.TTL != d.BootstrapToken.TTL || p.BootstrapToken.Signing != d.BootstrapToken.Signing {
		t.Errorf("bootstrapToken is %+v, by default %+v", p.BootstrapToken, d.BootstrapToken)
	}
	left := p
	left.BootstrapToken.ExtraGroups = nil
	if got := c.TokenGroups(left); !slices.Equal(got, p.BootstrapToken.ExtraGroups) {
		t.Errorf("the groups are %v when they are left out", got)
	}
	if p.Node.NameTemplate != d.Node.NameTemplate || p.Node.CRISocket != d.Node.CRISocket {
		t.Errorf("node is %+v, by default %+v", p.Node, d.Node)
	}
}

func TestExampleHasEveryField(t *testing.T) {
	t.Parallel()
	var root yaml.Node
	if err := yaml.Unmarshal(readTestFile(t, exampleFile), &root); err != nil {
		t.Fatal(err)
	}
	var found []string
	eachLeaf(root.Content[0], "", func(path string, _ *yaml.Node) { found = append(found, path) })
	for _, path := range fieldPaths(reflect.TypeFor[Config](), "") {
		if !slices.Contains(found, path) {
			t.Errorf("config.example.yaml does not show %s", path)
		}
	}
}

func TestDocumentationHasEveryField(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:`(.*?)`|(\\w*)) ?\\|").
		FindAllStringSubmatch(string(readTestFile(t, "../../docs/configuration.md")), -1)
	documented := map[string]string{}
	for _, row := range rows {
		documented[row[1]] = row[2]
	}
	paths := fieldPaths(reflect.TypeFor[Config](), "")
	for _, path := range paths {
		if _, ok := documented[path]; !ok {
			t.Errorf("docs/configuration.md does not describe %s", path)
		}
	}
	for path, text := range documented {
		if strings.HasPrefix(path, "--") {
			continue
		}
		if !slices.Contains(paths, path) {
			t.Errorf("docs/configuration.md describes %s, which does not exist", path)
			continue
		}
		if strings.HasPrefix(path, "profiles") || text == "" {
			continue
		}
		s := settingAt(path)
		want := reflect.New(s.in(Defaults()).Type()).Elem()
		if err := setText(want, text); err != nil || !reflect.DeepEqual(want.Interface(), s.in(Defaults()).Interface()) {
			t.Errorf("docs/configuration.md gives %q as default of %s (%v)", text, path, err)
		}
	}
}

func TestDocumentationHasEveryFlag(t *testing.T) {
	t.Parallel()
	doc := string(readTestFile(t, "../../docs/configuration.md"))
	for _, f := range append([]flag{identityFlag}, textFlags...) {
		if !strings.Contains(doc, "| `--"+f.name+"` | `"+f.path+"` |") {
			t.Errorf("docs/configuration.md has no row for --%s", f.name)
		}
	}
}

// fieldPaths returns the paths of all fields that are values.
func fieldPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for f := range t.Fields() {
		path := prefix + fieldName(f)
		switch {
		case f.Type.Kind() == reflect.Struct:
			paths = append(paths, fieldPaths(f.Type, path+".")...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, fieldPaths(f.Type.Elem(), path+"[].")...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

// eachLeaf visits fields of a file with paths as fieldPaths makes them: lists
// of texts and maps of labels count as values.
func eachLeaf(n *yaml.Node, path string, visit func(string, *yaml.Node)) {
	visit(path, n)
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			at := join(path, n.Content[i].Value)
			// A comment behind the key of a block is the key's.
			if c := n.Content[i].LineComment; c != "" {
				n.Content[i+1].LineComment = c
			}
			eachLeaf(n.Content[i+1], at, visit)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			eachLeaf(item, path+"[]", visit)
		}
	}
}

func readTestFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
