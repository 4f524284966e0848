# Every switch, against a provider that is made up but for its schema.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_subnet" {
    defaults = { vpc_id = "vpc-0123456789abcdef0" }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0", root_device_name = "/dev/sda1" }
  }

  # The real provider looks at these before it plans.
  mock_resource "aws_autoscaling_group" {
    defaults = { arn = "arn:aws:autoscaling:us-east-2:123456789012:autoScalingGroup:0123abcd:autoScalingGroupName/mock" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:us-east-2:123456789012:rule/mock" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/mock" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/mock" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_rolesanywhere_trust_anchor" {
    defaults = { arn = "arn:aws:rolesanywhere:us-east-2:123456789012:trust-anchor/mock" }
  }
  mock_resource "aws_security_group" {
    defaults = { id = "sg-0123456789abcdef0" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-2:123456789012:mock" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:us-east-2:123456789012:mock", url = "https://sqs.us-east-2.amazonaws.com/123456789012/mock" }
  }
}

variables {
  cluster    = "home"
  endpoint   = "https://join.example.org:8443"
  subnet_ids = ["subnet-0123456789abcdef0"]
  groups     = { burst = { instance_types = ["t3.medium"], max_size = 3 } }
}

run "defaults" {
  assert {
    condition     = keys(aws_cloudwatch_event_rule.events) == ["state"]
    error_message = "Without switches there is one rule, for state changes."
  }
  assert {
    condition     = jsondecode(aws_cloudwatch_event_rule.events["state"].event_pattern) == { source = ["aws.ec2"], "detail-type" = ["EC2 Instance State-change Notification"] }
    error_message = "The rule lets state changes through and nothing else."
  }
  assert {
    condition     = aws_sqs_queue.events.sqs_managed_sse_enabled && aws_sqs_queue.dead_letters.sqs_managed_sse_enabled
    error_message = "Both queues are encrypted."
  }
  assert {
    condition     = aws_sqs_queue.events.message_retention_seconds == 1209600 && aws_sqs_queue.dead_letters.message_retention_seconds == 1209600
    error_message = "Both queues keep messages 14 days."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.events.redrive_policy).maxReceiveCount == 100
    error_message = "A message becomes a dead letter after 100 receives."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.events.redrive_policy).deadLetterTargetArn == aws_sqs_queue.dead_letters.arn
    error_message = "Dead letters go to the dead-letter queue."
  }
  assert {
    condition     = length(module.daemon.access_key_id) > 0 && length(module.autoscaler.access_key_id) > 0 && module.daemon.role_arn == null
    error_message = "Both identities are users with keys."
  }
  assert {
    condition     = output.helm_values.aws.credentials == { secret = { name = "aws" } }
    error_message = "The chart is told of the Secret with the access key."
  }
  assert {
    condition     = length(aws_iam_openid_connect_provider.cluster) == 0 && length(aws_rolesanywhere_trust_anchor.ca) == 0
    error_message = "Nothing is made that no identity needs."
  }
}

run "all_events" {
  variables {
    spot_events        = true
    rebalance_events   = true
    autoscaling_events = true
    health_events      = true
  }
  assert {
    condition = { for kind, rule in aws_cloudwatch_event_rule.events : kind => jsondecode(rule.event_pattern)["detail-type"] } == {
      state       = ["EC2 Instance State-change Notification"]
      spot        = ["EC2 Spot Instance Interruption Warning"]
      rebalance   = ["EC2 Instance Rebalance Recommendation"]
      autoscaling = ["EC2 Instance-launch Lifecycle Action", "EC2 Instance-terminate Lifecycle Action"]
      health      = ["AWS Health Event"]
    }
    error_message = "Each switch adds its rule."
  }
  assert {
    condition     = jsondecode(aws_cloudwatch_event_rule.events["autoscaling"].event_pattern).detail.AutoScalingGroupName == ["dynk8s-burst"]
    error_message = "Only the module's own Auto Scaling groups are heard."
  }
  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.topic : target.arn == aws_sns_topic.events.arn])
    error_message = "Every rule feeds the topic."
  }
}

run "queue_settings" {
  variables {
    message_retention_seconds = 345600
    max_receive_count         = 20
  }
  assert {
    condition     = aws_sqs_queue.events.message_retention_seconds == 345600 && aws_sqs_queue.dead_letters.message_retention_seconds == 1209600
    error_message = "Retention is the queue's alone."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue.events.redrive_policy).maxReceiveCount == 20
    error_message = "The count is taken."
  }
}

run "oidc" {
  variables {
    daemon_credentials     = "oidc"
    autoscaler_credentials = "none"
    oidc                   = { issuer = "https://oidc.example.org/home", audience = "dynk8s" }
  }
  assert {
    condition     = length(aws_iam_openid_connect_provider.cluster) == 1 && aws_iam_openid_connect_provider.cluster[0].url == "https://oidc.example.org/home"
    error_message = "The issuer becomes an identity provider."
  }
  assert {
    condition     = output.helm_values.aws.credentials == { webIdentity = { roleARN = module.daemon.role_arn, audience = "dynk8s" } }
    error_message = "The chart is told of the role and the audience."
  }
  assert {
    condition     = module.daemon.access_key_id == null && module.autoscaler.access_key_id == null && module.autoscaler.role_arn == null && module.autoscaler.policy_arn != null
    error_message = "There is no user; Cluster Autoscaler has its policy only."
  }
}

