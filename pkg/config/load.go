package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// maxFileSize is what a ConfigMap can hold.
const maxFileSize = 1 << 20

// Load reads the YAML file at path and puts environ (NAME=value, as
// os.Environ returns it) and the flags that were given over it. The flags are
// those of AddFlags; nil means none.
//
// The warnings are for the operator: the configuration is valid, but may not
// do what was meant. The error holds everything that is wrong, a line each,
// beginning with the field's path; with an error there is no Config.
func Load(path string, flags *pflag.FlagSet, environ []string) (*Config, []string, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	return load(path, data, flags, environ)
}

// load is Load for a file whose content is data.
func load(path string, data []byte, flags *pflag.FlagSet, environ []string) (*Config, []string, error) {
	c, warnings, err := sources{flags: flags, environ: environ, namespaceFile: podNamespaceFile}.parse(data)
	if err != nil {
		return nil, warnings, fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return c, warnings, nil
}

func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no configuration file is named")
	}
	// Opening a pipe would wait for somebody to write, for ever perhaps.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("configuration %s is no regular file", path)
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	case len(data) > maxFileSize:
		return nil, fmt.Errorf("configuration %s is larger than %d bytes", path, maxFileSize)
	}
	return data, nil
}

// sources is all that has a say beside the file.
type sources struct {
	flags         *pflag.FlagSet
	environ       []string
	namespaceFile string
}

// parse joins the file's content and the other sources, and checks the whole.
func (s sources) parse(data []byte) (*Config, []string, error) {
	file, found := decode(data)
	env := readEnvironment(s.environ)
	bound := boundFlags(s.flags)
	found = append(found, env.problems...)

	c := layered(file, env.values, bound)
	derive(c, env.others, s.namespaceFile)
	found = append(found, validate(c).without(found)...)

	err := found.err(func(path string) string { return origin(path, env.values, bound) })
	if err != nil {
		return nil, env.warnings, err
	}
	return c, append(env.warnings, doubts(c)...), nil
}

// origin says what set the setting at path: a flag, a variable, or "" for the
// file and the defaults.
func origin(path string, env map[string]any, flags map[string]*pflag.Flag) string {
	if f := flags[path]; f != nil && f.Changed {
		return "--" + f.Name
	}
	if _, set := env[path]; set {
		return settingAt(path).env()
	}
	return ""
}
