data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  account = data.aws_caller_identity.current.account_id
  # id: the one attribute with the name that versions 5 and 6 of the provider share.
  region = data.aws_region.current.id

  # By these two tags the daemon knows an instance and its profile.
  cluster_tag = "dynk8s.du5t1n.me/cluster"
  group_tag   = "dynk8s.du5t1n.me/group"
}
