# One identity in AWS: a policy, and a user or role that has it.

locals {
  # Who may take the role. A service account or certificate must be the named
  # one: the cluster's other tokens and the CA's other certificates get nothing.
  trust = {
    oidc = {
      Principal = { Federated = var.oidc.provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = {
        StringEquals = {
          "${var.oidc.host}:aud" = var.oidc.audience
          "${var.oidc.host}:sub" = "system:serviceaccount:${var.oidc.service_account}"
        }
      }
    }
    roles_anywhere = {
      Principal = { Service = "rolesanywhere.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:SetSourceIdentity", "sts:TagSession"]
      Condition = {
        ArnEquals    = { "aws:SourceArn" = var.trust_anchor_arn }
        StringEquals = { "aws:PrincipalTag/x509Subject/CN" = var.common_name }
      }
    }
  }
  is_role = contains(["oidc", "roles_anywhere"], var.kind)
}

resource "aws_iam_policy" "this" {
  name   = var.name
  policy = var.policy
  tags   = var.tags
}

resource "aws_iam_user" "this" {
  count = var.kind == "user" ? 1 : 0

  name          = var.name
  force_destroy = true # keys that were rotated by hand go with it
  tags          = var.tags
}

resource "aws_iam_user_policy_attachment" "this" {
  count = var.kind == "user" ? 1 : 0

  user       = aws_iam_user.this[0].name
  policy_arn = aws_iam_policy.this.arn
}

resource "aws_iam_access_key" "this" {
  count = var.kind == "user" ? 1 : 0

  user = aws_iam_user.this[0].name
}

resource "aws_iam_role" "this" {
  count = local.is_role ? 1 : 0

  name = var.name
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [merge({ Effect = "Allow" }, local.trust[var.kind])]
  })
  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "this" {
  count = local.is_role ? 1 : 0

  role       = aws_iam_role.this[0].name
  policy_arn = aws_iam_policy.this.arn
}

resource "aws_rolesanywhere_profile" "this" {
  count = var.kind == "roles_anywhere" ? 1 : 0

  name      = var.name
  enabled   = true
  role_arns = [aws_iam_role.this[0].arn]
  tags      = var.tags
}
