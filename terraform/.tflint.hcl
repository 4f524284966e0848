plugin "terraform" {
  enabled = true
  preset  = "all"
}

plugin "aws" {
  enabled = true
  version = "0.48.0"
  source  = "github.com/terraform-linters/tflint-ruleset-aws"
}

# Inputs stand in files by what they are about; each example is one file.
rule "terraform_standard_module_structure" {
  enabled = false
}
