//go:build linux

package terraform

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// partitions are regions by their partitions, with what a plan there needs.
var partitions = map[string]struct{ region, suffix string }{
	"aws":        {"us-east-2", "amazonaws.com"},
	"aws-cn":     {"cn-northwest-1", "amazonaws.com.cn"},
	"aws-us-gov": {"us-gov-west-1", "amazonaws.com"},
}

// everythingIn plans the module with every event and two groups. Fedora's account
// is in one partition only.
func everythingIn(t *testing.T, region string) plan {
	t.Helper()
	return plannedModule(t, region, inputs{
		"name": "edge", "ami_owner": "self",
		"daemon_credentials": "oidc", "autoscaler_credentials": "oidc", "oidc": inputs{"issuer": "https://oidc.example.org/home"},
		"spot_events": true, "rebalance_events": true, "autoscaling_events": true, "health_events": true,
		"groups": inputs{
			"spot": inputs{"instance_types": []string{"m7i.large", "m6i.large"}, "max_size": 3, "spot": true},
			"arm":  inputs{"instance_types": []string{"t4g.medium"}, "max_size": 3, "architecture": "aarch64"},
		},
	})
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for partition, place := range partitions {
		t.Run(partition, func(t *testing.T) {
			t.Parallel()
			p := everythingIn(t, place.region)
			arn := func(service, name string) string {
				return "arn:" + partition + ":" + service + ":" + place.region + ":000000000000:" + name
			}
			rules := []string{}
			for _, kind := range []string{"autoscaling", "health", "rebalance", "spot", "state"} {
				rules = append(rules, arn("events", "rule/edge-"+kind))
			}
			is(t, "topic", statements(t, p.get(t, "aws_sns_topic_policy.events")["policy"]), []statement{{
				effect: "Allow", service: "events.amazonaws.com", actions: []string{"sns:Publish"}, resources: []string{arn("sns", "edge")},
				condition: map[string]map[string][]string{"ArnEquals": {"aws:SourceArn": rules}},
			}})
			is(t, "queue", statements(t, p.get(t, "aws_sqs_queue_policy.events")["policy"]), []statement{{
				effect: "Allow", service: "sns.amazonaws.com", actions: []string{"sqs:SendMessage"}, resources: []string{arn("sqs", "edge")},
				condition: map[string]map[string][]string{"ArnEquals": {"aws:SourceArn": {arn("sns", "edge")}}},
			}})
			daemonMay(t, p, arn("sqs", "edge"))
			autoscalerMay(t, p, partition, place.region)
			onlyPartition(t, p.raw, partition)
			if url := p.get(t, "aws_sqs_queue.events")["url"]; url != "https://sqs."+place.region+"."+place.suffix+"/000000000000/edge" {
				t.Errorf("the queue's URL is %v", url)
			}
		})
	}
}

