variable "subnet_ids" {
  description = "Subnets of one VPC that instances start in. They need a way to the internet: public addresses or a NAT gateway."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0 && alltrue([for id in var.subnet_ids : can(regex("^subnet-([0-9a-f]{8}|[0-9a-f]{17})$", id))])
    error_message = "subnet_ids is empty or has one that is no subnet's id: write ids such as subnet-0123456789abcdef0."
  }

  validation {
    condition     = length(distinct(var.subnet_ids)) == length(var.subnet_ids)
    error_message = "subnet_ids names a subnet twice: write each once."
  }
}

variable "public_ip" {
  description = "Give instances a public IPv4 address (about 3.60 USD a month while one runs, less than a NAT gateway). `null`: as the subnet says."
  type        = bool
  default     = true
}

variable "extra_security_group_ids" {
  description = "More security groups of the instances. The module's own lets nothing in and everything out."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.extra_security_group_ids) <= 4 && alltrue([for id in var.extra_security_group_ids : can(regex("^sg-([0-9a-f]{8}|[0-9a-f]{17})$", id))])
    error_message = "extra_security_group_ids has more than four or one that is no security group's id: write up to four such as sg-0123456789abcdef0."
  }
}

variable "fedora_release" {
  description = "Fedora release of the instances. It must have the packages of `kubernetes_version`."
  type        = number
  default     = 43
  nullable    = false

  validation {
    condition     = floor(var.fedora_release) == var.fedora_release && var.fedora_release >= 41 && var.fedora_release <= 99
    error_message = "fedora_release is ${var.fedora_release}: write a whole number, 41 or later, as earlier releases have no versioned Kubernetes packages."
  }
}

variable "ami_owner" {
  description = "Account that owns the images. The default is the Fedora release team's in the partition aws; elsewhere write the account that you copied the images to."
  type        = string
  default     = "125523088429"
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]{12}|self)$", var.ami_owner))
    error_message = "ami_owner is \"${var.ami_owner}\": write the 12 digits of an account, quoted, or self."
  }
}

variable "ssh_key_name" {
  description = "EC2 key pair for user fedora, for looking at instances over the VPN. `null`: none."
  type        = string
  default     = null

  validation {
    condition     = var.ssh_key_name == null || can(regex("^[!-~]([ -~]{0,253}[!-~])?$", var.ssh_key_name))
    error_message = "ssh_key_name is no key pair's name: write one of up to 255 ASCII characters, or null."
  }
}

variable "instance_profile_name" {
  description = "IAM instance profile of the instances. They need none; pods could use its rights if the hop limit were not 1. `null`: none."
  type        = string
  default     = null

  validation {
    condition     = var.instance_profile_name == null || can(regex("^[\\w+=,.@-]{1,128}$", var.instance_profile_name))
    error_message = "instance_profile_name is no instance profile's name: write the name, not the ARN, or null."
  }
}

variable "volume_kms_key_arn" {
  description = "KMS key of the root volumes. `null`: AWS's own key for EBS; volumes are always encrypted."
  type        = string
  default     = null

  validation {
    condition     = var.volume_kms_key_arn == null || can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.volume_kms_key_arn))
    error_message = "volume_kms_key_arn is not the ARN of a KMS key: write one such as arn:aws:kms:us-east-2:123456789012:key/0123abcd-0123-0123-0123-0123456789ab, or null."
  }
}

