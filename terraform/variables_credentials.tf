variable "daemon_credentials" {
  description = "How the daemon proves itself to AWS: `user` (an IAM user with an access key), `oidc` (a role for the cluster's service account tokens) or `roles_anywhere` (a role for a certificate of your own CA)."
  type        = string
  default     = "user"
  nullable    = false

  validation {
    condition     = contains(["user", "oidc", "roles_anywhere"], var.daemon_credentials)
    error_message = "daemon_credentials is \"${var.daemon_credentials}\": write user, oidc or roles_anywhere."
  }

  validation {
    condition     = var.daemon_credentials != "oidc" || var.oidc != null
    error_message = "daemon_credentials is oidc, but oidc is not set: write oidc = { issuer = \"https://…\" } with the issuer of the cluster's service account tokens."
  }

  validation {
    condition     = var.daemon_credentials != "roles_anywhere" || var.roles_anywhere != null
    error_message = "daemon_credentials is roles_anywhere, but roles_anywhere is not set: write roles_anywhere = { ca_certificate = file(\"ca.pem\") }."
  }
}

variable "autoscaler_credentials" {
  description = "The same for Cluster Autoscaler; `none` makes only its policy."
  type        = string
  default     = "user"
  nullable    = false

  validation {
    condition     = contains(["none", "user", "oidc", "roles_anywhere"], var.autoscaler_credentials)
    error_message = "autoscaler_credentials is \"${var.autoscaler_credentials}\": write none, user, oidc or roles_anywhere."
  }

  validation {
    condition     = var.autoscaler_credentials != "oidc" || var.oidc != null
    error_message = "autoscaler_credentials is oidc, but oidc is not set: write oidc = { issuer = \"https://…\" } with the issuer of the cluster's service account tokens."
  }

  validation {
    condition     = var.autoscaler_credentials != "roles_anywhere" || var.roles_anywhere != null
    error_message = "autoscaler_credentials is roles_anywhere, but roles_anywhere is not set: write roles_anywhere = { ca_certificate = file(\"ca.pem\") }."
  }
}

variable "oidc" {
  description = "For `oidc`: the issuer of the cluster's service account tokens, which AWS must reach over the internet; the audience of the tokens; `provider_arn` of an identity provider that IAM has already (null: one is made); the service accounts, `namespace:name`, of the daemon and of Cluster Autoscaler."
  type = object({
    issuer                     = string
    audience                   = optional(string, "sts.amazonaws.com")
    provider_arn               = optional(string)
    daemon_service_account     = optional(string, "dynk8s:dynk8s-provisioner")
    autoscaler_service_account = optional(string, "kube-system:cluster-autoscaler")
  })
  default = null

  validation {
    condition     = var.oidc == null || can(regex("^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[^\\s?#]*[^\\s?#/])?$", var.oidc.issuer))
    error_message = "oidc.issuer is not an issuer that IAM takes: write an https URL with a lower-case host name, without port, query and slash at its end, exactly as the API server's --service-account-issuer has it."
  }

  validation {
    condition     = var.oidc == null || can(regex("^[^\\s]{1,255}$", var.oidc.audience))
    error_message = "oidc.audience is empty, too long or has spaces: write the audience of the tokens, such as sts.amazonaws.com."
  }

  validation {
    condition     = var.oidc == null || try(var.oidc.provider_arn, null) == null || can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:oidc-provider/[^\\s]+$", var.oidc.provider_arn))
    error_message = "oidc.provider_arn is not the ARN of an OIDC provider: write one such as arn:aws:iam::123456789012:oidc-provider/oidc.example.org, or leave it out to have one made."
  }

  validation {
    condition = var.oidc == null || alltrue([
      for account in [try(var.oidc.daemon_service_account, ""), try(var.oidc.autoscaler_service_account, "")] :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", account))
    ])
    error_message = "oidc.daemon_service_account or oidc.autoscaler_service_account is not namespace:name: write one such as dynk8s:dynk8s-provisioner, without wildcards."
  }
}

variable "roles_anywhere" {
  description = "For `roles_anywhere`: PEM of the CA whose certificates are trusted; the common names that the certificates of the daemon and of Cluster Autoscaler must have."
  type = object({
    ca_certificate         = string
    daemon_common_name     = optional(string, "dynk8s-provisioner")
    autoscaler_common_name = optional(string, "cluster-autoscaler")
  })
  default = null

  validation {
    condition     = var.roles_anywhere == null || can(regex("^\\s*-----BEGIN CERTIFICATE-----\\s[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----\\s*$", var.roles_anywhere.ca_certificate))
    error_message = "roles_anywhere.ca_certificate is not one certificate in PEM: write file(\"ca.pem\"), a file that begins with -----BEGIN CERTIFICATE----- and holds no private key."
  }

  validation {
    condition = var.roles_anywhere == null || alltrue([
      for name in [try(var.roles_anywhere.daemon_common_name, ""), try(var.roles_anywhere.autoscaler_common_name, "")] :
      can(regex("^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}$", name))
    ])
    error_message = "roles_anywhere.daemon_common_name or roles_anywhere.autoscaler_common_name is not a common name: write up to 64 letters, digits, spaces and . _ @ -, without wildcards."
  }

  validation {
    condition     = try(var.roles_anywhere.daemon_common_name != var.roles_anywhere.autoscaler_common_name, true)
    error_message = "roles_anywhere has one common name for both: write two, or each could take the other's role."
  }
}

variable "helm_secret_name" {
  description = "Name of the Secret in the cluster that you put the daemon's access key or, with `roles_anywhere`, its certificate into; it goes into the output `helm_values`."
  type        = string
  default     = "aws"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", var.helm_secret_name))
    error_message = "helm_secret_name is \"${var.helm_secret_name}\": write a Secret's name of lower-case letters, digits, hyphens and dots, such as aws."
  }
}
