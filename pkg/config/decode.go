package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is what a file says.
type document struct {
	Config
	// written holds the paths of the settings that the file has.
	written map[string]bool
}

// decoder walks the file's YAML along Config's fields.
//
// The walk is our own because strictness is the point of it: every unknown or
// double field is named by its path, all of them at once. And it sees scalars
// as they were written: an account id 012345678901 is an octal number to a
// YAML decoder, a tag value 1.10 is 1.1, and keys of maps lose their case in
// viper.
type decoder struct {
	document
	problems problems
}

func decode(data []byte) (document, problems) {
	d := decoder{document: document{written: map[string]bool{}}}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		d.problems.addf("", "%s", err)
	case root != nil:
		d.value(root, reflect.ValueOf(&d.Config).Elem(), "")
	}
	return d.document, d.problems
}

// parseYAML returns the only document's root, nil when there is none.
func parseYAML(data []byte) (*yaml.Node, error) {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || len(doc.Content) == 0 && err == nil {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document: want one, without a line ---")
	}
	return doc.Content[0], nil
}

// value decodes n into v. What is null or without value is as if it was not
// there.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.addf(n, path, "anchors and aliases (*%s) are not supported: write the value out", clip(n.Value))
	case n.ShortTag() == "!!null":
	case v.Kind() == reflect.Struct:
		d.mapping(n, path, func(key, value *yaml.Node) { d.field(key, value, v, path) })
	case v.Kind() == reflect.Map:
		d.stringMap(n, v, path)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path)
	case n.Kind != yaml.ScalarNode:
		d.addf(n, path, "is a %s: want a single value", kindName(n))
	default:
		d.written[path] = true
		if err := setText(v, n.Value); err != nil {
			d.addf(n, path, "%s", err)
		}
	}
}

// field decodes one entry of a mapping into the field of v it names.
func (d *decoder) field(key, value *yaml.Node, v reflect.Value, path string) {
	name := key.Value
	for f := range v.Type().Fields() {
		if fieldName(f) == name {
			d.value(value, v.FieldByIndex(f.Index), join(path, name))
			return
		}
	}
	names := fieldNames(v.Type())
	mend := "known here: " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		mend = fmt.Sprintf("did you mean %s?", near)
	} else if other := elsewhere(name); other != "" {
		mend = fmt.Sprintf("did you mean %s?", other)
	}
	d.addf(key, join(path, clip(name)), "unknown field: %s", mend)
}

// stringMap decodes a map whose keys the operator chooses, such as labels.
func (d *decoder) stringMap(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.mapping(n, path, func(key, value *yaml.Node) {
		text := reflect.New(v.Type().Elem()).Elem()
		d.value(value, text, path+"["+clip(key.Value)+"]")
		v.SetMapIndex(reflect.ValueOf(key.Value), text)
	})
}

// mapping calls each for the entries of n, once a key.
func (d *decoder) mapping(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.addf(n, path, "is a %s: want fields and values", kindName(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.addf(key, path, "has a %s for a field's name", kindName(key))
		case seen[key.Value]:
			d.addf(key, join(path, clip(key.Value)), "is written twice")
		default:
			seen[key.Value] = true
			each(key, n.Content[i+1])
		}
	}
}

// list decodes a list into a slice of its own.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.addf(n, path, "is a %s: want a list", kindName(n))
		return
	}
	d.written[path] = true
	items := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, node := range n.Content {
		item, at := reflect.New(v.Type().Elem()).Elem(), fmt.Sprintf("%s[%d]", path, i)
		if item.Type() == reflect.TypeFor[Profile]() {
			item.Set(reflect.ValueOf(profileDefaults()))
		}
		if node.ShortTag() == "!!null" {
			d.addf(node, at, "is empty")
		}
		d.value(node, item, at)
		items = reflect.Append(items, item)
	}
	v.Set(items)
}

func (d *decoder) addf(n *yaml.Node, path, format string, args ...any) {
	d.problems.addf(path, "%s (line %d)", fmt.Sprintf(format, args...), n.Line)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	case yaml.AliasNode:
		return "alias"
	default:
		return "single value"
	}
}
