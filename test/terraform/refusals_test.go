//go:build linux

package terraform

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// one is a group with a change.
func one(change inputs) inputs {
	return inputs{"burst": inputs{"instance_types": []string{"t3.medium"}, "max_size": 3}.with(change)}
}

func taint(key, effect string) inputs { return inputs{"key": key, "effect": effect} }

// refusals are, by input, values that must be refused, each with words of the
// sentence that says what to write.
type refusals map[string][]struct {
	value any
	says  string
}

var wrong = refusals{
	"name": {
		{"", "write 2 to 24 lower-case letters"}, {"Dynk8s", "write 2 to 24 lower-case letters"}, {"a-", "write 2 to 24"},
		{strings.Repeat("a", 25), "write 2 to 24"}, {"1a", "beginning with a letter"}, {"a b", "write 2 to 24"},
	},
	"cluster": {
		{"", "write 1 to 63"}, {"home*", "write 1 to 63"}, {"Home", "write 1 to 63"}, {strings.Repeat("a", 64), "write 1 to 63"},
		{"enabled", "which Cluster Autoscaler's own tags use"}, {"node-template", "write another name"},
	},
	"tags": {
		{inputs{"a": strings.Repeat("x", 257)}, "that AWS refuses"}, {inputs{strings.Repeat("k", 129): ""}, "keys of 1 to 128"},
		{inputs{"aws:x": ""}, "begins with aws:"}, {inputs{"k8s.io/cluster-autoscaler/x": ""}, "leave it out"}, {inputs{"Name": "x"}, "or is Name"},
		{inputs{"dynk8s.du5t1n.me/cluster": "x"}, "leave it out"}, {inputs{"a!": "x"}, "that AWS refuses"}, {manyTags(), "write at most 20"},
	},
	"message_retention_seconds": {{3600, "write a whole number from 86400"}, {1209601, "to 1209600"}, {86400.5, "whole number"}},
	"max_receive_count":         {{19, "from 20"}, {1001, "to 1000"}, {20.5, "whole number"}},
	"oidc": {
		{inputs{"issuer": "http://oidc.example.org"}, "write an https URL"}, {inputs{"issuer": "https://oidc.example.org:6443"}, "without port"},
		{inputs{"issuer": "https://oidc.example.org/"}, "slash at its end"}, {inputs{"issuer": "https://Oidc.example.org"}, "lower-case host name"},
		{inputs{"issuer": "https://o.example.org", "audience": ""}, "write the audience"},
		{inputs{"issuer": "https://o.example.org", "provider_arn": "arn:aws:iam::1:role/x"}, "not the ARN of an OIDC provider"},
		{inputs{"issuer": "https://o.example.org", "daemon_service_account": "dynk8s:*"}, "without wildcards"},
		{inputs{"issuer": "https://o.example.org", "autoscaler_service_account": "system:serviceaccount:a:b"}, "not namespace:name"},
	},
	"roles_anywhere": {
		{inputs{"ca_certificate": "ca.pem"}, `write file("ca.pem")`},
		{inputs{"ca_certificate": somePEM + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}, "no private key"},
		{inputs{"ca_certificate": somePEM, "daemon_common_name": "*"}, "is not a common name"},
		{inputs{"ca_certificate": somePEM, "daemon_common_name": "a", "autoscaler_common_name": "a"}, "one common name for both"},
	},
	"helm_secret_name": {{"", "write a Secret's name"}, {"Aws", "write a Secret's name"}, {"a_b", "write a Secret's name"}},
	"endpoint": {
		{"", "write https://"}, {"http://join.example.org", "write https://"}, {"https://join.example.org/", "without a path"},
		{"https://join.example.org/x", "without a path"}, {"https://join.example.org:0", "a port"}, {"https://join.example.org:65536", "a port"},
		{"https://u:p@join.example.org", "write https://"}, {"https://join.example.org\nDYNK8S_CA_FILE=", "write https://"},
		{"https://$(reboot)", "write https://"}, {"https://[fd00::1", "write https://"}, {"https://[fd00::1]:70000", "a port"},
	},
	"endpoint_ca_certificate": {{"ca.pem", "is not PEM of certificates"}, {somePEM + "junk", "without text around"}, {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "without a private key"}},
	"wireguard_interface":     {{"", "up to 15"}, {"wg-is-far-too-long", "up to 15"}, {"wg 0", "up to 15"}, {"../x", "up to 15"}, {"lo", "up to 15"}, {"eth0", "write another"}, {"cali0", "write another"}},
	"wait_seconds":            {{599, "from 600"}, {86401, "to 86400"}, {600.5, "whole number"}},
	"kubernetes_version":      {{"1.34.2", "the minor version alone"}, {"v1.34", "minor version alone"}, {"1.28", "1.29 or later"}, {"2.10", "1.29 or later"}, {"1.34;", "quoted"}},
	"extra_commands":          {{[]string{""}, "write a shell command"}, {[]string{"  \n"}, "leave it out"}},
	"subnet_ids":              {{[]string{}, "is empty"}, {[]string{"vpc-0123456789abcdef0"}, "write ids such as"}, {[]string{"subnet-01234567", "subnet-01234567"}, "write each once"}},
	"extra_security_group_ids": {
		{[]string{"default"}, "no security group's id"}, {[]string{"sg-00000001", "sg-00000002", "sg-00000003", "sg-00000004", "sg-00000005"}, "more than four"},
	},
	"fedora_release":        {{40, "41 or later"}, {43.5, "whole number"}, {100, "41 or later"}},
	"ami_owner":             {{"amazon", "12 digits"}, {"12345678901", "12 digits"}, {"", "12 digits"}},
	"ssh_key_name":          {{"", "no key pair's name"}, {"ключ", "255 ASCII characters"}},
	"instance_profile_name": {{"arn:aws:iam::123456789012:instance-profile/x", "not the ARN"}, {"", "write the name"}},
	"volume_kms_key_arn":    {{"alias/ebs", "not the ARN of a KMS key"}, {"", "or null"}},
	"groups": {
		{inputs{}, "groups is empty"}, {inputs{"Burst": one(nil)["burst"]}, "no DNS label"}, {inputs{strings.Repeat("a", 21): one(nil)["burst"]}, "up to 20 characters"},
		{one(inputs{"architecture": "arm64"}), "neither x86_64 nor aarch64"},
		{one(inputs{"instance_types": []string{}}), "instance_types is empty"}, {one(inputs{"instance_types": []string{"t3"}}), "no instance type"},
		{one(inputs{"instance_types": []string{"t3.medium", "t3.medium"}}), "one twice"},
		{one(inputs{"instance_types": []string{"t4g.medium"}}), "the other architecture"}, {one(inputs{"architecture": "aarch64"}), "write two groups"},
		{one(inputs{"instance_types": []string{"a1.large"}}), "the other architecture"}, {one(inputs{"instance_types": []string{"c7gn.large"}}), "the other architecture"},
		{one(inputs{"max_size": 0}), "max_size is no whole number"}, {one(inputs{"max_size": 1.5}), "how many instances"},
		{one(inputs{"on_demand_base": 1}), "without spot = true"}, {one(inputs{"spot": true, "on_demand_base": 4}), "not from 0 to max_size"},
		{one(inputs{"capacity_rebalance": true}), "write spot = true"},
		{one(inputs{"root_volume_gib": 9}), "from 10 to 16384"}, {one(inputs{"root_volume_gib": 20.5}), "whole number from 10"},
		{one(inputs{"ami_id": "fedora"}), "no image's id"}, {one(inputs{"key_selector": "a=\"b\""}), "no label selector"},
		{one(inputs{"labels": inputs{"a b": "c"}}), "label that Kubernetes refuses"}, {one(inputs{"labels": inputs{"a": "b c"}}), "label that Kubernetes refuses"},
		{one(inputs{"labels": inputs{strings.Repeat("p", 40) + "." + strings.Repeat("q", 40) + "/n": ""}}), "longer than 82"},
		{one(inputs{"labels": inputs{"node-role.kubernetes.io/burst": ""}}), "in restricted_labels"}, {one(inputs{"labels": inputs{"k8s.io/x": ""}}), "may not give itself"},
		{one(inputs{"labels": inputs{"dynk8s.du5t1n.me/ec2-instance-id": "x"}}), "sets itself"},
		{one(inputs{"restricted_labels": inputs{"topology.kubernetes.io/zone": "x"}}), "sets itself"},
		{one(inputs{"labels": inputs{"a": "b"}, "restricted_labels": inputs{"a": "c"}}), "write it once"},
		{one(inputs{"taints": []inputs{taint("a", "NoJoke")}}), "taint that Kubernetes refuses"}, {one(inputs{"taints": []inputs{taint("a b", "NoSchedule")}}), "taint that Kubernetes refuses"},
		{one(inputs{"taints": []inputs{taint("a", "NoSchedule")}, "restricted_taints": []inputs{taint("a", "NoExecute")}}), "two taints with one key"},
		{one(inputs{"resources": inputs{"cpu": "4"}}), "follow from the instance type"}, {one(inputs{"resources": inputs{"github.com/fuse": "one"}}), "no node can have"},
		{one(inputs{"resources": inputs{"fuse": "1"}}), "device plug-in's name"}, {one(inputs{"labels": manyLabels()}), "more than 22"},
	},
}

