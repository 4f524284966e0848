package lifecycle

import (
	"maps"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// strikes counts, for each instance, how often in a row EC2 said that it does
// not know it.
type strikes struct {
	mu   sync.Mutex
	seen map[instance.ID]strike
}

type strike struct {
	first time.Time
	count int
}

// count adds one and returns how many there are now, and when the first was.
func (s *strikes) count(id instance.ID) strike {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[instance.ID]strike{}
	}
	st := s.seen[id]
	if st.count == 0 {
		st.first = time.Now()
	}
	st.count++
	s.seen[id] = st
	return st
}

// keep forgets all but those for which f holds.
func (s *strikes) keep(f func(instance.ID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(id instance.ID, _ strike) bool { return !f(id) })
}

// forget ends the row.
func (s *strikes) forget(id instance.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, id)
}
