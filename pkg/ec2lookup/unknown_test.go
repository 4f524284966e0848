package ec2lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

func refusing(code string) *refusingEC2 {
	return &refusingEC2{err: &smithy.OperationError{
		ServiceID: "EC2", OperationName: "DescribeInstances",
		Err: &smithy.GenericAPIError{Code: code, Message: "said with InvalidInstanceID.NotFound in it"},
	}}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		api     ec2.DescribeInstancesAPIClient
		want    bool
		wantErr bool
	}{
		{"unknown", &knowingEC2{}, true, false},
		{"unknown, wrapped as the SDK does", refusing("InvalidInstanceID.NotFound"), true, false},
		{"known", &knowingEC2{instances: []types.Instance{described(string(idA), types.InstanceStateNameTerminated)}}, false, false},
		{"empty", &emptyEC2{}, false, false},
		{"others", &everythingEC2{pages: [][]types.Instance{{described(string(idB), types.InstanceStateNameRunning)}}}, false, false},
		{"malformed", refusing("InvalidInstanceID.Malformed"), false, true},
		{"not linkable", refusing("InvalidInstanceID.NotLinkable"), false, true},
		{"code of another case", refusing("invalidinstanceid.notfound"), false, true},
		{"longer code", refusing("InvalidInstanceID.NotFoundX"), false, true},
		{"no rights", refusing("UnauthorizedOperation"), false, true},
		{"throttled", &throttledEC2{refusals: 1, next: &knowingEC2{}}, false, true},
		{"the words in another error", &refusingEC2{err: fmt.Errorf("InvalidInstanceID.NotFound")}, false, true},
		{"too slow", &slowEC2{after: time.Hour, next: &knowingEC2{}}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, err := New(tt.api, Config{Logger: quiet()}).Unknown(t.Context(), idA)
				if got != tt.want || (err != nil) != tt.wantErr {
					t.Errorf("Unknown = %v, %v; want %v, error %v", got, err, tt.want, tt.wantErr)
				}
			})
		})
	}
}

func TestUnknownAsksForTheOneID(t *testing.T) {
	t.Parallel()
	api := &knowingEC2{}
	if _, err := New(api, Config{Logger: quiet()}).Unknown(t.Context(), idA); err != nil {
		t.Fatal(err)
	}
	calls := api.calls()
	if len(calls) != 1 || !slices.Equal(calls[0].InstanceIds, []string{string(idA)}) || calls[0].Filters != nil || calls[0].MaxResults != nil {
		t.Errorf("asked %+v", calls)
	}
}

func TestUnknownOfCancelledCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow := &slowEC2{after: time.Hour, next: &knowingEC2{}}
	unknown, err := New(slow, Config{Logger: quiet()}).Unknown(ctx, idA)
	if unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("Unknown = %v, %v", unknown, err)
	}
}
