variable "endpoint" {
  description = "Base URL of the daemon's artifact endpoint, as instances reach it before they have a VPN."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:]+\\])(:[0-9]{1,5})?$", var.endpoint)) && try(tonumber(regex("(?:[^:\\]]|\\]):([0-9]+)$", var.endpoint)[0]), 443) <= 65535 && try(tonumber(regex("(?:[^:\\]]|\\]):([0-9]+)$", var.endpoint)[0]), 443) > 0
    error_message = "endpoint is \"${var.endpoint}\": write https://, a host name or address, and a port if it is not 443, without a path: https://join.example.org:8443."
  }
}

variable "endpoint_ca_certificate" {
  description = "PEM of the CA that signed the endpoint's certificate; instances then trust no other. Empty: the public CAs that Fedora trusts."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^(\\s*-----BEGIN CERTIFICATE-----\\s[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----\\s*)*$", var.endpoint_ca_certificate))
    error_message = "endpoint_ca_certificate is not PEM of certificates alone: write file(\"ca.pem\"), without text around the certificates and without a private key, or leave it empty."
  }
}

variable "wireguard_interface" {
  description = "Name of the WireGuard interface on the instances."
  type        = string
  default     = "dynk8s"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9_-]{0,14}$", var.wireguard_interface)) && var.wireguard_interface != "lo"
    error_message = "wireguard_interface is \"${var.wireguard_interface}\": write up to 15 lower-case letters, digits, hyphens and underscores, beginning with a letter, such as dynk8s."
  }

  validation {
    condition     = !can(regex("^(eth[0-9]|en[opsx][0-9]|cali|cni|vxlan|tunl)", var.wireguard_interface))
    error_message = "wireguard_interface is \"${var.wireguard_interface}\", a name that the network card or the pod network may have: write another, such as dynk8s."
  }
}

variable "wait_seconds" {
  description = "How long an instance goes on asking for its artifacts."
  type        = number
  default     = 1800
  nullable    = false

  validation {
    condition     = floor(var.wait_seconds) == var.wait_seconds && var.wait_seconds >= 600 && var.wait_seconds <= 86400
    error_message = "wait_seconds is ${var.wait_seconds}: write a whole number from 600 (ten minutes; a key may be free only then) to 86400."
  }
}

variable "kubernetes_version" {
  description = "Minor version of Kubernetes, which names Fedora's packages: kubelet, kubeadm and CRI-O. Not newer than the cluster's."
  type        = string
  default     = "1.34"
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[0-9]{2}$", var.kubernetes_version)) && try(tonumber(split(".", var.kubernetes_version)[1]) >= 29, false)
    error_message = "kubernetes_version is \"${var.kubernetes_version}\": write the minor version alone, 1.29 or later, quoted, as in Fedora's package names (kubernetes1.34): \"1.34\"."
  }
}

variable "dnf_automatic" {
  description = "Install security updates by themselves, with dnf-automatic."
  type        = bool
  default     = false
  nullable    = false
}

variable "user_namespaces" {
  description = "Prepare CRI-O for pods with user namespaces."
  type        = bool
  default     = false
  nullable    = false
}

variable "extra_commands" {
  description = "Shell commands that an instance runs before it joins. Everybody who may read the launch template, and every pod that reaches instance metadata, sees them: no secrets."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for command in var.extra_commands : command != null && trimspace(coalesce(command, " ")) != ""])
    error_message = "extra_commands has an empty one: write a shell command, or leave it out."
  }
}
