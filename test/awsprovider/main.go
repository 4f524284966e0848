// Command terraform-provider-aws stands in for Terraform's AWS provider. It
// serves the real provider's schema, which lies beside it, so that misspelt or
// missing arguments, wrong types and bad references are found; it plans, with
// names and ARNs as AWS would give them; and it never speaks to AWS nor creates
// anything.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-aws stand-in:", err)
		os.Exit(1)
	}
}

func run() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(program), "schema.json"))
	if err != nil {
		return err
	}
	var described providerSchema
	if err := json.Unmarshal(content, &described); err != nil {
		return fmt.Errorf("schema.json: %w", err)
	}
	s, err := newServer(described)
	if err != nil {
		return err
	}
	return tf6server.Serve("registry.opentofu.org/hashicorp/aws", func() tfprotov6.ProviderServer { return s })
}
