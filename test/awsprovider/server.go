package main

import (
	"context"
	"errors"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// server answers what validating, planning and testing ask for. What else there
// is in the protocol is the embedded nil interface's, and never called.
type server struct {
	tfprotov6.ProviderServer
	provider        *tfprotov6.Schema
	resources, data map[string]*tfprotov6.Schema
	place           place
}

func newServer(described providerSchema) (*server, error) {
	s := &server{}
	var err error
	if s.provider, err = described.Provider.protocol(); err != nil {
		return nil, err
	}
	if s.resources, err = protocolAll(described.Resources); err != nil {
		return nil, err
	}
	s.data, err = protocolAll(described.Data)
	return s, err
}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	r := &tfprotov6.GetMetadataResponse{}
	for name := range s.resources {
		r.Resources = append(r.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range s.data {
		r.DataSources = append(r.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return r, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{Provider: s.provider, ResourceSchemas: s.resources, DataSourceSchemas: s.data}, nil
}

func (s *server) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

func (s *server) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

// ConfigureProvider takes the region from the configuration, else from the
// environment, as the real provider does.
func (s *server) ConfigureProvider(_ context.Context, r *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	config, err := attributes(r.Config, s.provider)
	if err != nil {
		return nil, err
	}
	region := text(config["region"])
	if region == "" {
		region = os.Getenv("AWS_REGION")
	}
	if region == "" {
		return nil, errors.New("the provider has no region: write one, or set AWS_REGION")
	}
	s.place = placeOf(region)
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *server) ReadDataSource(_ context.Context, r *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	schema := s.data[r.TypeName]
	values, err := attributes(r.Config, schema)
	if err != nil {
		return nil, err
	}
	fill(schema.Block, values, s.place.data(r.TypeName, values), false)
	state, err := encode(schema, values)
	return &tfprotov6.ReadDataSourceResponse{State: state}, err
}

func (s *server) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	schema := s.resources[r.TypeName]
	values, err := attributes(r.ProposedNewState, schema)
	if err != nil {
		return nil, err
	}
	fill(schema.Block, values, s.place.resource(r.TypeName, values), true)
	state, err := encode(schema, values)
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: state}, err
}

// UpgradeResourceState is asked of this provider also for resources that a test
// has made up.
func (s *server) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	t := s.resources[r.TypeName].ValueType()
	v, err := r.RawState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(t, v)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (s *server) ApplyResourceChange(context.Context, *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return nil, errors.New("this stand-in for the AWS provider plans and creates nothing")
}

// attributes decodes a configuration or state.
func attributes(v *tfprotov6.DynamicValue, schema *tfprotov6.Schema) (map[string]tftypes.Value, error) {
	decoded, err := v.Unmarshal(schema.ValueType())
	if err != nil {
		return nil, err
	}
	values := map[string]tftypes.Value{}
	return values, decoded.As(&values)
}

func encode(schema *tfprotov6.Schema, values map[string]tftypes.Value) (*tfprotov6.DynamicValue, error) {
	t := schema.ValueType()
	v, err := tfprotov6.NewDynamicValue(t, tftypes.NewValue(t, values))
	return &v, err
}
