// Package ec2lookup asks EC2 about instances: one by one, coalesced into few
// calls, or all that a selector matches.
//
// EC2 is eventually consistent, so an instance that is missing from an answer
// may still exist. Only Unknown gives evidence that one does not.
package ec2lookup

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

const (
	defaultLinger  = 50 * time.Millisecond
	defaultTimeout = 30 * time.Second
)

// Config holds what a Lookup may be told. The zero value is ready for use.
type Config struct {
	// Linger is how long the first caller of Instance waits for others to
	// share its call. 0: 50 ms.
	Linger time.Duration
	// Timeout bounds one question to EC2 with all pages of its answer and the
	// SDK's retries. 0: 30 s.
	Timeout time.Duration
	// Logger gets a warning for each answer that makes no sense. nil:
	// slog.Default().
	Logger *slog.Logger
}

// Lookup asks EC2. It is safe for concurrent use.
type Lookup struct {
	api     ec2.DescribeInstancesAPIClient
	linger  time.Duration
	timeout time.Duration
	log     *slog.Logger

	mu   sync.Mutex
	open *batch // the batch that still takes ids; nil: none
}

// New returns a Lookup that asks api.
func New(api ec2.DescribeInstancesAPIClient, cfg Config) *Lookup {
	return &Lookup{
		api:     api,
		linger:  cmp.Or(cfg.Linger, defaultLinger),
		timeout: cmp.Or(cfg.Timeout, defaultTimeout),
		log:     cmp.Or(cfg.Logger, slog.Default()),
	}
}
