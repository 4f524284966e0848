package ec2lookup

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// codeNotFound is EC2's answer to the question for an id that it does not know
// (not yet, or no longer).
const codeNotFound = "InvalidInstanceID.NotFound"

// Unknown reports whether EC2 says in so many words that it does not know the
// id. An answer without the instance is not that, and any other error is an
// error. Just after a launch EC2 may not know the id yet.
func (l *Lookup) Unknown(ctx context.Context, id instance.ID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	_, err := l.api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{string(id)}})
	var refused smithy.APIError
	switch {
	case err == nil:
		return false, nil
	case errors.As(err, &refused) && refused.ErrorCode() == codeNotFound:
		return true, nil
	}
	return false, fmt.Errorf("ask EC2 for instance %s: %w", id, err)
}
