//go:build linux

package terraform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// services is where the SDK has its clients, one package a service.
const services = "github.com/aws/aws-sdk-go-v2/service/"

// callsIn adds the IAM actions of all operations that code under a folder, tests
// and what is made for them aside, can ask for: each is asked for with the input
// type that is named after it.
func callsIn(folder string, found map[string]bool) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasSuffix(path, "test"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		clients := map[string]string{} // service by the name that the file gives its package
		for _, imported := range file.Imports {
			name, err := strconv.Unquote(imported.Path.Value)
			service, ours := strings.CutPrefix(name, services)
			if err != nil || !ours || strings.Contains(service, "/") { // types
				continue
			}
			local := service
			if imported.Name != nil {
				local = imported.Name.Name
			}
			clients[local] = service
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := selector.X.(*ast.Ident)
			if !ok || clients[pkg.Name] == "" {
				return true
			}
			if operation, isInput := strings.CutSuffix(selector.Sel.Name, "Input"); isInput {
				found[action(clients[pkg.Name], operation)] = true
			}
			return true
		})
		return nil
	})
}
