package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"dynk8s.du5t1n.me/provisioner/pkg/config"
)

// kubernetesCallTimeout bounds one call to the API server, so that one that
// hangs holds nobody up. Watches are not bound by it.
const kubernetesCallTimeout = 30 * time.Second

// kubernetesClients are the clients of the API server.
type kubernetesClients struct {
	// calls has a time-out, watches has none.
	calls, watches kubernetes.Interface
	metadata       metadata.Interface
}

func newKubernetesClients(cfg config.Kubernetes) (*kubernetesClients, error) {
	base, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server (kubernetes.kubeconfig is %q): %w", cfg.Kubeconfig, err)
	}
	base.RateLimiter = newRateLimiter(cfg.QPS, cfg.Burst)
	base.UserAgent = "dynk8s-provisioner/" + buildVersion()
	bounded := rest.CopyConfig(base)
	bounded.Timeout = kubernetesCallTimeout

	clients := &kubernetesClients{}
	if clients.calls, err = kubernetes.NewForConfig(bounded); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if clients.watches, err = kubernetes.NewForConfig(base); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if clients.metadata, err = metadata.NewForConfig(base); err != nil {
		return nil, fmt.Errorf("metadata client of the API server: %w", err)
	}
	return clients, nil
}

// awsClients are the clients of AWS.
type awsClients struct {
	sqs *sqs.Client
	ec2 *ec2.Client
}

func newAWSClients(ctx context.Context, cfg *config.Config, reg prometheus.Registerer) (*awsClients, error) {
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(cfg.AWS.Region),
		// On-premises there is no IMDS; asking for it only delays the error when
		// credentials are missing.
		awsconfig.WithEC2IMDSClientEnableState(imds.ClientDisabled),
		awsconfig.WithAPIOptions([]func(*middleware.Stack) error{countRequests(reg)}),
	}
	if cfg.AWS.CredentialsDirectory != "" {
		options = append(options, awsconfig.WithCredentialsProvider(credentialsDirectory(cfg.AWS.CredentialsDirectory)))
	}
	load := func(ctx context.Context) (aws.Config, error) { return awsconfig.LoadDefaultConfig(ctx, options...) }
	common, err := load(ctx)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w", err)
	}
	common.Credentials = rotating(load)
	return &awsClients{
		sqs: sqs.NewFromConfig(common, func(o *sqs.Options) { o.Region = cfg.Queue.Region }),
		ec2: ec2.NewFromConfig(common),
	}, nil
}

// countRequests counts what every request, retries among them, ended with.
func countRequests(reg prometheus.Registerer) func(*middleware.Stack) error {
	requests := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "dynk8s_aws_requests_total",
		Help: "Requests to AWS, each try counted, by service, operation and code: the HTTP status, AWS's error code, or error when there was no answer.",
	}, []string{"service", "operation", "code"})
	count := middleware.DeserializeMiddlewareFunc("CountRequests",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			requests.WithLabelValues(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), requestCode(out, err)).Inc()
			return out, meta, err
		})
	return func(stack *middleware.Stack) error { return stack.Deserialize.Add(count, middleware.Before) }
}

func requestCode(out middleware.DeserializeOutput, err error) string {
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return apiErr.ErrorCode()
	}
	if response, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil {
		return strconv.Itoa(response.StatusCode)
	}
	return "error"
}
