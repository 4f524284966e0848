//go:build linux

package ec2world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// CertificatePEM is the certificate with which this EC2 signs identity
// documents, in place of AWS's.
func (w *World) CertificatePEM() ([]byte, error) {
	authority, err := w.authority()
	if err != nil {
		return nil, err
	}
	return authority.CertificatePEM(), nil
}

// Document returns the signed identity document of an instance, as its metadata
// service would give it, on one line.
func (w *World) Document(ctx context.Context, id instance.ID, options ...DocumentOption) (string, error) {
	authority, err := w.authority()
	if err != nil {
		return "", err
	}
	out, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{string(id)}})
	if err != nil {
		return "", fmt.Errorf("identity document of %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if aws.ToString(i.InstanceId) != string(id) {
				continue
			}
			fields := DocumentFields{
				InstanceID: id, Account: account, Region: stack.Region, Type: string(i.InstanceType),
				ImageID: aws.ToString(i.ImageId), PendingTime: aws.ToTime(i.LaunchTime),
			}
			if i.Placement != nil {
				fields.Zone = aws.ToString(i.Placement.AvailabilityZone)
			}
			if address, err := netip.ParseAddr(aws.ToString(i.PrivateIpAddress)); err == nil {
				fields.PrivateIP = address
			}
			for _, o := range options {
				o(&fields)
			}
			return authority.Sign(fields)
		}
	}
	return "", errors.New("EC2's answer does not hold " + string(id))
}

// DocumentFields are what a document says.
type DocumentFields = instanceidentitytest.Fields

// DocumentOption changes what a document says before it is signed.
type DocumentOption func(*DocumentFields)
