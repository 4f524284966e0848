package ec2lookup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// pageSize is the most EC2 puts on one page.
const pageSize = 1000

// Instances returns those of the instances that EC2's answer holds; the others
// are just absent from the map, which is no evidence that they are gone. Any
// failing call is an error and no map.
func (l *Lookup) Instances(ctx context.Context, ids []instance.ID) (map[instance.ID]instance.Instance, error) {
	all := make(map[instance.ID]instance.Instance, len(ids))
	unique := slices.Compact(slices.Sorted(slices.Values(ids)))
	for chunk := range slices.Chunk(unique, maxFilterValues) {
		found, err := l.byIDs(ctx, chunk)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// byIDs asks for at most maxFilterValues instances, by filter: asked by
// InstanceIds, EC2 refuses the whole call for one unknown id. Beside an error
// the map holds what was answered before it.
func (l *Lookup) byIDs(ctx context.Context, ids []instance.ID) (map[instance.ID]instance.Instance, error) {
	values := make([]string, len(ids))
	for i, id := range ids {
		values[i] = string(id)
	}
	found := make(map[instance.ID]instance.Instance, len(ids))
	err := l.describe(ctx, []types.Filter{filter("instance-id", values...)}, func(i instance.Instance) {
		if _, asked := slices.BinarySearch(ids, i.ID); asked {
			found[i.ID] = i
		}
	})
	return found, err
}

// describe calls visit for each instance on each page of the answer. What
// makes no sense in it is skipped with a warning. Whether EC2 kept to the
// filters is for visit to check.
func (l *Lookup) describe(ctx context.Context, filters []types.Filter, visit func(instance.Instance)) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	input := &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(pageSize)}
	pages := ec2.NewDescribeInstancesPaginator(l.api, input, func(o *ec2.DescribeInstancesPaginatorOptions) {
		o.StopOnDuplicateToken = true
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("describe instances: %w", err)
		}
		l.each(page, visit)
	}
	return nil
}

// each calls visit for each instance on one page.
func (l *Lookup) each(page *ec2.DescribeInstancesOutput, visit func(instance.Instance)) {
	for _, reservation := range page.Reservations {
		for i := range reservation.Instances {
			described, err := fromEC2(&reservation.Instances[i])
			if err != nil {
				l.log.Warn("skipped an instance in EC2's answer",
					"instance", aws.ToString(reservation.Instances[i].InstanceId), "err", err)
				continue
			}
			visit(described)
		}
	}
}
