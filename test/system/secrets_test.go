//go:build linux

package system

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// secrets collects what must never stand in a log: every private key that the
// tests made and every token secret that they saw.
var secrets secretList

type secretList struct {
	mu   sync.Mutex
	seen map[string]string
}

func (s *secretList) add(what, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]string{}
	}
	s.seen[secret] = what
	// As the API server's JSON holds it.
	s.seen[base64.StdEncoding.EncodeToString([]byte(secret))] = what + " in base64"
}

// searchLogs reads every log below the folders and returns an error that names
// the files with a secret in them.
func (s *secretList) searchLogs(folders ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return nil // no test that makes secrets was run
	}
	var errs []error
	searched, size := 0, 0
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".log") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			searched++
			size += len(content)
			for secret, what := range s.seen {
				if bytes.Contains(content, []byte(secret)) {
					errs = append(errs, fmt.Errorf("%s holds the %s", path, what))
				}
			}
			return nil
		})
		errs = append(errs, err)
	}
	fmt.Fprintf(os.Stderr, "searched %d logs (%d KiB) for %d secrets\n", searched, size>>10, len(s.seen))
	if searched == 0 {
		errs = append(errs, errors.New("there are no logs to search for secrets"))
	}
	return errors.Join(errs...)
}
