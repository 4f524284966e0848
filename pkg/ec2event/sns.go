package ec2event

// The keys of an SNS envelope.
const (
	keyMessage   = "Message"
	keyType      = "Type"
	keyTimestamp = "Timestamp"
)

// isEnvelope tells an SNS envelope from an event, which has no message.
func isEnvelope(o object) bool { return o.has(keyMessage) && !o.has(keyDetailType) }

// openEnvelope reads the event in an SNS envelope. Envelopes do not nest.
func openEnvelope(envelope object) (Event, error) {
	switch kind := envelope.word(keyType); kind {
	case "Notification", "":
	case "SubscriptionConfirmation", "UnsubscribeConfirmation":
		// Sent to a queue of another account; its message is prose.
		return Event{Kind: KindOther, Source: "aws.sns", DetailType: kind, Time: envelope.time(keyTimestamp)}, nil
	default:
		return Event{}, malformed("an SNS envelope of unknown Type %s", quote(kind))
	}
	message, ok := envelope.text(keyMessage)
	if !ok {
		return Event{}, malformed("an SNS envelope whose Message is no string")
	}
	o, err := decodeObject([]byte(message))
	if err != nil {
		return Event{}, malformed("in the SNS envelope: %v", err)
	}
	return parseBare(o)
}