// wrongBeside are looked at only where the inputs that they depend on are right.
var wrongBeside = refusals{
	"daemon_credentials": {
		{"key", "write user, oidc or roles_anywhere"}, {"none", "write user, oidc"}, {"oidc", "oidc is not set: write oidc = {"},
		{"roles_anywhere", "roles_anywhere is not set: write roles_anywhere = {"},
	},
	"autoscaler_credentials": {
		{"nobody", "write none, user, oidc or roles_anywhere"}, {"oidc", "oidc is not set: write oidc = {"},
		{"roles_anywhere", "roles_anywhere is not set: write roles_anywhere = {"},
	},
}

func manyTags() inputs   { return many("tag", 21) }
func manyLabels() inputs { return many("label", 23) }

func many(prefix string, n int) inputs {
	all := inputs{}
	for i := range n {
		all[prefix+strings.Repeat("x", i)] = ""
	}
	return all
}

// Each wrong value is refused with a sentence that says what to write, and each
// validation is there for some wrong value. As tofu names all that is wrong at
// once, each plan has one wrong value of every input.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var lock sync.Mutex
	var said []string
	t.Run("rounds", func(t *testing.T) {
		for _, all := range []refusals{wrong, wrongBeside} {
			for i := range all.rounds() {
				t.Run("", func(t *testing.T) {
					t.Parallel()
					out := all.refused(t, i)
					lock.Lock()
					defer lock.Unlock()
					said = append(said, out)
				})
			}
		}
	})
	everything := strings.Join(said, " ")
	for _, v := range variables(t) {
		for _, message := range v.messages {
			if !strings.Contains(everything, longest(message)) {
				t.Errorf("no wrong value of %s has it say: %s", v.name, message)
			}
		}
	}
}

