//go:build linux

package terraform

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README's tables are what the module says; -update writes them.
func TestReadmeTables(t *testing.T) {
	t.Parallel()
	file := filepath.Join(where.root, "terraform", "README.md")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(content)
	for name, table := range map[string]string{"inputs": inputTable(t), "outputs": outputTable(t)} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(want, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("the README has no place for the %s", name)
		}
		want = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(content) {
		t.Error("the README's tables are not what the module has: go test ./terraform -run Readme -update")
	}
}

func inputTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| input | default | meaning |\n|---|---|---|\n")
	for _, v := range variables(t) {
		fallback := "required"
		if v.fallback != "" {
			fallback = "`" + v.fallback + "`"
		}
		if v.description == "" {
			t.Errorf("%s has no description", v.name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.name, fallback, v.description)
	}
	return b.String()
}

func outputTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| output | meaning |\n|---|---|\n")
	for _, v := range outputs(t) {
		if v.description == "" {
			t.Errorf("%s has no description", v.name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", v.name, v.description)
	}
	return b.String()
}
