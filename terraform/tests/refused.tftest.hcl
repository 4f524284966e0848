# What no variable's validation can see, because it takes AWS's answer or the
# rendered user data.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws-us-gov" }
  }
  mock_data "aws_subnet" {
    defaults = { vpc_id = "vpc-0123456789abcdef0" }
  }

  # The real provider looks at these before it plans.
  mock_resource "aws_autoscaling_group" {
    defaults = { arn = "arn:aws:autoscaling:us-east-2:123456789012:autoScalingGroup:0123abcd:autoScalingGroupName/mock" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:us-east-2:123456789012:rule/mock" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/mock" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/mock" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_rolesanywhere_trust_anchor" {
    defaults = { arn = "arn:aws:rolesanywhere:us-east-2:123456789012:trust-anchor/mock" }
  }
  mock_resource "aws_security_group" {
    defaults = { id = "sg-0123456789abcdef0" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-2:123456789012:mock" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:us-east-2:123456789012:mock", url = "https://sqs.us-east-2.amazonaws.com/123456789012/mock" }
  }
}

variables {
  cluster    = "home"
  endpoint   = "https://join.example.org"
  subnet_ids = ["subnet-00000001", "subnet-00000002"]
  groups     = { burst = { instance_types = ["t3.medium"], max_size = 3, ami_id = "ami-00000001" } }
}

run "accepted" {
  command = plan
}

run "fedoras_account_in_another_partition" {
  command = plan
  variables {
    groups = { burst = { instance_types = ["t3.medium"], max_size = 3 } }
  }
  expect_failures = [data.aws_ami.fedora]
}

run "own_account_in_another_partition" {
  command = plan
  variables {
    ami_owner = "self"
    groups    = { burst = { instance_types = ["t3.medium"], max_size = 3 } }
  }
}

run "user_data_too_large" {
  command = plan
  variables {
    # A text that compresses badly.
    extra_commands = [join("", [for i in range(400) : "${sha256(tostring(i))} "])]
  }
  expect_failures = [aws_launch_template.nodes]
}
