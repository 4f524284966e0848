package faultproxy

import (
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// AWS starts a proxy in front of an AWS endpoint. Operations have AWS's own
// names, such as ReceiveMessage and DescribeInstances.
func AWS(endpoint string) (*Proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the signature covers it
	}}
	p, err := start(forward, awsOperation)
	if err != nil {
		return nil, err
	}
	go func() { _ = p.server.Serve(p.listener) }() // it ends by Stop only
	return p, nil
}

// URL is the endpoint for the AWS SDK.
func (p *Proxy) URL() string { return "http://" + p.Addr() }

// awsOperation reads the operation of a request in the JSON protocol (SQS) or
// the query protocol (EC2).
func awsOperation(r *http.Request, body []byte) string {
	if _, operation, found := strings.Cut(r.Header.Get("X-Amz-Target"), "."); found {
		return operation
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

const (
	awsJSON = "application/x-amz-json-1.0"
	awsXML  = "text/xml;charset=UTF-8"
)

// SQSError is an error as SQS words it, such as 400 with RequestThrottled, or
// 503 with ServiceUnavailable.
func SQSError(code int, name string) Fault {
	return Respond(answer(code, awsJSON, `{"__type":"com.amazonaws.sqs#%s","message":"%s, says the fault proxy"}`, name, name))
}

// EC2Error is an error as EC2 words it, such as 503 with RequestLimitExceeded.
func EC2Error(code int, name string) Fault {
	return Respond(answer(code, awsXML, `<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>%s</Code><Message>%s, says the fault proxy</Message></Error></Errors><RequestID>0-0</RequestID></Response>`, name, name))
}

// NoInstances is a DescribeInstances answer that holds none.
func NoInstances() Fault {
	return Respond(answer(http.StatusOK, awsXML, `<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>0-0</requestId><reservationSet/></DescribeInstancesResponse>`))
}

// entry is one entry of a batch call and of its answer. Other fields pass
// through in the raw form.
type entry = map[string]any

type batchRequest struct {
	QueueURL string  `json:"QueueUrl"`
	Entries  []entry `json:"Entries"`
}

type batchAnswer struct {
	Successful []entry `json:"Successful"`
	Failed     []entry `json:"Failed"`
}

// FailEntries lets every nth entry of a batch call to SQS fail with that error,
// the first among them; the service does not hear of those. With n 1 all fail.
func FailEntries(n int, name string, senderFault bool) Fault {
	return func(w http.ResponseWriter, r *Request) {
		var request batchRequest
		if json.Unmarshal(r.Content, &request) != nil {
			panic(http.ErrAbortHandler)
		}
		var passed []entry
		var failed []entry
		for i, e := range request.Entries {
			if i%n != 0 {
				passed = append(passed, e)
				continue
			}
			failed = append(failed, entry{"Id": e["Id"], "Code": name, "SenderFault": senderFault, "Message": name + ", says the fault proxy"})
		}
		result, err := forwardEntries(r, request.QueueURL, passed)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		result.Failed = append(result.Failed, failed...)
		content, err := json.Marshal(result)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		send(w, answer(http.StatusOK, awsJSON, "%s", content))
	}
}

// forwardEntries asks the service for those entries only.
func forwardEntries(r *Request, queueURL string, entries []entry) (result batchAnswer, err error) {
	if len(entries) == 0 {
		return result, nil
	}
	body, err := json.Marshal(batchRequest{queueURL, entries})
	if err != nil {
		return result, err
	}
	a, err := r.Forward(body)
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal(a.Content, &result)
}
