terraform {
  required_version = ">= 1.4"
}

variable "assembly" {
  description = "Folder of the platform's cloud assembly."
  type        = string
  default     = "assembly"
}

variable "region" {
  description = "Region of the stacks, which is bootstrapped with cdk bootstrap."
  type        = string
}

locals {
  # Changes with each template and each asset, whose names are hashes of their content.
  manifest = filesha256("${var.assembly}/manifest.json")
  stacks = [
    for artifact in values(jsondecode(file("${var.assembly}/manifest.json")).artifacts) :
    artifact.properties.stackName if artifact.type == "aws:cloudformation:stack"
  ]
}

# CloudFormation deploys the stacks, in their order, and rolls back those that fail.
resource "terraform_data" "platform" {
  input            = { assembly = var.assembly, region = var.region }
  triggers_replace = [local.manifest, var.region]

  provisioner "local-exec" {
    command     = "npx --yes aws-cdk@2 deploy --app \"$ASSEMBLY\" --all --require-approval never"
    environment = { ASSEMBLY = self.input.assembly, AWS_REGION = self.input.region }
  }
}

output "stacks" {
  description = "Stacks of the platform: the data source aws_cloudformation_stack reads their outputs."
  value       = local.stacks
  depends_on  = [terraform_data.platform]
}
