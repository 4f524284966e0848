# What a group of instances is made of: image, security group, launch template.

locals {
  # EC2's word for each of Fedora's.
  ec2_architecture = { x86_64 = "x86_64", aarch64 = "arm64" }

  architectures = toset([for group in values(var.groups) : group.architecture if group.ami_id == null])

  userdata = "${path.module}/../userdata"
  user_data = base64gzip(templatefile("${local.userdata}/cloud-init.yaml.tftpl", {
    endpoint           = var.endpoint
    ca_certificate     = var.endpoint_ca_certificate
    interface          = var.wireguard_interface
    wait_seconds       = var.wait_seconds
    kubernetes_version = var.kubernetes_version
    dnf_automatic      = var.dnf_automatic
    user_namespaces    = var.user_namespaces
    extra_commands     = var.extra_commands
    files = {
      join         = file("${local.userdata}/dynk8s-join")
      node_setup   = file("${local.userdata}/dynk8s-node-setup")
      join_service = file("${local.userdata}/dynk8s-join.service")
    }
  }))
  # EC2 takes 16 KiB before base64, which makes four characters of three bytes.
  user_data_bytes = length(replace(local.user_data, "=", "")) * 3 / 4
}

data "aws_ami" "fedora" {
  for_each = local.architectures

  owners      = [var.ami_owner]
  most_recent = true

  filter {
    name   = "name"
    values = ["Fedora-Cloud-Base-AmazonEC2.${each.key}-${var.fedora_release}-*"]
  }

  filter {
    name   = "architecture"
    values = [local.ec2_architecture[each.key]]
  }

  filter {
    name   = "virtualization-type"
    values = ["hvm"]
  }

  filter {
    name   = "root-device-type"
    values = ["ebs"]
  }

  filter {
    name   = "state"
    values = ["available"]
  }

  lifecycle {
    precondition {
      condition     = data.aws_partition.current.partition == "aws" || var.ami_owner != "125523088429"
      error_message = "Fedora's account is in the partition aws only, and this is ${data.aws_partition.current.partition}: copy the images to an account of this partition and write it as ami_owner, or write each group's ami_id."
    }
  }
}

data "aws_subnet" "nodes" {
  for_each = toset(var.subnet_ids)

  id = each.key
}

resource "aws_security_group" "nodes" {
  name        = "${var.name}-nodes"
  description = "Instances of the cluster ${var.cluster}: nothing in, everything out"
  vpc_id      = data.aws_subnet.nodes[var.subnet_ids[0]].vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-nodes" })

  lifecycle {
    precondition {
      condition     = length(distinct([for subnet in data.aws_subnet.nodes : subnet.vpc_id])) == 1
      error_message = "subnet_ids are of more than one VPC: write subnets of one, as a security group belongs to one."
    }
  }
}

# No rule lets anything in: what comes in comes through the VPN, whose packets
# answer those that the instance sent.
resource "aws_vpc_security_group_egress_rule" "all" {
  for_each = { ipv4 = "0.0.0.0/0", ipv6 = "::/0" }

  security_group_id = aws_security_group.nodes.id
  description       = "Everything out, ${each.key}"
  ip_protocol       = "-1"
  cidr_ipv4         = each.key == "ipv4" ? each.value : null
  cidr_ipv6         = each.key == "ipv6" ? each.value : null
  tags              = var.tags
}

resource "aws_launch_template" "nodes" {
  for_each = var.groups

  name                                 = "${var.name}-${each.key}"
  description                          = "Instances that join the cluster ${var.cluster} by themselves"
  update_default_version               = true
  image_id                             = coalesce(each.value.ami_id, try(data.aws_ami.fedora[each.value.architecture].id, null))
  instance_type                        = each.value.instance_types[0]
  instance_initiated_shutdown_behavior = "terminate"
  key_name                             = var.ssh_key_name
  user_data                            = local.user_data
  tags                                 = var.tags

  # Tokens for everybody, and an answer that dies on the way into a pod: the
  # identity document opens the artifact endpoint.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "disabled"
  }

  block_device_mappings {
    device_name = try(data.aws_ami.fedora[each.value.architecture].root_device_name, "/dev/sda1")

    ebs {
      volume_type           = "gp3"
      volume_size           = each.value.root_volume_gib
      encrypted             = true
      kms_key_id            = var.volume_kms_key_arn
      delete_on_termination = true
    }
  }

  network_interfaces {
    device_index                = 0
    associate_public_ip_address = var.public_ip
    delete_on_termination       = true
    security_groups             = concat([aws_security_group.nodes.id], var.extra_security_group_ids)
  }

  dynamic "iam_instance_profile" {
    for_each = var.instance_profile_name[*]

    content {
      name = iam_instance_profile.value
    }
  }

  # The instances' own tags come from the group.
  tag_specifications {
    resource_type = "volume"
    tags          = merge(var.tags, { Name = "${var.name}-${each.key}", (local.cluster_tag) = var.cluster })
  }

  lifecycle {
    precondition {
      condition     = local.user_data_bytes <= 16384
      error_message = "The user data is larger than the 16 KiB that EC2 takes: write fewer or shorter extra_commands, or have them fetch what they need."
    }
  }
}
