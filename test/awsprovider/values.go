package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// account is the one that the local AWS stand-ins play, so that planned ARNs are
// those that they will give.
const account = "000000000000"

// place is where resources are planned.
type place struct{ region, partition, suffix string }

func placeOf(region string) place {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return place{region, "aws-cn", "amazonaws.com.cn"}
	case strings.HasPrefix(region, "us-gov-"):
		return place{region, "aws-us-gov", "amazonaws.com"}
	}
	return place{region, "aws", "amazonaws.com"}
}

func (p place) arn(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", p.partition, service, p.region, account, resource)
}

func (p place) iam(resource string) string {
	return fmt.Sprintf("arn:%s:iam::%s:%s", p.partition, account, resource)
}

// resource returns what AWS would choose itself for a resource: only what is the
// same at every plan, all else stays unknown until apply.
func (p place) resource(kind string, v map[string]tftypes.Value) map[string]any {
	name := text(v["name"])
	digest := sha256.Sum256([]byte(kind + name + text(v["user"])))
	id := hex.EncodeToString(digest[:])[:17]
	uuid := fmt.Sprintf("%s-%s-%s-%s-%s", id[:8], id[8:12], id[12:16], id[:4], id[4:16])
	switch kind {
	case "aws_sqs_queue":
		url := fmt.Sprintf("https://sqs.%s.%s/%s/%s", p.region, p.suffix, account, name)
		return map[string]any{"arn": p.arn("sqs", name), "id": url, "url": url}
	case "aws_sns_topic":
		return map[string]any{"arn": p.arn("sns", name), "id": p.arn("sns", name)}
	case "aws_cloudwatch_event_rule":
		return map[string]any{"arn": p.arn("events", "rule/"+name), "id": name}
	case "aws_autoscaling_group":
		return map[string]any{"arn": p.arn("autoscaling", "autoScalingGroup:"+uuid+":autoScalingGroupName/"+name), "id": name}
	case "aws_launch_template":
		return map[string]any{"id": "lt-" + id, "latest_version": 1, "arn": p.arn("ec2", "launch-template/lt-"+id)}
	case "aws_security_group":
		return map[string]any{"id": "sg-" + id, "arn": p.arn("ec2", "security-group/sg-"+id)}
	case "aws_rolesanywhere_trust_anchor":
		return map[string]any{"id": uuid, "arn": p.arn("rolesanywhere", "trust-anchor/"+uuid)}
	case "aws_rolesanywhere_profile":
		return map[string]any{"id": uuid, "arn": p.arn("rolesanywhere", "profile/"+uuid)}
	case "aws_iam_policy", "aws_iam_role", "aws_iam_user":
		return map[string]any{"id": name, "arn": p.iam(strings.TrimPrefix(kind, "aws_iam_") + "/" + name)}
	case "aws_iam_openid_connect_provider":
		return map[string]any{"arn": p.iam("oidc-provider/" + strings.TrimPrefix(text(v["url"]), "https://"))}
	case "aws_iam_access_key":
		return map[string]any{"id": "AKIA" + strings.ToUpper(id[:16])}
	}
	return nil
}

// data returns what AWS would answer.
func (p place) data(kind string, v map[string]tftypes.Value) map[string]any {
	switch kind {
	case "aws_partition":
		return map[string]any{"id": p.partition, "partition": p.partition, "dns_suffix": p.suffix}
	case "aws_region":
		return map[string]any{"id": p.region, "region": p.region, "name": p.region}
	case "aws_caller_identity":
		return map[string]any{"id": account, "account_id": account}
	case "aws_subnet":
		// Subnets whose ids begin with one digit are of one VPC.
		first, _ := strings.CutPrefix(text(v["id"]), "subnet-")
		return map[string]any{"vpc_id": "vpc-" + strings.Repeat(first[:min(1, len(first))], 17)}
	case "aws_ami":
		return map[string]any{"id": "ami-0123456789abcdef0", "root_device_name": "/dev/sda1"}
	}
	return nil
}

// fill sets the attributes that nobody wrote and the provider computes: to what
// is chosen, else to unknown in a plan and to null in data.
func fill(b *tfprotov6.SchemaBlock, values map[string]tftypes.Value, chosen map[string]any, unknown bool) {
	for _, a := range b.Attributes {
		if !a.Computed || !values[a.Name].IsNull() {
			continue
		}
		if v, ok := chosen[a.Name]; ok {
			values[a.Name] = tftypes.NewValue(a.Type, v)
		} else if unknown {
			values[a.Name] = tftypes.NewValue(a.Type, tftypes.UnknownValue)
		}
	}
	for _, n := range b.BlockTypes {
		if unknown {
			values[n.TypeName] = fillBlocks(n, values[n.TypeName])
		}
	}
}

// fillBlocks does the same in nested blocks, of which nothing is chosen.
func fillBlocks(n *tfprotov6.SchemaNestedBlock, v tftypes.Value) tftypes.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	if n.Nesting == tfprotov6.SchemaNestedBlockNestingModeSingle {
		return fillBlock(n.Block, v)
	}
	var list []tftypes.Value
	if v.As(&list) != nil {
		return v
	}
	for i := range list {
		list[i] = fillBlock(n.Block, list[i])
	}
	return tftypes.NewValue(v.Type(), list)
}

func fillBlock(b *tfprotov6.SchemaBlock, v tftypes.Value) tftypes.Value {
	inner := map[string]tftypes.Value{}
	if v.IsNull() || !v.IsKnown() || v.As(&inner) != nil {
		return v
	}
	fill(b, inner, nil, true)
	return tftypes.NewValue(v.Type(), inner)
}

// text is a string's value, "" when it is null or unknown.
func text(v tftypes.Value) string {
	var s string
	if v.IsKnown() && !v.IsNull() && v.Type() != nil && v.Type().Is(tftypes.String) && v.As(&s) != nil {
		return ""
	}
	return s
}
