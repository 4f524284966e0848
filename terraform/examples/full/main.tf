# Two architectures, spot, a device plug-in's resource, every event, roles for
# the cluster's service account tokens in place of access keys.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100.0, < 7.0.0"
    }
  }
}

provider "aws" {
  region = var.region
}

variable "region" {
  description = "AWS region."
  type        = string
  default     = "us-east-2"
}

variable "endpoint" {
  description = "Base URL of the daemon's artifact endpoint."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets that instances start in."
  type        = list(string)
}

variable "oidc_issuer" {
  description = "Issuer of the cluster's service account tokens."
  type        = string
}

module "dynk8s" {
  source = "../.."

  name       = "edge"
  cluster    = "home"
  endpoint   = var.endpoint
  subnet_ids = var.subnet_ids
  tags       = { owner = "platform" }

  daemon_credentials     = "oidc"
  autoscaler_credentials = "oidc"
  oidc                   = { issuer = var.oidc_issuer }

  spot_events        = true
  rebalance_events   = true
  autoscaling_events = true
  health_events      = true

  kubernetes_version = "1.34"
  dnf_automatic      = true
  user_namespaces    = true
  extra_commands     = ["dnf install -y htop"]

  groups = {
    # Types of like size: Cluster Autoscaler takes the first for all of them.
    spot = {
      instance_types     = ["m7i.large", "m6i.large", "m6a.large"]
      max_size           = 10
      spot               = true
      capacity_rebalance = true
      root_volume_gib    = 40
      labels             = { "example.org/capacity" = "spot" }
      restricted_labels  = { "node-role.kubernetes.io/burst" = "" }
      taints             = [{ key = "example.org/burst", value = "true", effect = "NoSchedule" }]
      restricted_taints  = [{ key = "example.org/untrusted", effect = "PreferNoSchedule" }]

      # What the fuse device plug-in offers appears on a node only after it
      # runs there; without this no pod that asks for it brings up the first node.
      resources = { "github.com/fuse" = "1" }
    }

    arm = {
      architecture   = "aarch64"
      instance_types = ["t4g.medium"]
      max_size       = 2
      key_selector   = "site=home"
    }
  }
}

output "helm_values" {
  description = "Values of the chart dynk8s-provisioner."
  value       = module.dynk8s.helm_values
}

output "autoscaler_helm_values" {
  description = "Values of the chart cluster-autoscaler."
  value       = module.dynk8s.autoscaler_helm_values
}

output "autoscaler_role_arn" {
  description = "Role for Cluster Autoscaler's service account."
  value       = module.dynk8s.autoscaler_role_arn
}
