package ec2event

import (
	"strings"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// The keys of a message that Auto Scaling sends without EventBridge.
const (
	keyEvent         = "Event"
	keyTransition    = "LifecycleTransition"
	keyEC2InstanceID = "EC2InstanceId"
	keyAutoTime      = "Time"
)

// transitionLaunching is what a hook says while an instance starts.
const transitionLaunching = "autoscaling:EC2_INSTANCE_LAUNCHING"

// parseAutoScaling reads a message of a lifecycle hook or of a notification
// configuration. A launch is taken as a hint that the instance is pending:
// whoever handles it looks the instance up anyway.
func parseAutoScaling(o object) (Event, error) {
	key := keyEvent // first: the test notification may carry other keys
	if !o.has(key) {
		key = keyTransition
	}
	word := o.word(key)
	if !strings.HasPrefix(word, "autoscaling:") {
		return Event{}, malformed("an Auto Scaling message with %s %s", key, quote(word))
	}
	e := Event{Kind: KindOther, Source: sourceAutoScaling, DetailType: word, Time: o.time(keyAutoTime)}
	if word == transitionLaunching {
		return withState(e, o, keyEC2InstanceID, instance.Pending)
	}
	return e, nil
}
