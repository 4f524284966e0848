//go:build linux

package stack

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"golang.org/x/sync/errgroup"
)

// Region is the region that everything of a stack is in.
const Region = "us-east-2"

// Both stand-ins take any credentials.
const accessKeyID, secretAccessKey = "test", "test"

//go:embed serve_ministack.py
var serveMinistack []byte

func (s *Stack) wireAWS(detach bool) {
	python := filepath.Join(s.state.StandIn, "bin", "python")
	p := s.state.Ports
	s.aws = newClients("http://"+loopback(p.Ministack), "http://"+loopback(p.Moto))

	s.ministack = &service{
		name: "ministack", dir: s.dir, detached: detach, timeout: time.Minute,
		args: []string{python, filepath.Join(s.dir, "serve_ministack.py")},
		env: []string{
			"GATEWAY_PORT=" + strconv.Itoa(p.Ministack),
			"BIND_HOST=127.0.0.1", "IOT_MTLS_ENABLED=0", // its defaults listen on all addresses
			"MINISTACK_REGION=" + Region,
			"TMPDIR=" + s.dir, "S3_DATA_DIR=" + filepath.Join(s.dir, "s3"),
			"DOCKER_HOST=unix:///nowhere", // it looks for containers of its own at start
		},
		ready: func(ctx context.Context) error {
			_, err := s.aws.sqs.ListQueues(ctx, &sqs.ListQueuesInput{})
			return err
		},
	}
	s.moto = &service{
		name: "moto", dir: s.dir, detached: detach, timeout: time.Minute,
		args: []string{python, "-m", "moto.server", "-H", "127.0.0.1", "-p", strconv.Itoa(p.Moto)},
		ready: func(ctx context.Context) error {
			_, err := s.aws.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			return err
		},
	}
}

func (s *Stack) startAWS(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(s.dir, "serve_ministack.py"), serveMinistack, 0o600); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.ministack.start(gctx); err != nil {
			return err
		}
		return s.probeMinistack(gctx)
	})
	g.Go(func() error {
		if err := s.moto.start(gctx); err != nil {
			return err
		}
		return s.probeMoto(gctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	path, err := s.NewPath(ctx, "dynk8s")
	if err != nil {
		return fmt.Errorf("making the stack's own event path: %w", err)
	}
	s.state.Path = path
	return nil
}

// Path is the event path that Env names. It was made with the stack.
func (s *Stack) Path() EventPath { return s.state.Path }

// Env is what a program needs in its environment to work against the stack.
func (s *Stack) Env() map[string]string {
	p := s.state.Path
	return map[string]string{
		"KUBECONFIG":            s.Kubeconfig(),
		"AWS_ENDPOINT_URL":      s.aws.endpoint,
		"AWS_ENDPOINT_URL_EC2":  s.aws.ec2Endpoint,
		"AWS_REGION":            Region,
		"AWS_ACCESS_KEY_ID":     accessKeyID,
		"AWS_SECRET_ACCESS_KEY": secretAccessKey,
		"QUEUE_URL":             p.QueueURL,
		"DLQ_URL":               p.DLQURL,
		"TOPIC_ARN":             p.TopicARN,
		"EVENT_BUS":             p.Bus,
	}
}