run "oidc_provider_that_is_there" {
  variables {
    daemon_credentials     = "oidc"
    autoscaler_credentials = "oidc"
    oidc                   = { issuer = "https://oidc.example.org", provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.example.org" }
  }
  assert {
    condition     = length(aws_iam_openid_connect_provider.cluster) == 0 && module.daemon.role_arn != null && module.autoscaler.role_arn != null
    error_message = "No second provider is made."
  }
}

run "roles_anywhere" {
  variables {
    daemon_credentials     = "roles_anywhere"
    autoscaler_credentials = "roles_anywhere"
    helm_secret_name       = "roles-anywhere"
    roles_anywhere         = { ca_certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" }
  }
  assert {
    condition = output.helm_values.aws.credentials == { rolesAnywhere = {
      trustAnchorARN        = aws_rolesanywhere_trust_anchor.ca[0].arn
      profileARN            = module.daemon.profile_arn
      roleARN               = module.daemon.role_arn
      certificateSecretName = "roles-anywhere"
    } }
    error_message = "The chart is told of anchor, profile, role and certificate."
  }
  assert {
    condition     = module.autoscaler.profile_arn != null && module.autoscaler.role_arn != null
    error_message = "Cluster Autoscaler has a profile and a role too."
  }
}

run "on_demand_of_one_type" {
  assert {
    condition     = length(aws_autoscaling_group.nodes["burst"].launch_template) == 1 && length(aws_autoscaling_group.nodes["burst"].mixed_instances_policy) == 0
    error_message = "One type on demand needs no policy of mixed instances."
  }
  assert {
    condition     = aws_autoscaling_group.nodes["burst"].min_size == 0 && aws_autoscaling_group.nodes["burst"].max_size == 3 && !aws_autoscaling_group.nodes["burst"].capacity_rebalance
    error_message = "The group begins empty."
  }
  assert {
    condition     = aws_autoscaling_group.nodes["burst"].suspended_processes == toset(["AZRebalance"])
    error_message = "Auto Scaling ends no instance to balance zones."
  }
}

run "spot_and_several_types" {
  variables {
    groups = {
      mixed = { instance_types = ["m7i.large", "m6i.large"], max_size = 2 }
      spot  = { instance_types = ["m7i.large", "m6i.large"], max_size = 4, spot = true, on_demand_base = 1, capacity_rebalance = true }
    }
  }
  assert {
    condition     = [for o in aws_autoscaling_group.nodes["spot"].mixed_instances_policy[0].launch_template[0].override : o.instance_type] == ["m7i.large", "m6i.large"]
    error_message = "The types keep their order."
  }
  assert {
    condition     = aws_autoscaling_group.nodes["spot"].mixed_instances_policy[0].instances_distribution[0].on_demand_percentage_above_base_capacity == 0 && aws_autoscaling_group.nodes["spot"].mixed_instances_policy[0].instances_distribution[0].on_demand_base_capacity == 1
    error_message = "Above the base all are spot."
  }
  assert {
    condition     = aws_autoscaling_group.nodes["spot"].capacity_rebalance && !aws_autoscaling_group.nodes["mixed"].capacity_rebalance
    error_message = "Capacity is rebalanced where it is asked for."
  }
  assert {
    condition     = aws_autoscaling_group.nodes["mixed"].mixed_instances_policy[0].instances_distribution[0].on_demand_percentage_above_base_capacity == 100
    error_message = "Without spot all are on demand."
  }
}

run "instances" {
  variables {
    public_ip                = null
    ssh_key_name             = "me"
    instance_profile_name    = "nodes"
    volume_kms_key_arn       = "arn:aws:kms:us-east-2:123456789012:key/0123abcd-0123-0123-0123-0123456789ab"
    extra_security_group_ids = ["sg-00000001"]
    fedora_release           = 42
    groups = {
      x86  = { instance_types = ["t3.medium"], max_size = 1, root_volume_gib = 30 }
      arm  = { instance_types = ["t4g.medium"], max_size = 1, architecture = "aarch64" }
      mine = { instance_types = ["t3.large"], max_size = 1, ami_id = "ami-00000000000000001" }
    }
  }
  assert {
    condition     = alltrue([for t in aws_launch_template.nodes : t.metadata_options[0].http_tokens == "required" && t.metadata_options[0].http_put_response_hop_limit == 1])
    error_message = "Instance metadata wants a token and does not reach pods."
  }
  assert {
    condition     = alltrue([for t in aws_launch_template.nodes : t.block_device_mappings[0].ebs[0].encrypted == "true" && t.block_device_mappings[0].ebs[0].volume_type == "gp3"])
    error_message = "Root volumes are encrypted gp3."
  }
  assert {
    condition     = aws_launch_template.nodes["x86"].block_device_mappings[0].ebs[0].volume_size == 30 && aws_launch_template.nodes["x86"].block_device_mappings[0].ebs[0].kms_key_id == var.volume_kms_key_arn
    error_message = "Size and key are taken."
  }
  assert {
    condition     = aws_launch_template.nodes["x86"].key_name == "me" && aws_launch_template.nodes["x86"].iam_instance_profile[0].name == "nodes"
    error_message = "Key pair and instance profile are taken."
  }
  assert {
    condition     = toset([for f in data.aws_ami.fedora["x86_64"].filter : one(f.values) if f.name == "name"]) == toset(["Fedora-Cloud-Base-AmazonEC2.x86_64-42-*"]) && toset([for f in data.aws_ami.fedora["aarch64"].filter : one(f.values) if f.name == "name"]) == toset(["Fedora-Cloud-Base-AmazonEC2.aarch64-42-*"])
    error_message = "Images are found by the Fedora release team's names."
  }
  assert {
    condition     = toset([for f in data.aws_ami.fedora["aarch64"].filter : one(f.values) if f.name == "architecture"]) == toset(["arm64"]) && data.aws_ami.fedora["aarch64"].owners == tolist(["125523088429"])
    error_message = "They are the release team's, for the architecture in EC2's word."
  }
  assert {
    condition     = aws_launch_template.nodes["mine"].image_id == "ami-00000000000000001" && length(data.aws_ami.fedora) == 2
    error_message = "An image that is named is not looked for."
  }
  assert {
    condition     = contains(aws_launch_template.nodes["x86"].network_interfaces[0].security_groups, "sg-00000001") && length(aws_launch_template.nodes["x86"].network_interfaces[0].security_groups) == 2
    error_message = "Other security groups are beside the module's own."
  }
}

run "public_ip" {
  assert {
    condition     = aws_launch_template.nodes["burst"].network_interfaces[0].associate_public_ip_address == "true"
    error_message = "Instances have a public address."
  }
}

run "no_public_ip" {
  variables {
    public_ip = false
  }
  assert {
    condition     = aws_launch_template.nodes["burst"].network_interfaces[0].associate_public_ip_address == "false"
    error_message = "Instances have no public address."
  }
}

run "tags" {
  variables {
    tags = { owner = "platform" }
    groups = {
      burst = {
        instance_types    = ["t3.medium"]
        max_size          = 3
        root_volume_gib   = 40
        labels            = { "example.org/from" = "ec2" }
        restricted_labels = { "node-role.kubernetes.io/burst" = "" }
        taints            = [{ key = "example.org/burst", value = "true", effect = "NoSchedule" }]
        restricted_taints = [{ key = "example.org/untrusted", effect = "NoExecute" }]
        resources         = { "github.com/fuse" = "5k" }
      }
    }
  }
  assert {
    condition = { for t in aws_autoscaling_group.nodes["burst"].tag : t.key => t.value if !t.propagate_at_launch } == {
      "k8s.io/cluster-autoscaler/enabled"                                              = "true"
      "k8s.io/cluster-autoscaler/home"                                                 = "owned"
      "k8s.io/cluster-autoscaler/node-template/label/dynk8s.du5t1n.me/ec2-instance-id" = "template"
      "k8s.io/cluster-autoscaler/node-template/label/example.org/from"                 = "ec2"
      "k8s.io/cluster-autoscaler/node-template/label/node-role.kubernetes.io/burst"    = ""
      "k8s.io/cluster-autoscaler/node-template/taint/example.org/burst"                = "true:NoSchedule"
      "k8s.io/cluster-autoscaler/node-template/taint/example.org/untrusted"            = ":NoExecute"
      "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage"            = "32Gi"
      "k8s.io/cluster-autoscaler/node-template/resources/github.com/fuse"              = "5k"
    }
    error_message = "Cluster Autoscaler finds the group and knows a node that does not exist yet."
  }
  assert {
    condition = { for t in aws_autoscaling_group.nodes["burst"].tag : t.key => t.value if t.propagate_at_launch } == {
      "Name"                     = "dynk8s-burst"
      "dynk8s.du5t1n.me/cluster" = "home"
      "dynk8s.du5t1n.me/group"   = "burst"
      "owner"                    = "platform"
    }
    error_message = "Instances carry the tags that the daemon's selector matches."
  }
  assert {
    condition = jsonencode(output.helm_values.config.profiles[0].node) == jsonencode({
      labels           = { "example.org/from" = "ec2" }
      restrictedLabels = { "node-role.kubernetes.io/burst" = "" }
      taints           = [{ key = "example.org/burst", value = "true", effect = "NoSchedule" }]
      restrictedTaints = [{ key = "example.org/untrusted", value = "", effect = "NoExecute" }]
    })
    error_message = "The daemon's profile gives the node the same labels and taints."
  }
}