variable "groups" {
  description = "Auto Scaling groups by name; each becomes a profile of the daemon. [Below](#groups) is what an entry has."
  type = map(object({
    instance_types     = list(string)
    max_size           = number
    architecture       = optional(string, "x86_64")
    spot               = optional(bool, false)
    on_demand_base     = optional(number, 0)
    capacity_rebalance = optional(bool, false)
    root_volume_gib    = optional(number, 20)
    ami_id             = optional(string)
    key_selector       = optional(string, "")
    labels             = optional(map(string), {})
    restricted_labels  = optional(map(string), {})
    taints             = optional(list(object({ key = string, value = optional(string, ""), effect = string })), [])
    restricted_taints  = optional(list(object({ key = string, value = optional(string, ""), effect = string })), [])
    resources          = optional(map(string), {})
  }))
  nullable = false

  validation {
    condition     = length(var.groups) > 0 && alltrue([for name, group in var.groups : can(regex("^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$", name)) && group != null])
    error_message = "groups is empty or has a name that is no DNS label of up to 20 characters: write at least one, such as burst = { instance_types = [\"t3.medium\"], max_size = 3 }."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : contains(["x86_64", "aarch64"], group.architecture)])
    error_message = "A group's architecture is neither x86_64 nor aarch64: write one of the two."
  }

  validation {
    condition = alltrue([
      for group in values(var.groups) : length(group.instance_types) > 0 && length(group.instance_types) <= 40 && length(distinct(group.instance_types)) == length(group.instance_types) &&
      alltrue([for type in group.instance_types : can(regex("^[a-z][a-z0-9-]*[0-9][a-z0-9-]*\\.[a-z0-9-]+$", type))])
    ])
    error_message = "A group's instance_types is empty, has more than 40, one twice, or one that is no instance type: write types of like size, the one you like best first, such as [\"m7i.large\", \"m6i.large\"]."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for type in group.instance_types : (group.architecture == "aarch64") == can(regex("^(a1|[a-z]+[0-9]+g[a-z0-9-]*)\\.", type))
      ]
    ]))
    error_message = "A group has an instance type of the other architecture: types with a g after the number (t4g, m7g) are aarch64, all others x86_64; write two groups."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : floor(group.max_size) == group.max_size && group.max_size >= 1 && group.max_size <= 1000])
    error_message = "A group's max_size is no whole number from 1 to 1000: write how many instances may run at once, no more than there are WireGuard keys."
  }

  validation {
    condition = alltrue([
      for group in values(var.groups) : floor(group.on_demand_base) == group.on_demand_base && group.on_demand_base >= 0 && group.on_demand_base <= group.max_size && (group.spot || group.on_demand_base == 0)
    ])
    error_message = "A group's on_demand_base is not from 0 to max_size, or stands without spot = true: write how many instances are on demand before spot begins."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : group.spot || !group.capacity_rebalance])
    error_message = "A group has capacity_rebalance without spot: write spot = true, or leave it out, as only spot instances are rebalanced."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : floor(group.root_volume_gib) == group.root_volume_gib && group.root_volume_gib >= 10 && group.root_volume_gib <= 16384])
    error_message = "A group's root_volume_gib is no whole number from 10 to 16384: write GiB that hold Fedora (5) and the images of its pods."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : group.ami_id == null || can(regex("^ami-([0-9a-f]{8}|[0-9a-f]{17})$", group.ami_id))])
    error_message = "A group's ami_id is no image's id: write one such as ami-0123456789abcdef0, or leave it out for the newest of fedora_release."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : can(regex("^[A-Za-z0-9_./=!,() -]*$", group.key_selector))])
    error_message = "A group's key_selector is no label selector: write conditions on the labels of key Secrets, such as site=home,tier notin (spare), or leave it out for all keys."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for key, value in merge(group.labels, group.restricted_labels) : length(key) <= 82 && value != null &&
        can(regex("^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", key)) &&
        can(regex("^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", value))
      ]
    ]))
    error_message = "A group has a label that Kubernetes refuses or whose key is longer than 82 characters (a tag must hold it): write prefix/name = \"value\", names and values of up to 63 letters, digits, hyphens, underscores and dots."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for key in keys(group.labels) : !can(regex("^([^/]*\\.)?(kubernetes|k8s)\\.io/", key)) || can(regex("^([^/]*\\.)?(kubelet|node)\\.kubernetes\\.io/", key))
      ]
    ]))
    error_message = "A group has under labels one that a kubelet may not give itself, so the join would fail: write those under kubernetes.io and k8s.io, such as node-role.kubernetes.io/burst, in restricted_labels."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for key in concat(keys(group.labels), keys(group.restricted_labels)) : !contains([
          "dynk8s.du5t1n.me/ec2-instance-id", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
          "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname",
        ], key)
      ]
    ]))
    error_message = "A group has a label that the daemon or the kubelet sets itself (instance id and type, zone, architecture, host name): leave it out."
  }

  validation {
    condition     = alltrue([for group in values(var.groups) : length(setintersection(keys(group.labels), keys(group.restricted_labels))) == 0])
    error_message = "A group has one label under both labels and restricted_labels: write it once."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for taint in concat(group.taints, group.restricted_taints) : contains(["NoSchedule", "PreferNoSchedule", "NoExecute"], taint.effect) && length(taint.key) <= 82 &&
        can(regex("^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", taint.key)) &&
        can(regex("^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", taint.value))
      ]
    ]))
    error_message = "A group has a taint that Kubernetes refuses: write { key = \"example.org/burst\", value = \"\", effect = \"NoSchedule\" }, the effect one of NoSchedule, PreferNoSchedule, NoExecute."
  }

  validation {
    condition = alltrue([
      for group in values(var.groups) : length(distinct([for taint in concat(group.taints, group.restricted_taints) : taint.key])) == length(group.taints) + length(group.restricted_taints)
    ])
    error_message = "A group has two taints with one key: write one, as a tag of the Auto Scaling group holds one value."
  }

  validation {
    condition = alltrue(flatten([
      for group in values(var.groups) : [
        for name, quantity in group.resources : length(name) <= 78 && !contains(["cpu", "memory", "pods"], name) && quantity != null &&
        can(regex("^(ephemeral-storage|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$", name)) &&
        can(regex("^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$", quantity))
      ]
    ]))
    error_message = "A group has a resource that no node can have: write a device plug-in's name and a quantity, such as \"github.com/fuse\" = \"1\"; cpu, memory and pods follow from the instance type."
  }

  validation {
    condition = alltrue([
      for group in values(var.groups) : length(group.labels) + length(group.restricted_labels) + length(group.taints) + length(group.restricted_taints) + length(group.resources) <= 22
    ])
    error_message = "A group has more than 22 labels, taints and resources: write fewer, as each is a tag and an Auto Scaling group takes 50."
  }
}
