package ec2event

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	shortID instance.ID = "i-abcd1111"
	longID  instance.ID = "i-0123456789abcdef0"
)

// at parses a time of the test data.
func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// wants says what each file in testdata is.
func wants() map[string]Event {
	const (
		eventID = "6a7e8feb-b491-4cf7-a9f1-bf3703467718"
		scaling = "aws.autoscaling"
	)
	when := at("2026-11-30T05:59:58Z")
	hookTime := at("2026-11-30T05:59:57.519Z")
	testTime := at("2026-11-30T05:00:00.1Z")
	other := func(source, detailType string) Event {
		return Event{Kind: KindOther, ID: eventID, Source: source, DetailType: detailType, Time: when}
	}
	change := func(id string, t time.Time, i instance.ID, s instance.State) Event {
		return Event{
			Kind: KindStateChange, ID: id, Source: "aws.ec2", DetailType: "EC2 Instance State-change Notification",
			Time: t, InstanceID: i, State: s,
		}
	}
	direct := func(kind Kind, detailType string, t time.Time, i instance.ID, s instance.State) Event {
		return Event{Kind: kind, Source: scaling, DetailType: detailType, Time: t, InstanceID: i, State: s}
	}
	launch := Event{
		Kind: KindStateChange, ID: eventID, Source: scaling, DetailType: "EC2 Instance-launch Lifecycle Action",
		Time: when, InstanceID: longID, State: instance.Pending,
	}
	return map[string]Event{
		"raw-running.json": change(
			"7bf73129-1428-4cd3-a780-95db273d1602", at("2021-11-11T21:29:54Z"), shortID, instance.Running),
		"raw-terminated-no-version.json": change(
			"4c7a4e1f-70ee-4b52-9a6e-2f0c7f5b5a31", at("2026-11-30T06:01:12Z"), longID, instance.Terminated),
		"raw-bom-shutting-down.json": change(
			"0d7f3a49-2d5c-4f22-8a5b-1b6c4f9a7e10", at("2026-11-30T06:00:41Z"), longID, instance.ShuttingDown),
		"raw-unknown-fields.json":             change(eventID, when, longID, instance.Stopped),
		"raw-lifecycle-launch.json":           launch,
		"raw-lifecycle-launch-warm-pool.json": launch,
		"raw-lifecycle-terminate.json":        other(scaling, "EC2 Instance-terminate Lifecycle Action"),
		"raw-spot-interruption.json":          other("aws.ec2", "EC2 Spot Instance Interruption Warning"),
		"raw-health.json":                     other("aws.health", "AWS Health Event"),
		"raw-unknown-state.json":              other("aws.ec2", "EC2 Instance State-change Notification"),
		"raw-other-source.json":               other("aws.s3", "Object Created"),
		"sns-pending.json":                    change(eventID, when, longID, instance.Pending),
		"sns-running-attributes.json":         change(eventID, when, longID, instance.Running),
		"sns-rebalance.json":                  other("aws.ec2", "EC2 Instance Rebalance Recommendation"),
		"sns-subscription-confirmation.json": {
			Kind: KindOther, Source: "aws.sns", DetailType: "SubscriptionConfirmation", Time: at("2026-11-30T06:00:01.303Z"),
		},
		"sns-asg-launching.json": direct(
			KindStateChange, "autoscaling:EC2_INSTANCE_LAUNCHING", hookTime, longID, instance.Pending),
		"asg-launching.json": direct(
			KindStateChange, "autoscaling:EC2_INSTANCE_LAUNCHING", hookTime, longID, instance.Pending),
		"asg-terminating.json": direct(KindOther, "autoscaling:EC2_INSTANCE_TERMINATING", hookTime, "", ""),
		"asg-notification-launch.json": direct(
			KindOther, "autoscaling:EC2_INSTANCE_LAUNCH", at("2026-11-30T06:00:20.204Z"), "", ""),
		"asg-test-notification.json":     direct(KindOther, "autoscaling:TEST_NOTIFICATION", testTime, "", ""),
		"sns-asg-test-notification.json": direct(KindOther, "autoscaling:TEST_NOTIFICATION", testTime, "", ""),
	}
}

// samples returns the files in testdata by name.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = body
	}
	return files
}

func TestParseSamples(t *testing.T) {
	t.Parallel()
	files, wants := samples(t), wants()
	for name := range wants {
		if files[name] == nil {
			t.Errorf("testdata/%s is missing", name)
		}
	}
	for name, body := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, known := wants[name]
			if !known {
				t.Fatal("nothing says what this file is")
			}
			got, err := Parse(body)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("Parse:\n got %+v\nwant %+v", got, want)
			}
		})
	}
}
