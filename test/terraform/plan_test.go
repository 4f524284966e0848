//go:build linux

package terraform

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// plan is what `tofu show -json` says of a plan.
type plan struct {
	raw       string
	resources map[string]resource // by address within the example's module
	outputs   map[string]any
}

type resource struct {
	Address string         `json:"address"`
	Type    string         `json:"type"`
	Values  map[string]any `json:"values"`
}

type planModule struct {
	Resources []resource   `json:"resources"`
	Children  []planModule `json:"child_modules"`
}

// inputs are values of variables.
type inputs map[string]any

// with returns the inputs with others over them.
func (in inputs) with(over inputs) inputs {
	all := maps.Clone(in)
	maps.Copy(all, over)
	return all
}

// least is what every example needs; the module needs leastOfModule.
var (
	least         = inputs{"endpoint": "https://join.example.org:8443", "subnet_ids": []string{"subnet-0123456789abcdef0"}}
	leastOfModule = least.with(inputs{"cluster": "home", "groups": inputs{"burst": inputs{"instance_types": []string{"t3.medium"}, "max_size": 3}}})
)

// planned plans an example.
func planned(t *testing.T, example string, in inputs) plan {
	t.Helper()
	return mustPlan(t, stack.Region, filepath.Join("examples", example), least.with(in))
}

// plannedModule plans the module itself, in a region.
func plannedModule(t *testing.T, region string, in inputs) plan {
	t.Helper()
	return mustPlan(t, region, ".", leastOfModule.with(in))
}

func mustPlan(t *testing.T, region, dir string, in inputs) plan {
	t.Helper()
	out, err := tryPlan(t, region, dir, in)
	if err != nil {
		t.Fatalf("%s: %v\n%s", dir, err, out)
	}
	return readPlan(t, out)
}

// tryPlan returns the plan in JSON, or what tofu says is wrong.
func tryPlan(t *testing.T, region, dir string, in inputs) (string, error) {
	t.Helper()
	scratch := t.TempDir()
	content, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	values, file := filepath.Join(scratch, "values.tfvars.json"), filepath.Join(scratch, "plan")
	if err := os.WriteFile(values, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := tofuIn(t.Context(), region, dir, "plan", "-no-color", "-compact-warnings", "-lock=false", "-input=false",
		"-state="+file+".tfstate", "-out="+file, "-var-file="+values)
	if err != nil {
		return out, err
	}
	return tofuIn(t.Context(), region, dir, "show", "-json", file)
}

func readPlan(t *testing.T, raw string) plan {
	t.Helper()
	var read struct {
		Planned struct {
			Root    planModule `json:"root_module"`
			Outputs map[string]struct {
				Value any `json:"value"`
			} `json:"outputs"`
		} `json:"planned_values"`
	}
	if err := json.Unmarshal([]byte(raw), &read); err != nil {
		t.Fatal(err)
	}
	p := plan{raw: raw, resources: map[string]resource{}, outputs: map[string]any{}}
	p.collect(read.Planned.Root)
	for name, output := range read.Planned.Outputs {
		p.outputs[name] = output.Value
	}
	return p
}

func (p plan) collect(m planModule) {
	for _, r := range m.Resources {
		p.resources[strings.TrimPrefix(r.Address, "module.dynk8s.")] = r
	}
	for _, child := range m.Children {
		p.collect(child)
	}
}

// get returns the values of a resource that must be there.
func (p plan) get(t *testing.T, address string) map[string]any {
	t.Helper()
	r, ok := p.resources[address]
	if !ok {
		t.Fatalf("the plan has no %s, but %v", address, slices.Sorted(maps.Keys(p.resources)))
	}
	return r.Values
}

// ofType returns the resources of a type, in the order of their addresses.
func (p plan) ofType(kind string) []resource {
	var found []resource
	for _, address := range slices.Sorted(maps.Keys(p.resources)) {
		if r := p.resources[address]; r.Type == kind {
			found = append(found, r)
		}
	}
	return found
}

// document decodes a value that is JSON, such as a policy.
func document(t *testing.T, value any) map[string]any {
	t.Helper()
	text, ok := value.(string)
	if !ok {
		t.Fatalf("the plan does not know the document: %v", value)
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// statement is one of a policy, with lists where a document may have one word.
type statement struct {
	effect             string
	actions, resources []string
	service, federated string // of the principal
	condition          map[string]map[string][]string
}

// statements reads a policy strictly: what this program does not know may grant
// what it does not see.
func statements(t *testing.T, policy any) []statement {
	t.Helper()
	doc := document(t, policy)
	if doc["Version"] != "2012-10-17" || len(doc) != 2 {
		t.Errorf("the policy has %v", slices.Sorted(maps.Keys(doc)))
	}
	var read []statement
	for _, item := range doc["Statement"].([]any) {
		s := statement{condition: map[string]map[string][]string{}}
		for key, value := range item.(map[string]any) {
			switch key {
			case "Sid":
			case "Effect":
				s.effect = value.(string)
			case "Action":
				s.actions = words(t, value)
			case "Resource":
				s.resources = words(t, value)
			case "Principal":
				for kind, who := range value.(map[string]any) {
					switch kind {
					case "Service":
						s.service = who.(string)
					case "Federated":
						s.federated = who.(string)
					default:
						t.Errorf("principal of the kind %s", kind)
					}
				}
			case "Condition":
				for operator, tests := range value.(map[string]any) {
					s.condition[operator] = map[string][]string{}
					for name, want := range tests.(map[string]any) {
						s.condition[operator][name] = words(t, want)
					}
				}
			default:
				t.Errorf("the statement has %s", key)
			}
		}
		read = append(read, s)
	}
	return read
}

func words(t *testing.T, value any) []string {
	t.Helper()
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			list = append(list, fmt.Sprint(item))
		}
		slices.Sort(list)
		return list
	}
	t.Errorf("neither a word nor a list: %v", value)
	return nil
}
