output "policy_arn" {
  description = "ARN of the policy."
  value       = aws_iam_policy.this.arn
}

output "access_key_id" {
  description = "Id of the user's access key; null without a user."
  value       = one(aws_iam_access_key.this[*].id)
}

output "secret_access_key" {
  description = "The user's secret access key; null without a user."
  value       = one(aws_iam_access_key.this[*].secret)
  sensitive   = true
}

output "role_arn" {
  description = "ARN of the role; null without one."
  value       = one(aws_iam_role.this[*].arn)
}

output "profile_arn" {
  description = "ARN of the Roles Anywhere profile; null without one."
  value       = one(aws_rolesanywhere_profile.this[*].arn)
}
