package sqsqueuetest

import (
	"slices"
	"strings"
	"time"
)

// Record is one thing the queue was asked to do about one message.
type Record struct {
	At        time.Time
	Op        Op
	MessageID string
	Receipt   string // the handle it was asked with, or was given
	// For is the new visibility timeout of a Change.
	For time.Duration
	// Done says that it was done: a fault or an old receipt handle can keep it
	// from being.
	Done bool
}

// Journal returns all records so far, oldest first, those of one op only
// unless op is empty.
func (q *Queue) Journal(op Op) []Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.journal), func(r Record) bool { return op != "" && r.Op != op })
}

func (q *Queue) note(op Op, receipt string, d time.Duration, done bool) {
	id, _, _ := strings.Cut(receipt, "/")
	q.journal = append(q.journal, Record{At: time.Now(), Op: op, MessageID: id, Receipt: receipt, For: d, Done: done})
}
