package ec2event

// Parse reads the body of a queue message. The shape is recognised by content:
// an EventBridge event, Auto Scaling's own message, or either of them in one
// SNS envelope. A body that cannot be understood is an ErrMalformed.
func Parse(body []byte) (Event, error) {
	o, err := decodeObject(body)
	if err != nil {
		return Event{}, malformed("%v", err)
	}
	if isEnvelope(o) {
		return openEnvelope(o)
	}
	return parseBare(o)
}

// parseBare reads what is left when there is no envelope.
func parseBare(o object) (Event, error) {
	switch {
	case o.has(keyDetailType), o.has(keySource):
		return parseEventBridge(o)
	case o.has(keyEvent), o.has(keyTransition):
		return parseAutoScaling(o)
	case isEnvelope(o):
		return Event{}, malformed("an SNS envelope in an SNS envelope")
	}
	return Event{}, malformed("a JSON object that is no event: neither %s nor %s nor %s", keyDetailType, keyMessage, keyTransition)
}
