package property

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// member is one member of a JSON object, its value written already.
type member struct{ key, value string }

// happening is what an event tells, whatever its shape.
type happening struct {
	eventID string
	id      instance.ID
	state   instance.State
	when    time.Time
	zone    *time.Location
}

func instanceIDs() *rapid.Generator[instance.ID] {
	return rapid.Map(rapid.StringMatching(`i-([0-9a-f]{8}|[0-9a-f]{17})`), func(s string) instance.ID { return instance.ID(s) })
}

func happenings() *rapid.Generator[happening] {
	return rapid.Custom(func(t *rapid.T) happening {
		return happening{
			eventID: rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}`).Draw(t, "event id"),
			id:      instanceIDs().Draw(t, "id"),
			state: rapid.SampledFrom([]instance.State{
				instance.Pending, instance.Running, instance.Stopping, instance.Stopped, instance.ShuttingDown, instance.Terminated,
			}).Draw(t, "state"),
			when: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "when"), 0).UTC(),
			zone: time.FixedZone("", 60*rapid.IntRange(-12*60, 14*60).Draw(t, "zone")),
		}
	})
}

// raw is the event itself, as EventBridge sends it.
func (h happening) raw(t *rapid.T) string {
	detail := object(t, []string{"state", "instance-id"},
		member{"instance-id", quoted(t, string(h.id))}, member{"state", quoted(t, string(h.state))})
	members := []member{
		{"id", quoted(t, h.eventID)},
		{"source", quoted(t, "aws.ec2")},
		{"detail-type", quoted(t, "EC2 Instance State-change Notification")},
		{"time", quoted(t, h.when.In(h.zone).Format(time.RFC3339))},
		{"detail", detail},
	}
	if rapid.Bool().Draw(t, "has a version") {
		members = append(members, member{"version", quoted(t, "0")})
	}
	return object(t, []string{"id", "source", "detail-type", "time", "detail", "version"}, members...)
}

// want is what Parse should give for the raw event.
func (h happening) want() ec2event.Event {
	return ec2event.Event{
		Kind: ec2event.KindStateChange, ID: h.eventID, Source: "aws.ec2",
		DetailType: "EC2 Instance State-change Notification", Time: h.when, InstanceID: h.id, State: h.state,
	}
}

// launching is the message of an Auto Scaling hook that tells of the instance's
// launch, sent without EventBridge.
func (h happening) launching(t *rapid.T) string {
	members := []member{
		{"Service", quoted(t, "AWS Auto Scaling")},
		{"Time", quoted(t, h.when.In(h.zone).Format(time.RFC3339))},
		{"LifecycleTransition", quoted(t, "autoscaling:EC2_INSTANCE_LAUNCHING")},
		{"EC2InstanceId", quoted(t, string(h.id))},
		{"AutoScalingGroupName", quoted(t, "workers")},
	}
	return object(t, []string{"Service", "Time", "LifecycleTransition", "EC2InstanceId", "Event", "Message", "detail-type", "source"}, members...)
}

// launchAction is the same by way of EventBridge.
func (h happening) launchAction(t *rapid.T) string {
	detail := object(t, []string{"EC2InstanceId"},
		member{"EC2InstanceId", quoted(t, string(h.id))},
		member{"LifecycleTransition", quoted(t, "autoscaling:EC2_INSTANCE_LAUNCHING")})
	return object(t, []string{"id", "source", "detail-type", "time", "detail"},
		member{"id", quoted(t, h.eventID)},
		member{"source", quoted(t, "aws.autoscaling")},
		member{"detail-type", quoted(t, "EC2 Instance-launch Lifecycle Action")},
		member{"time", quoted(t, h.when.In(h.zone).Format(time.RFC3339))},
		member{"detail", detail})
}

// envelope is the SNS envelope round a message.
func envelope(t *rapid.T, message string) string {
	members := []member{{"Message", quoted(t, message)}}
	if rapid.Bool().Draw(t, "has a type") {
		members = append(members, member{"Type", quoted(t, "Notification")})
	}
	return object(t, []string{"Message", "Type", "detail-type"}, members...)
}

// object writes a JSON object with its members in any order, among others that
// mean nothing: any key but those in known, some of them twice or a known one in
// another case.
func object(t *rapid.T, known []string, members ...member) string {
	members = append(members, strange(t, known)...)
	members = rapid.Permutation(members).Draw(t, "order")
	var b strings.Builder
	b.WriteString(space(t) + "{")
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(space(t) + quoted(t, m.key) + space(t) + ":" + space(t) + m.value + space(t))
	}
	b.WriteString("}" + space(t))
	return b.String()
}

func strange(t *rapid.T, known []string) []member {
	key := rapid.OneOf(
		rapid.SampledFrom([]string{"account", "region", "resources", "Subject", "State", "x"}),
		rapid.Map(rapid.SampledFrom(known), strings.ToUpper),
		rapid.StringOfN(rapid.SampledFrom(letters), 0, 4, -1),
	).Filter(func(s string) bool { return !slices.Contains(known, s) })
	value := rapid.SampledFrom([]string{
		`null`, `1e400`, `-0.5`, `true`, `""`, `"running"`, `"i-0123456789abcdef0"`, `[]`, `[[{}]]`,
		`{"state":"terminated","instance-id":"i-ffffffff"}`, `"\ud800"`,
	})
	var members []member
	for range rapid.IntRange(0, 4).Draw(t, "strange members") {
		members = append(members, member{key.Draw(t, "key"), value.Draw(t, "value")})
	}
	if len(members) > 0 && rapid.Bool().Draw(t, "twice") {
		members = append(members, members[0])
	}
	return members
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n"}).Draw(t, "space")
}

// quoted writes a JSON string in one of its spellings.
func quoted(t *rapid.T, s string) string {
	if rapid.IntRange(0, 7).Draw(t, "spelling") > 0 {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04X`, r)
	}
	return b.String() + `"`
}
