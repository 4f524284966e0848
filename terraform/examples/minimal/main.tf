# The least: one group of small instances, access keys, public addresses.
#
#   tofu init && tofu apply -var endpoint=https://join.example.org:8443 -var 'subnet_ids=["subnet-…"]'

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

module "dynk8s" {
  source = "../.."

  cluster    = "home"
  endpoint   = var.endpoint
  subnet_ids = var.subnet_ids

  groups = {
    burst = {
      instance_types = ["t3.medium"]
      max_size       = 3
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

output "daemon_access_key_id" {
  description = "Id of the daemon's access key."
  value       = module.dynk8s.daemon_access_key_id
}

output "daemon_secret_access_key" {
  description = "The daemon's secret access key."
  value       = module.dynk8s.daemon_secret_access_key
  sensitive   = true
}

output "autoscaler_access_key_id" {
  description = "Id of Cluster Autoscaler's access key."
  value       = module.dynk8s.autoscaler_access_key_id
}

output "autoscaler_secret_access_key" {
  description = "Cluster Autoscaler's secret access key."
  value       = module.dynk8s.autoscaler_secret_access_key
  sensitive   = true
}
