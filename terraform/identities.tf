# Who may do what: the daemon with its queue, Cluster Autoscaler with the groups.

locals {
  daemon_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Queue"
        Effect   = "Allow"
        Action   = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
        Resource = aws_sqs_queue.events.arn
      },
      {
        Sid      = "Instances"
        Effect   = "Allow"
        Action   = "ec2:DescribeInstances" # EC2 knows no resources for it
        Resource = "*"
      },
    ]
  })

  autoscaler_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "autoscaling:DescribeAutoScalingGroups",
          "autoscaling:DescribeScalingActivities",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplateVersions",
        ]
        Resource = "*" # nor do Auto Scaling and EC2 for these
      },
      {
        Sid      = "Scale"
        Effect   = "Allow"
        Action   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
        Resource = [for name in sort(keys(var.groups)) : aws_autoscaling_group.nodes[name].arn]
      },
    ]
  })

  kinds = [var.daemon_credentials, var.autoscaler_credentials]

  # IAM names a provider after its URL without the scheme.
  oidc_host = try(trimprefix(var.oidc.issuer, "https://"), "")
  oidc_provider_arn = try(coalesce(
    var.oidc.provider_arn,
    one(aws_iam_openid_connect_provider.cluster[*].arn),
  ), null)
}

resource "aws_iam_openid_connect_provider" "cluster" {
  count = contains(local.kinds, "oidc") && try(var.oidc.provider_arn, null) == null ? 1 : 0

  url            = var.oidc.issuer
  client_id_list = [var.oidc.audience]
  tags           = var.tags
}

resource "aws_rolesanywhere_trust_anchor" "ca" {
  count = contains(local.kinds, "roles_anywhere") ? 1 : 0

  name    = var.name
  enabled = true
  tags    = var.tags

  source {
    source_type = "CERTIFICATE_BUNDLE"
    source_data {
      x509_certificate_data = var.roles_anywhere.ca_certificate
    }
  }
}

module "daemon" {
  source = "./modules/identity"

  name             = "${var.name}-daemon"
  kind             = var.daemon_credentials
  policy           = local.daemon_policy
  oidc             = { provider_arn = local.oidc_provider_arn, host = local.oidc_host, audience = try(var.oidc.audience, ""), service_account = try(var.oidc.daemon_service_account, "") }
  trust_anchor_arn = one(aws_rolesanywhere_trust_anchor.ca[*].arn)
  common_name      = try(var.roles_anywhere.daemon_common_name, "")
  tags             = var.tags
}

module "autoscaler" {
  source = "./modules/identity"

  name             = "${var.name}-autoscaler"
  kind             = var.autoscaler_credentials
  policy           = local.autoscaler_policy
  oidc             = { provider_arn = local.oidc_provider_arn, host = local.oidc_host, audience = try(var.oidc.audience, ""), service_account = try(var.oidc.autoscaler_service_account, "") }
  trust_anchor_arn = one(aws_rolesanywhere_trust_anchor.ca[*].arn)
  common_name      = try(var.roles_anywhere.autoscaler_common_name, "")
  tags             = var.tags
}
