package config

import (
	"reflect"
	"strings"
)

// envPrefix begins the name of every environment variable that is ours.
const envPrefix = "DYNK8S_"

// setting is a field of Config that environment and flags can set: all but
// those of profiles, which have no fixed paths.
type setting struct {
	// path is the place in the file, such as queue.visibilityTimeout.
	path string
	// index finds the field in a Config, for reflect.
	index []int
}

// settings are all there are, in the order of Config's fields.
var settings = collectSettings(reflect.TypeFor[Config](), "", nil)

func collectSettings(t reflect.Type, prefix string, index []int) []setting {
	var all []setting
	for f := range t.Fields() {
		path, at := prefix+fieldName(f), append(index[:len(index):len(index)], f.Index...)
		switch {
		case f.Type.Kind() == reflect.Struct:
			all = append(all, collectSettings(f.Type, path+".", at)...)
		case f.Type != reflect.TypeFor[[]Profile]():
			all = append(all, setting{path: path, index: at})
		}
	}
	return all
}

// in returns the setting's field in c.
func (s setting) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(s.index) }

// env is the environment variable that sets it.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.path, ".", "_"))
}

// fieldName is a field's name in the file.
func fieldName(f reflect.StructField) string { return f.Tag.Get("yaml") }

// fieldNames are the names that the file may use where a struct of type t is.
func fieldNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		names = append(names, fieldName(f))
	}
	return names
}
