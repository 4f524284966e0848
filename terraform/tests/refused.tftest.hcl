# What no variable's validation can see, because it takes AWS's answer or the
# rendered user data.

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws-us-gov" }
  }
  mock_data "aws_subnet" {
    defaults = { vpc_id = "vpc-0123456789abcdef0" }
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
