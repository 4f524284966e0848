variable "name" {
  description = "Name of the policy, and of the user or role."
  type        = string
}

variable "kind" {
  description = "`none`, `user`, `oidc` or `roles_anywhere`."
  type        = string
}

variable "policy" {
  description = "What it may do, an IAM policy document."
  type        = string
}

variable "oidc" {
  description = "For `oidc`: the provider in IAM, its URL without scheme, the tokens' audience, the service account as namespace:name."
  type        = object({ provider_arn = string, host = string, audience = string, service_account = string })
}

variable "trust_anchor_arn" {
  description = "For `roles_anywhere`: the trust anchor."
  type        = string
}

variable "common_name" {
  description = "For `roles_anywhere`: the common name that the certificate must have."
  type        = string
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
}