func is(t *testing.T, what string, got, want []statement) {
	t.Helper()
	for i := range want {
		if want[i].condition == nil {
			want[i].condition = map[string]map[string][]string{}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the policy of the %s is\n%+v, want\n%+v", what, got, want)
	}
}

func daemonMay(t *testing.T, p plan, queue string) {
	t.Helper()
	is(t, "daemon", statements(t, p.get(t, "module.daemon.aws_iam_policy.this")["policy"]), []statement{
		{
			effect:    "Allow",
			actions:   []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"},
			resources: []string{queue},
		},
		{effect: "Allow", actions: []string{"ec2:DescribeInstances"}, resources: []string{"*"}},
	})
}

// autoscalerMay wants nothing changed but the module's own groups.
func autoscalerMay(t *testing.T, p plan, partition, region string) {
	t.Helper()
	all := statements(t, p.get(t, "module.autoscaler.aws_iam_policy.this")["policy"])
	if len(all) != 2 {
		t.Fatalf("it has %d statements", len(all))
	}
	look, scale := all[0], all[1]
	for _, action := range look.actions {
		if !regexp.MustCompile(`^(autoscaling|ec2):Describe[A-Z][A-Za-z]+$`).MatchString(action) {
			t.Errorf("on everything it may %s", action)
		}
	}
	if want := []string{"autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"}; !slices.Equal(scale.actions, want) {
		t.Errorf("on the groups it may %v, want %v", scale.actions, want)
	}
	var groups []string
	for _, g := range p.ofType("aws_autoscaling_group") {
		groups = append(groups, g.Values["arn"].(string))
		if !strings.HasPrefix(g.Values["arn"].(string), "arn:"+partition+":autoscaling:"+region+":") {
			t.Errorf("the group's ARN is %v", g.Values["arn"])
		}
	}
	slices.Sort(groups)
	if !slices.Equal(scale.resources, groups) || len(groups) != 2 {
		t.Errorf("it may scale %v, want %v", scale.resources, groups)
	}
}

func onlyPartition(t *testing.T, raw, partition string) {
	t.Helper()
	found := regexp.MustCompile(`arn:(aws[a-z-]*):`).FindAllStringSubmatch(raw, -1)
	if len(found) < 10 {
		t.Errorf("the plan has only %d ARNs", len(found))
	}
	for _, m := range found {
		if m[1] != partition {
			t.Fatalf("an ARN is of the partition %s", m[1])
		}
	}
}

// A role can be taken by the one service account or certificate only.
func TestTrust(t *testing.T) {
	t.Parallel()
	oidc := everythingIn(t, "us-gov-west-1")
	const provider, host = "arn:aws-us-gov:iam::000000000000:oidc-provider/oidc.example.org/home", "oidc.example.org/home"
	for who, account := range map[string]string{"daemon": "dynk8s:dynk8s-provisioner", "autoscaler": "kube-system:cluster-autoscaler"} {
		is(t, who+"'s trust", statements(t, oidc.get(t, "module."+who+".aws_iam_role.this[0]")["assume_role_policy"]), []statement{{
			effect: "Allow", federated: provider, actions: []string{"sts:AssumeRoleWithWebIdentity"},
			condition: map[string]map[string][]string{"StringEquals": {
				host + ":aud": {"sts.amazonaws.com"}, host + ":sub": {"system:serviceaccount:" + account},
			}},
		}})
	}

	anywhere := plannedModule(t, stack.Region, inputs{
		"daemon_credentials": "roles_anywhere", "autoscaler_credentials": "roles_anywhere", "roles_anywhere": inputs{"ca_certificate": somePEM},
	})
	anchor := anywhere.get(t, "aws_rolesanywhere_trust_anchor.ca[0]")["arn"].(string)
	for who, name := range map[string]string{"daemon": "dynk8s-provisioner", "autoscaler": "cluster-autoscaler"} {
		is(t, who+"'s trust", statements(t, anywhere.get(t, "module."+who+".aws_iam_role.this[0]")["assume_role_policy"]), []statement{{
			effect: "Allow", service: "rolesanywhere.amazonaws.com",
			actions: []string{"sts:AssumeRole", "sts:SetSourceIdentity", "sts:TagSession"},
			condition: map[string]map[string][]string{
				"ArnEquals":    {"aws:SourceArn": {anchor}},
				"StringEquals": {"aws:PrincipalTag/x509Subject/CN": {name}},
			},
		}})
		roles := anywhere.get(t, "module."+who+".aws_rolesanywhere_profile.this[0]")["role_arns"]
		if want := []any{"arn:aws:iam::000000000000:role/dynk8s-" + who}; !reflect.DeepEqual(roles, want) {
			t.Errorf("the profile of %s is for %v, want %v", who, roles, want)
		}
	}
}

// Nothing comes in: no rule of the security group lets it.
func TestNoInboundRule(t *testing.T) {
	t.Parallel()
	p := everythingIn(t, "us-east-2")
	for _, r := range p.resources {
		if strings.Contains(r.Type, "ingress") || r.Type == "aws_security_group_rule" {
			t.Errorf("the plan has %s", r.Address)
		}
	}
	for _, inline := range []string{"ingress", "egress"} { // unknown or absent: AWS's own, which is none
		if rules, ok := p.get(t, "aws_security_group.nodes")[inline].([]any); ok && len(rules) > 0 {
			t.Errorf("the security group has %s: %v", inline, rules)
		}
	}
	if n := len(p.ofType("aws_vpc_security_group_egress_rule")); n != 2 {
		t.Errorf("%d rules let something out, want 2", n)
	}
}
