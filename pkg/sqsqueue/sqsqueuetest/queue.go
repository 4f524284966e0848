// Package sqsqueuetest has an SQS queue in memory for tests. It behaves as a
// standard queue at its worst: messages come back when their visibility
// timeout ends, only the newest receipt handle counts, a delete by an older one
// is accepted and does nothing. It keeps time with package time, so it works
// inside testing/synctest.
package sqsqueuetest

import (
	"fmt"
	"sync"
	"time"
)

// Queue is one queue in memory; make it with New. It has the methods of
// sqsqueue.API.
type Queue struct {
	mu       sync.Mutex
	messages []*message
	dead     []*message
	faults   Faults
	journal  []Record
	changed  chan struct{} // closed and renewed when a message may be visible
	sent     int

	// MaxReceives moves a message to the dead letters instead of handing it
	// out once more than so many times; 0: there is no redrive policy.
	MaxReceives int
	// MaxMessages limits what one receive hands out below what was asked for;
	// 0: no limit of its own.
	MaxMessages int
}

type message struct {
	id, body  string
	sent      time.Time
	visibleAt time.Time
	receives  int
	receipt   string // the newest
}

// New returns an empty queue.
func New() *Queue { return &Queue{changed: make(chan struct{})} }

// Send puts a message in and returns its id.
func (q *Queue) Send(body string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	m := &message{id: fmt.Sprintf("message-%d", q.sent), body: body, sent: time.Now(), visibleAt: time.Now()}
	q.messages = append(q.messages, m)
	q.wake()
	return m.id
}

// ShowAll makes every message visible at once, as if its visibility timeout
// had just ended, and so takes their worth from all receipt handles.
func (q *Queue) ShowAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		m.visibleAt = time.Now()
	}
	q.wake()
}

// Left returns the ids of the messages that were not deleted, dead letters
// not counted.
func (q *Queue) Left() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return ids(q.messages)
}

// Dead returns the ids of the dead letters.
func (q *Queue) Dead() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return ids(q.dead)
}

// Visible returns the ids of the messages that anybody may receive now.
func (q *Queue) Visible() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var visible []*message
	for _, m := range q.messages {
		if !m.visibleAt.After(time.Now()) {
			visible = append(visible, m)
		}
	}
	return ids(visible)
}

func ids(messages []*message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.id)
	}
	return out
}

// wake lets waiting receives look again. The caller holds the mutex.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}
