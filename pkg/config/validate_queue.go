package config

import (
	"strings"
	"time"
)

const queueURLExample = "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"

func (p *problems) queue(q Queue) {
	p.queueURL(q)
	p.region("queue.region", q.Region)
	p.duration("queue.visibilityTimeout", q.VisibilityTimeout, 10*time.Second, 12*time.Hour,
		"12h is SQS's own limit; it is extended while work goes on")
	p.duration("queue.waitTime", q.WaitTime, time.Second, 20*time.Second, "20s is SQS's own limit")
	p.wholeSeconds("queue.visibilityTimeout", q.VisibilityTimeout)
	p.wholeSeconds("queue.waitTime", q.WaitTime)
	p.number("queue.concurrency", q.Concurrency, 1000)
}

// queueURL lets http pass, for stand-ins of AWS on loopback.
func (p *problems) queueURL(q Queue) {
	if q.URL == "" {
		p.addf("queue.url", "is empty: want the queue's URL, such as %s", queueURLExample)
		return
	}
	u := p.httpURL("queue.url", q.URL, queueURLExample, "https", "http")
	if u == nil {
		return
	}
	if strings.Trim(u.Path, "/") == "" {
		p.addf("queue.url", "%q names no queue: want the form %s", clip(q.URL), queueURLExample)
	}
	if inURL := queueURLRegion(q.URL); inURL != "" && inURL != q.Region {
		p.addf("queue.region", "is %s, but queue.url is in %s: leave the region out", clip(q.Region), inURL)
	}
}

func (p *problems) wholeSeconds(path string, d time.Duration) {
	if d%time.Second != 0 {
		p.addf(path, "is %s: SQS takes whole seconds only", short(d))
	}
}
