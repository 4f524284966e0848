//go:build linux

package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// check is one thing that tests rely on. run returns nil when the stand-in has
// it.
type check struct {
	what string
	run  func(ctx context.Context) error
}

// probe runs checks in order and returns one error that says plainly what the
// stand-in has not. Later checks build on earlier ones: the first failure is
// the one to look at.
func probe(ctx context.Context, standIn string, checks []check) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	var missing []string
	for _, c := range checks {
		if err := c.run(ctx); err != nil {
			missing = append(missing, fmt.Sprintf("  %s: %v", c.what, err))
		}
	}
	if missing == nil {
		return nil
	}
	return errors.New(standIn + " has not what the tests rely on:\n" + strings.Join(missing, "\n"))
}
