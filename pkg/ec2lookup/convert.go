package ec2lookup

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// fromEC2 returns what we need to know of i. Without a good id and a known
// state that is nothing; all else may be missing.
func fromEC2(i *types.Instance) (instance.Instance, error) {
	id, err := instance.ParseID(aws.ToString(i.InstanceId))
	if err != nil {
		return instance.Instance{}, err
	}
	if i.State == nil {
		return instance.Instance{}, errors.New("instance has no state")
	}
	state, known := instance.ParseState(string(i.State.Name))
	if !known {
		return instance.Instance{}, fmt.Errorf("%.64q is no instance state", i.State.Name)
	}
	return instance.Instance{
		ID:              id,
		State:           state,
		LaunchTime:      aws.ToTime(i.LaunchTime),
		Type:            string(i.InstanceType),
		Zone:            zone(i.Placement),
		PrivateDNSName:  aws.ToString(i.PrivateDnsName),
		PublicAddresses: publicAddresses(i),
		Tags:            tags(i.Tags),
	}, nil
}

func zone(p *types.Placement) string {
	if p == nil {
		return ""
	}
	return aws.ToString(p.AvailabilityZone)
}

// publicAddresses leaves out what is no address.
func publicAddresses(i *types.Instance) []netip.Addr {
	texts := []string{aws.ToString(i.PublicIpAddress)}
	for _, n := range i.NetworkInterfaces {
		if n.Association != nil {
			texts = append(texts, aws.ToString(n.Association.PublicIp))
		}
		for _, v6 := range n.Ipv6Addresses {
			texts = append(texts, aws.ToString(v6.Ipv6Address))
		}
	}
	var addresses []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// tags returns a map that is never nil.
func tags(list []types.Tag) map[string]string {
	m := make(map[string]string, len(list))
	for _, tag := range list {
		if tag.Key != nil {
			m[*tag.Key] = aws.ToString(tag.Value)
		}
	}
	return m
}
