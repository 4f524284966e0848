package ec2event

import (
	"strings"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// The keys of an EventBridge event, and of the detail of those we read.
const (
	keyID         = "id"
	keySource     = "source"
	keyDetailType = "detail-type"
	keyTime       = "time"
	keyDetail     = "detail"
	keyInstanceID = "instance-id"
	keyState      = "state"
)

// What an event must call itself to be read further.
const (
	sourceEC2         = "aws.ec2"
	sourceAutoScaling = "aws.autoscaling"

	typeStateChange = "EC2 Instance State-change Notification"
	typeLaunch      = "EC2 Instance-launch Lifecycle Action"
)

// parseEventBridge reads an EventBridge event. Only the frame of those that
// are not for us is looked at.
func parseEventBridge(o object) (Event, error) {
	e := Event{
		Kind:       KindOther,
		ID:         o.word(keyID),
		Source:     o.word(keySource),
		DetailType: o.word(keyDetailType),
		Time:       o.time(keyTime),
	}
	if e.Source == "" || e.DetailType == "" {
		return Event{}, malformed("an event without %s or without %s", keySource, keyDetailType)
	}
	detail, ok := o.object(keyDetail)
	if !ok {
		return Event{}, malformed("an event without a %s object", keyDetail)
	}
	switch {
	case e.Source == sourceEC2 && e.DetailType == typeStateChange:
		return withStateChange(e, detail)
	case e.Source == sourceAutoScaling && e.DetailType == typeLaunch:
		return withState(e, detail, keyEC2InstanceID, instance.Pending)
	}
	return e, nil
}

// withStateChange completes e from the detail of a state change.
func withStateChange(e Event, detail object) (Event, error) {
	word := detail.word(keyState)
	if strings.TrimSpace(word) == "" {
		return Event{}, malformed("a state change without a %s", keyState)
	}
	state, known := instance.ParseState(word)
	e, err := withState(e, detail, keyInstanceID, state)
	if err != nil || known {
		return e, err
	}
	// A state that EC2 gained after this was written.
	e.Kind, e.InstanceID, e.State = KindOther, "", ""
	return e, nil
}

// withState makes e a state change of the instance that key names in o. The id
// is never taken from an ARN: published samples have broken ones.
func withState(e Event, o object, key string, state instance.State) (Event, error) {
	text, ok := o.text(key)
	if !ok {
		return Event{}, malformed("no %s", key)
	}
	id, err := instance.ParseID(clip(text, maxQuoted))
	if err != nil {
		return Event{}, malformed("%s: %v", key, err)
	}
	e.Kind, e.InstanceID, e.State = KindStateChange, id, state
	return e, nil
}
