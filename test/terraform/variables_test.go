//go:build linux

package terraform

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// somePEM looks like a certificate to the module, which does not parse it.
const somePEM = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUA==\n-----END CERTIFICATE-----\n"

// variable is an input as its file says it.
type variable struct {
	name, description, fallback string
	messages                    []string // of its validations
}

var (
	blockStart    = regexp.MustCompile(`^(variable|output) "(\w+)" \{$`)
	descriptionOf = regexp.MustCompile(`^  description\s*= "(.*)"$`)
	defaultOf     = regexp.MustCompile(`^  default\s*= (.*)$`)
	messageOf     = regexp.MustCompile(`^    error_message\s*= "(.*)"$`)
)

// variables reads the module's inputs, in the order of the files.
func variables(t *testing.T) []variable {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(where.root, "terraform", "variables*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return blocks(t, files...)
}

// outputs reads the module's outputs.
func outputs(t *testing.T) []variable {
	t.Helper()
	return blocks(t, filepath.Join(where.root, "terraform", "outputs.tf"))
}

func blocks(t *testing.T, files ...string) []variable {
	t.Helper()
	slices.Sort(files)
	var found []variable
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSuffix(line, "\n")
			if m := blockStart.FindStringSubmatch(line); m != nil {
				found = append(found, variable{name: m[2]})
			}
			if len(found) == 0 {
				continue
			}
			last := &found[len(found)-1]
			if m := descriptionOf.FindStringSubmatch(line); m != nil {
				last.description = strings.ReplaceAll(m[1], `\"`, `"`)
			} else if m := defaultOf.FindStringSubmatch(line); m != nil {
				last.fallback = m[1]
			} else if m := messageOf.FindStringSubmatch(line); m != nil {
				last.messages = append(last.messages, strings.ReplaceAll(m[1], `\"`, `"`))
			}
		}
	}
	return found
}
