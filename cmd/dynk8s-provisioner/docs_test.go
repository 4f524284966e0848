package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test that the documents name must exist.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	const root = "../.."
	defined := map[string]bool{}
	definition := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range definition.FindAllSubmatch(content, -1) {
			defined[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	named := 0
	for _, document := range documents {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`").FindAllSubmatch(content, -1) {
			named++
			if !defined[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", document, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d tests are named", named)
	}
}
