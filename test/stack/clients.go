//go:build linux

package stack

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// clients speak to the stand-ins. They read nothing from the environment, so
// that no test ever reaches a real account by accident.
type clients struct {
	endpoint, ec2Endpoint string

	sqs    *sqs.Client
	sns    *sns.Client
	events *eventbridge.Client
	sts    *sts.Client
	ec2    *ec2.Client
}

func newClients(endpoint, ec2Endpoint string) *clients {
	main, forEC2 := awsConfig(endpoint), awsConfig(ec2Endpoint)
	return &clients{
		endpoint: endpoint, ec2Endpoint: ec2Endpoint,
		sqs:    sqs.NewFromConfig(main),
		sns:    sns.NewFromConfig(main),
		events: eventbridge.NewFromConfig(main),
		sts:    sts.NewFromConfig(main),
		ec2:    ec2.NewFromConfig(forEC2),
	}
}

func awsConfig(endpoint string) aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKeyID, secretAccessKey, ""),
	}
}

// SQS is a client of the stack's queues.
func (s *Stack) SQS() *sqs.Client { return s.aws.sqs }

// SNS is a client of the stack's topics.
func (s *Stack) SNS() *sns.Client { return s.aws.sns }

// EventBridge is a client of the stack's event buses.
func (s *Stack) EventBridge() *eventbridge.Client { return s.aws.events }

// EC2 is a client of the stack's instances.
func (s *Stack) EC2() *ec2.Client { return s.aws.ec2 }
