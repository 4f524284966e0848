variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
  default     = "dynk8s"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "name is \"${var.name}\": write 2 to 24 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen, such as dynk8s."
  }
}

variable "cluster" {
  description = "Name of the on-premises cluster: the value of the tag `dynk8s.du5t1n.me/cluster`, which the daemon's selector matches, and part of the tag by which Cluster Autoscaler finds its groups."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$", var.cluster))
    error_message = "cluster is \"${var.cluster}\": write 1 to 63 lower-case letters, digits, dots and hyphens, such as home."
  }

  validation {
    condition     = !contains(["enabled", "disabled", "node-template"], var.cluster)
    error_message = "cluster is \"${var.cluster}\", which Cluster Autoscaler's own tags use: write another name, such as home."
  }
}

variable "tags" {
  description = "Tags of all resources, instances and volumes included."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition = alltrue([
      for key, value in var.tags : value != null && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key)) && can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))
    ])
    error_message = "tags has one that AWS refuses: write keys of 1 to 128 and values of up to 256 letters, digits, spaces and _ . : / = + - @."
  }

  validation {
    condition     = !anytrue([for key in keys(var.tags) : can(regex("^(?i:aws:)|^k8s\\.io/cluster-autoscaler/|^dynk8s\\.du5t1n\\.me/|^Name$", key))])
    error_message = "tags has a key that begins with aws:, k8s.io/cluster-autoscaler/ or dynk8s.du5t1n.me/, or is Name: leave it out, as AWS or this module sets those."
  }

  validation {
    condition     = length(var.tags) <= 20
    error_message = "tags has ${length(var.tags)} entries: write at most 20, as the module adds its own and AWS takes 50 on one resource."
  }
}

variable "spot_events" {
  description = "Send EC2's spot interruption warnings to the queue too. The daemon settles them and does nothing: it acts when the instance ends."
  type        = bool
  default     = false
  nullable    = false
}

variable "rebalance_events" {
  description = "Send EC2's rebalance recommendations to the queue too. The daemon settles them and does nothing."
  type        = bool
  default     = false
  nullable    = false
}

variable "autoscaling_events" {
  description = "Send the lifecycle actions of this module's Auto Scaling groups to the queue too. They come only from groups that have lifecycle hooks; the daemon takes a launch as a hint and completes no action."
  type        = bool
  default     = false
  nullable    = false
}

variable "health_events" {
  description = "Send AWS Health's events about EC2 to the queue too. The daemon settles them and does nothing."
  type        = bool
  default     = false
  nullable    = false
}

variable "message_retention_seconds" {
  description = "How long the queue keeps a message that nobody finishes. The dead-letter queue always keeps them 14 days."
  type        = number
  default     = 1209600
  nullable    = false

  validation {
    condition     = floor(var.message_retention_seconds) == var.message_retention_seconds && var.message_retention_seconds >= 86400 && var.message_retention_seconds <= 1209600
    error_message = "message_retention_seconds is ${var.message_retention_seconds}: write a whole number from 86400 (a day; instances that wait for a key need their messages) to 1209600 (14 days, the most that SQS takes)."
  }
}

variable "max_receive_count" {
  description = "After how many receives a message goes to the dead-letter queue. An instance that waits for a free key receives its message again and again."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = floor(var.max_receive_count) == var.max_receive_count && var.max_receive_count >= 20 && var.max_receive_count <= 1000
    error_message = "max_receive_count is ${var.max_receive_count}: write a whole number from 20 (fewer make dead letters of instances that wait for a free key) to 1000."
  }
}
