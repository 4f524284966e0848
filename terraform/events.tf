# EC2 → EventBridge → SNS → SQS. Encryption of the topic would need a KMS key of
# one's own that EventBridge may use; a message holds an instance's id and state.

locals {
  rules = {
    for kind, rule in {
      state = {
        wanted      = true
        description = "EC2 instances that start, stop and end"
        pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
      }
      spot = {
        wanted      = var.spot_events
        description = "EC2 spot instances that are about to be interrupted"
        pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
      }
      rebalance = {
        wanted      = var.rebalance_events
        description = "EC2 spot instances that are at risk"
        pattern     = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
      }
      autoscaling = {
        wanted      = var.autoscaling_events
        description = "Lifecycle actions of the Auto Scaling groups of ${var.name}"
        pattern = {
          source      = ["aws.autoscaling"]
          detail-type = ["EC2 Instance-launch Lifecycle Action", "EC2 Instance-terminate Lifecycle Action"]
          detail      = { AutoScalingGroupName = [for name in sort(keys(var.groups)) : "${var.name}-${name}"] }
        }
      }
      health = {
        wanted      = var.health_events
        description = "AWS Health events about EC2"
        pattern     = { source = ["aws.health"], detail-type = ["AWS Health Event"], detail = { service = ["EC2"] } }
      }
      # Through JSON: the patterns differ in what they have.
    } : kind => { description = rule.description, pattern = jsonencode(rule.pattern) } if rule.wanted
  }
}

resource "aws_cloudwatch_event_rule" "events" {
  for_each = local.rules

  name          = "${var.name}-${each.key}"
  description   = each.value.description
  event_pattern = each.value.pattern
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "topic" {
  for_each = local.rules

  rule      = aws_cloudwatch_event_rule.events[each.key].name
  target_id = "topic"
  arn       = aws_sns_topic.events.arn

  depends_on = [aws_sns_topic_policy.events]
}

resource "aws_sns_topic" "events" {
  name = var.name
  tags = var.tags
}

resource "aws_sns_topic_policy" "events" {
  arn = aws_sns_topic.events.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "RulesPublish"
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sns:Publish"
      Resource  = aws_sns_topic.events.arn
      Condition = { ArnEquals = { "aws:SourceArn" = [for kind in keys(local.rules) : aws_cloudwatch_event_rule.events[kind].arn] } }
    }]
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_sqs_queue" "events" {
  name                       = var.name
  message_retention_seconds  = var.message_retention_seconds
  visibility_timeout_seconds = 60
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = true
  tags                       = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = var.max_receive_count
  })
}

resource "aws_sqs_queue_redrive_allow_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.events.arn]
  })
}

resource "aws_sqs_queue_policy" "events" {
  queue_url = aws_sqs_queue.events.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "TopicSends"
      Effect    = "Allow"
      Principal = { Service = "sns.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.events.arn
      Condition = { ArnEquals = { "aws:SourceArn" = aws_sns_topic.events.arn } }
    }]
  })
}

resource "aws_sns_topic_subscription" "queue" {
  topic_arn = aws_sns_topic.events.arn
  protocol  = "sqs"
  endpoint  = aws_sqs_queue.events.arn

  depends_on = [aws_sqs_queue_policy.events]
}
