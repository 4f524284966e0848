package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// providerSchema is what schema.py writes, in the form of `tofu providers schema
// -json`.
type providerSchema struct {
	Provider  schema            `json:"provider"`
	Resources map[string]schema `json:"resource_schemas"`
	Data      map[string]schema `json:"data_source_schemas"`
}

type schema struct {
	Version int64 `json:"version"`
	Block   block `json:"block"`
}

type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]nested    `json:"block_types"`
}

type attribute struct {
	Type     json.RawMessage `json:"type"`
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

type nested struct {
	Mode  string `json:"nesting_mode"`
	Block block  `json:"block"`
	Min   int64  `json:"min_items"`
	Max   int64  `json:"max_items"`
}

var modes = map[string]tfprotov6.SchemaNestedBlockNestingMode{
	"list":   tfprotov6.SchemaNestedBlockNestingModeList,
	"set":    tfprotov6.SchemaNestedBlockNestingModeSet,
	"single": tfprotov6.SchemaNestedBlockNestingModeSingle,
}

func (s schema) protocol() (*tfprotov6.Schema, error) {
	b, err := s.Block.protocol()
	return &tfprotov6.Schema{Version: s.Version, Block: b}, err
}

func (b block) protocol() (*tfprotov6.SchemaBlock, error) {
	out := &tfprotov6.SchemaBlock{}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		a := b.Attributes[name]
		t, err := tftypes.ParseJSONType(a.Type) //nolint:staticcheck // deprecated for providers, who should not read schemas
		if err != nil {
			return nil, fmt.Errorf("type of %s: %w", name, err)
		}
		out.Attributes = append(out.Attributes, &tfprotov6.SchemaAttribute{
			Name: name, Type: t, Required: a.Required, Optional: a.Optional, Computed: a.Computed,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		n := b.Blocks[name]
		inner, err := n.Block.protocol()
		if err != nil {
			return nil, fmt.Errorf("in %s: %w", name, err)
		}
		out.BlockTypes = append(out.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name, Nesting: modes[n.Mode], MinItems: n.Min, MaxItems: n.Max, Block: inner,
		})
	}
	return out, nil
}

func protocolAll(all map[string]schema) (map[string]*tfprotov6.Schema, error) {
	out := map[string]*tfprotov6.Schema{}
	for name, s := range all {
		converted, err := s.protocol()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = converted
	}
	return out, nil
}
