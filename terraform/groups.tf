locals {
  # These tags only feed Cluster Autoscaler's idea of a node that does not exist
  # yet; the node itself gets the same labels and taints from its profile.
  node_template_tags = {
    for name, group in var.groups : name => {
      for key, value in merge(
        { for label, value in merge(group.labels, group.restricted_labels) : "label/${label}" => value },
        # The daemon's label: pods that stay off instances must not seem to fit.
        { "label/dynk8s.du5t1n.me/ec2-instance-id" = "template" },
        { for taint in concat(group.taints, group.restricted_taints) : "taint/${taint.key}" => "${taint.value}:${taint.effect}" },
        # Four fifths of the volume: Fedora and the kubelet's reserve are there too.
        { "resources/ephemeral-storage" = "${floor(group.root_volume_gib * 4 / 5)}Gi" },
        { for resource, quantity in group.resources : "resources/${resource}" => quantity },
      ) : "k8s.io/cluster-autoscaler/node-template/${key}" => value
    }
  }

  discovery_tags = {
    "k8s.io/cluster-autoscaler/enabled"        = "true"
    "k8s.io/cluster-autoscaler/${var.cluster}" = "owned"
  }

  instance_tags = {
    for name in keys(var.groups) : name => merge(var.tags, {
      Name                = "${var.name}-${name}"
      (local.cluster_tag) = var.cluster
      (local.group_tag)   = name
    })
  }

  # A policy of mixed instances is needed for spot and for several types.
  mixed = { for name, group in var.groups : name => group.spot || length(group.instance_types) > 1 }
}

resource "aws_autoscaling_group" "nodes" {
  for_each = var.groups

  name                      = "${var.name}-${each.key}"
  min_size                  = 0
  max_size                  = each.value.max_size
  vpc_zone_identifier       = var.subnet_ids
  capacity_rebalance        = each.value.capacity_rebalance
  health_check_type         = "EC2"
  wait_for_capacity_timeout = "0"

  # Balancing zones ends instances that Cluster Autoscaler has not drained.
  suspended_processes = ["AZRebalance"]

  dynamic "launch_template" {
    for_each = local.mixed[each.key] ? [] : [true]

    content {
      id      = aws_launch_template.nodes[each.key].id
      version = aws_launch_template.nodes[each.key].latest_version
    }
  }

  dynamic "mixed_instances_policy" {
    for_each = local.mixed[each.key] ? [true] : []

    content {
      instances_distribution {
        on_demand_base_capacity                  = each.value.on_demand_base
        on_demand_percentage_above_base_capacity = each.value.spot ? 0 : 100
        spot_allocation_strategy                 = "price-capacity-optimized"
      }

      launch_template {
        launch_template_specification {
          launch_template_id = aws_launch_template.nodes[each.key].id
          version            = aws_launch_template.nodes[each.key].latest_version
        }

        dynamic "override" {
          for_each = each.value.instance_types

          content {
            instance_type = override.value
          }
        }
      }
    }
  }

  dynamic "tag" {
    for_each = local.instance_tags[each.key]

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  dynamic "tag" {
    for_each = merge(local.discovery_tags, local.node_template_tags[each.key])

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = false
    }
  }

  lifecycle {
    ignore_changes = [desired_capacity] # Cluster Autoscaler's
  }
}
