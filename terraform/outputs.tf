output "helm_values" {
  description = "Values of the chart dynk8s-provisioner: `tofu output -json helm_values > aws.json`, then `helm install … -f values.yaml -f aws.json`. No secrets."
  value = {
    config = {
      aws = { region = local.region }
      queue = {
        url    = aws_sqs_queue.events.url
        region = local.region
      }
      profiles = [
        for name in sort(keys(var.groups)) : {
          name = name
          selector = [
            { key = local.cluster_tag, values = [var.cluster] },
            { key = local.group_tag, values = [name] },
          ]
          wireguard = { keySelector = var.groups[name].key_selector }
          node = {
            labels           = var.groups[name].labels
            taints           = var.groups[name].taints
            restrictedLabels = var.groups[name].restricted_labels
            restrictedTaints = var.groups[name].restricted_taints
          }
        }
      ]
      artifacts    = { identity = { accounts = [local.account], regions = [local.region] } }
      certificates = { approve = true }
    }
    aws = {
      credentials = {
        for kind, values in {
          user = { secret = { name = var.helm_secret_name } }
          oidc = { webIdentity = { roleARN = module.daemon.role_arn, audience = try(var.oidc.audience, "") } }
          roles_anywhere = {
            rolesAnywhere = {
              trustAnchorARN        = one(aws_rolesanywhere_trust_anchor.ca[*].arn)
              profileARN            = module.daemon.profile_arn
              roleARN               = module.daemon.role_arn
              certificateSecretName = var.helm_secret_name
            }
          }
        } : keys(values)[0] => values[keys(values)[0]] if kind == var.daemon_credentials
      }
    }
  }
}

output "autoscaler_helm_values" {
  description = "Values of the chart cluster-autoscaler of kubernetes/autoscaler: where the groups are and how they are found. No secrets."
  value = {
    cloudProvider = "aws"
    awsRegion     = local.region
    autoDiscovery = {
      clusterName = var.cluster
      tags        = sort(keys(local.discovery_tags))
    }
  }
}

output "queue_url" {
  description = "URL of the queue."
  value       = aws_sqs_queue.events.url
}

output "queue_arn" {
  description = "ARN of the queue."
  value       = aws_sqs_queue.events.arn
}

output "dead_letter_queue_url" {
  description = "URL of the dead-letter queue."
  value       = aws_sqs_queue.dead_letters.url
}

output "topic_arn" {
  description = "ARN of the topic."
  value       = aws_sns_topic.events.arn
}

output "autoscaling_group_names" {
  description = "Names of the Auto Scaling groups by group."
  value       = { for name, group in aws_autoscaling_group.nodes : name => group.name }
}

output "security_group_id" {
  description = "Security group of the instances."
  value       = aws_security_group.nodes.id
}

output "image_ids" {
  description = "Images of the instances by group; write one as `ami_id` to keep it."
  value       = { for name, template in aws_launch_template.nodes : name => template.image_id }
}

output "daemon_access_key_id" {
  description = "Id of the daemon's access key, with `daemon_credentials = \"user\"`; else null."
  value       = module.daemon.access_key_id
}

output "daemon_secret_access_key" {
  description = "The daemon's secret access key, with `daemon_credentials = \"user\"`; else null. It is in the state too."
  value       = module.daemon.secret_access_key
  sensitive   = true
}

output "daemon_policy_arn" {
  description = "ARN of the daemon's policy."
  value       = module.daemon.policy_arn
}

output "daemon_role_arn" {
  description = "ARN of the daemon's role, with `oidc` and `roles_anywhere`; else null."
  value       = module.daemon.role_arn
}

output "autoscaler_access_key_id" {
  description = "Id of Cluster Autoscaler's access key, with `autoscaler_credentials = \"user\"`; else null."
  value       = module.autoscaler.access_key_id
}

output "autoscaler_secret_access_key" {
  description = "Cluster Autoscaler's secret access key, with `autoscaler_credentials = \"user\"`; else null. It is in the state too."
  value       = module.autoscaler.secret_access_key
  sensitive   = true
}

output "autoscaler_policy_arn" {
  description = "ARN of Cluster Autoscaler's policy, to attach to an identity of your own with `autoscaler_credentials = \"none\"`."
  value       = module.autoscaler.policy_arn
}

output "autoscaler_role_arn" {
  description = "ARN of Cluster Autoscaler's role, with `oidc` and `roles_anywhere`; else null."
  value       = module.autoscaler.role_arn
}

output "autoscaler_profile_arn" {
  description = "ARN of Cluster Autoscaler's Roles Anywhere profile; else null."
  value       = module.autoscaler.profile_arn
}

output "trust_anchor_arn" {
  description = "ARN of the Roles Anywhere trust anchor; null without one."
  value       = one(aws_rolesanywhere_trust_anchor.ca[*].arn)
}