// rounds is how many values the input with the most has.
func (all refusals) rounds() int {
	n := 0
	for _, values := range all {
		n = max(n, len(values))
	}
	return n
}

// refused plans with the ith wrong value of every input, and returns what tofu
// says.
func (all refusals) refused(t *testing.T, i int) string {
	t.Helper()
	in := leastOfModule
	for name, values := range all {
		if i < len(values) {
			in = in.with(inputs{name: values[i].value})
		}
	}
	out, err := tryPlan(t, stack.Region, ".", in)
	if err == nil {
		t.Error("the plan was made")
	}
	out = plainText(out)
	for name, values := range all {
		if i < len(values) && !strings.Contains(out, values[i].says) {
			t.Errorf("%s = %v: tofu does not say %q", name, values[i].value, values[i].says)
		}
	}
	if strings.Contains(out, "Invalid function argument") || strings.Contains(out, "Error in function call") {
		t.Errorf("a validation breaks: %s", out)
	}
	return out
}

// plainText undoes the lines and frames that tofu breaks a message into.
func plainText(out string) string {
	out = strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)
	return strings.Join(strings.Fields(out), " ")
}

// longest is the longest part of a message that does not depend on the value.
func longest(message string) string {
	best := ""
	for _, part := range regexp.MustCompile(`\$\{[^}]*\}`).Split(message, -1) {
		if part = strings.Join(strings.Fields(part), " "); len(part) > len(best) {
			best = part
		}
	}
	return best
}

func TestSubnetsOfTwoNetworksAreRefused(t *testing.T) {
	t.Parallel()
	out, err := tryPlan(t, stack.Region, ".", leastOfModule.with(inputs{"subnet_ids": []string{"subnet-00000001", "subnet-10000001"}}))
	if err == nil || !strings.Contains(plainText(out), "write subnets of one") {
		t.Errorf("%v: %s", err, out)
	}
}

// What must be accepted although it looks unusual.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]any{
		"endpoint":                {"https://192.0.2.1", "https://[2001:db8::1]:8443", "https://a:65535"},
		"endpoint_ca_certificate": {somePEM, somePEM + "\n" + somePEM},
		"cluster":                 {"a", "home.example.org"},
		"groups": {
			one(inputs{"instance_types": []string{"u-3tb1.56xlarge", "g5.xlarge", "mac2.metal", "c5n.large", "m7i-flex.large"}}),
			one(inputs{"architecture": "aarch64", "instance_types": []string{"g5g.xlarge", "c7gn.large", "im4gn.large", "x2gd.medium", "a1.large"}}),
			one(inputs{"labels": inputs{"node.kubernetes.io/x": "", "kubelet.kubernetes.io/y": "a"}, "key_selector": "site=home,tier notin (spare, old),!gone"}),
		},
	} {
		for _, value := range values {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if out, err := tryPlan(t, stack.Region, ".", leastOfModule.with(inputs{name: value})); err != nil {
					t.Errorf("%v is refused: %s", value, out)
				}
			})
		}
	}
}
